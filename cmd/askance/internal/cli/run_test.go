package cli_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestWorkerRunsACommand(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	var errs bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() {
		code := cli.Main(ctx, cli.IO{In: strings.NewReader(""), Out: &errs, Err: &errs}, []string{
			"worker", "--tool", "pay", "--tool", "boss", "--data", s.data, "--as", "w1", "--",
			"sh", "-c", `read -r in; echo "$ASKANCE_TOOL $ASKANCE_ATTEMPT $in"`,
		})
		if code != cli.ExitOK {
			t.Errorf("worker: exit %d\n%s", code, errs.String())
		}
	})
	s.propose("r1", "c1", "pay", `{"cents":5}`)
	c := s.finished("c1")
	if got := strings.TrimSpace(c.Result.Output.String()); got != `pay 1 {"cents":5}` || c.Attempt.Worker != "w1" {
		t.Errorf("the result is %q by %s", got, c.Attempt.Worker)
	}
	s.propose("r1", "c2", "boss", `{}`)
	ok(t, "approve", "c2", "--yes", "--as", "boss", "--data", s.data)
	if c := s.finished("c2"); !strings.HasPrefix(c.Result.Output.String(), "boss 1 ") {
		t.Errorf("the result is %q", c.Result.Output)
	}
	cancel()
	wg.Wait()
}

// TestOffline: without a server a command reads the folder, says so, and decides only
// with --offline. No command starts an engine unasked.
func TestOffline(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "c1", "pay", `{"cents":500}`)
	s.propose("r1", "c2", "ship", `{"cents":500}`)
	s.stop()
	for _, name := range []string{"endpoint", "console"} {
		if _, err := os.Stat(filepath.Join(s.data, name)); err == nil {
			t.Errorf("a stopped server left the file %s behind", name)
		}
	}
	r := run(t, "list", "--data", s.data)
	if r.code != cli.ExitOK || !strings.Contains(r.err, "No server runs on "+s.data) {
		t.Errorf("list: exit %d\n%s%s", r.code, r.out, r.err)
	}
	if n := len(decode[toolcall.ListReply](t, ok(t, "list", "--json", "--data", s.data)).Calls); n != 2 {
		t.Errorf("%d open calls, want 2", n)
	}
	start := "start it with askance serve --data " + s.data
	for _, args := range []string{"approve c1 --yes", "reject c1 --yes", "respond c1 --output x --yes", "revoke c1", "interrupt c1", "resolve c1 --outcome happened", "standing revoke sta_1"} {
		fails(t, cli.ExitUnavailable, start, append(strings.Fields(args), "--data", s.data)...)
	}
	if r := run(t, "__complete", "show", "--data", s.data, ""); strings.Contains(r.out, "c1") {
		t.Errorf("a completion opened the data folder:\n%s", r.out)
	}
	// As after a kill: the file is there, the server is not.
	write(t, filepath.Join(s.data, "endpoint"), "nats://127.0.0.1:1\n")
	fails(t, cli.ExitUnavailable, start, "approve", "c1", "--yes", "--data", s.data)
	if out := ok(t, "approve", "c1", "--yes", "--offline", "--data", s.data); !strings.Contains(out, "c1 is queued") {
		t.Errorf("approve printed %q", out)
	}
	if out := ok(t, "approve", "c2", "--yes", "--offline", "--data", s.data); !strings.Contains(out, "c2 is ready: waiting for an engine that has the tool") {
		t.Errorf("approve printed %q", out)
	}
	fails(t, cli.ExitConflict, "waits for no approval", "approve", "c1", "--yes", "--offline", "--data", s.data)
	fails(t, cli.ExitNotFound, "no space other", "list", "--space", "other", "--data", s.data)
	if out := ok(t, "events", "tail", "s1", "--data", s.data); strings.Count(out, "USER_CONFIRM_RESULT") != 2 {
		t.Errorf("the events do not have both answers:\n%s", out)
	}

	// The next server runs what was approved meanwhile.
	dir := filepath.Dir(s.data)
	next := serveOn(t, s.data, "--policy", filepath.Join(dir, "rules.yaml"), "--tools", filepath.Join(dir, "tools.yaml"))
	if c := next.finished("c2"); c.Result.State != message.ToolResultSuccess {
		t.Errorf("c2 ended as %+v", c.Result)
	}

	if err := os.Remove(filepath.Join(s.data, "last-run.yaml")); err != nil {
		t.Fatal(err)
	}
	next.stop()
	fails(t, cli.ExitUnavailable, "does not record the policy and tools", "revoke", "c1", "--offline", "--data", s.data)
}

func TestServeWithoutPolicyAsks(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tools.yaml"), testTools)
	s := serveOn(t, filepath.Join(dir, "data"), "--tools", filepath.Join(dir, "tools.yaml"))
	if c := s.propose("r1", "c1", "ship", `{"cents":1}`); c.State != message.ToolCallAsking {
		t.Errorf("without a policy a call is %s, want asking", c.State)
	}
}

// TestStopIsQuick: a reader must not hold up a stop for long.
func TestStopIsQuick(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	began := time.Now()
	s.stop()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("an idle server took %s to stop", took)
	}
}

func TestDemo(t *testing.T) {
	cleanEnvironment(t)
	data := filepath.Join(t.TempDir(), "demo")
	began := time.Now()
	out := ok(t, "demo", "--yes", "--data", data, "--pace", "0s", "--durability", "cached")
	t.Logf("the demo took %s", time.Since(began))
	for _, want := range []string{
		"rule read-logs", "rule count-in-logs", "after", "no-destruction", "refund-over-limit", "by demo-script",
		"by worker incident-worker", "progress", "booked as re_0001", "rebuilt from its", " list --all --data " + data,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the story does not say %q", want)
		}
	}
	if strings.Contains(out, "FAIL") || strings.Count(out, "  ok   ") != 4 {
		t.Error("not every check is ok")
	}
	if strings.Contains(out, "\x1b") {
		t.Error("colour without a terminal")
	}
	if t.Failed() {
		t.Log(out)
	}

	if out := ok(t, "list", "--data", data); out != "No open calls.\n" {
		t.Errorf("list printed %q", out)
	}
	if n := len(decode[toolcall.ListReply](t, ok(t, "list", "--all", "--json", "--data", data)).Calls); n != 5 {
		t.Errorf("%d calls, want 5", n)
	}
	if out := ok(t, "show", "call_refund", "--data", data); !strings.Contains(out, "refunded 249.00 EUR") {
		t.Errorf("show printed\n%s", out)
	}
	m, err := message.DecodeMsg([]byte(ok(t, "events", "replay", "--json", "--data", data)))
	if err != nil || len(message.BlocksOf[*message.ToolResultBlock](m)) != 5 || m.Usage == nil || m.FinishedReason == nil {
		t.Errorf("the rebuilt message is %v, %v", m, err)
	}
}

func TestDemoJSON(t *testing.T) {
	cleanEnvironment(t)
	data := filepath.Join(t.TempDir(), "demo")
	var types []string
	var summary struct {
		Checks  []struct{ OK bool } `json:"checks"`
		Events  int                 `json:"events"`
		Message message.Msg         `json:"message"`
	}
	for range 2 { // the second time in the folder of the first
		types = nil
		for line := range strings.Lines(ok(t, "demo", "--json", "--data", data, "--pace", "0s", "--durability", "cached")) {
			v := decode[map[string]any](t, line)
			switch {
			case v["summary"] != nil:
				summary = decode[struct {
					Summary struct {
						Checks  []struct{ OK bool } `json:"checks"`
						Events  int                 `json:"events"`
						Message message.Msg         `json:"message"`
					}
				}](t, line).Summary
			case v["event"] != nil:
				types = append(types, v["event"].(map[string]any)["type"].(string))
			default:
				t.Errorf("a line that is neither event nor summary: %s", line)
			}
		}
	}
	if len(types) == 0 || types[0] != "REPLY_START" || types[len(types)-1] != "REPLY_END" || len(types) != summary.Events {
		t.Errorf("%d events from %v, the summary counts %d", len(types), types, summary.Events)
	}
	for i, c := range summary.Checks {
		if !c.OK {
			t.Errorf("check %d failed", i)
		}
	}
}

func TestBench(t *testing.T) {
	cleanEnvironment(t)
	r := decode[struct {
		Durability string
		Raw        struct {
			Pipelined  float64 `json:"pipelined_per_s"`
			Sequential float64 `json:"sequential_per_s"`
		}
		Workloads []struct {
			Name           string
			Calls          int
			RecordsPerCall float64 `json:"records_per_call"`
			CallsPerSecond float64 `json:"calls_per_s"`
			P50            float64 `json:"p50_us"`
			P99            float64 `json:"p99_us"`
			Share          float64 `json:"share_of_pipelined"`
		}
	}](t, ok(t, "bench", "--calls", "20", "--concurrency", "4", "--duration", "500ms", "--json"))
	if r.Durability != "cached" || r.Raw.Pipelined <= 0 || r.Raw.Sequential <= 0 || len(r.Workloads) != 3 {
		t.Fatalf("the report is %+v", r)
	}
	for i, want := range []float64{2, 2, 4} {
		w := r.Workloads[i]
		if w.Calls != 20 || w.RecordsPerCall != want || w.CallsPerSecond <= 0 || w.P50 <= 0 || w.P99 < w.P50 || w.Share <= 0 {
			t.Errorf("workload %s = %+v, want 20 calls with %v records each", w.Name, w, want)
		}
	}
	if out := ok(t, "bench", "--calls", "5", "--concurrency", "2", "--duration", "500ms", "--workload", "full"); !strings.Contains(out, "records per call             4.00") {
		t.Errorf("bench printed\n%s", out)
	}
}
