package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
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
		if text := errs.String(); !strings.HasPrefix(text, "Worker w1 runs sh -c ") || !strings.Contains(text, " for the calls of pay, boss, connected to nats://") || strings.Contains(text, "WARN") {
			t.Errorf("the worker printed\n%s", text)
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

// Without a server a command reads the folder, says so, and decides only with --offline. No
// command starts an engine without being asked.
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
	for _, args := range []string{"approve c1 --yes", "reject c1 --yes", "respond c1 --output x --yes", "revoke c1", "interrupt c1", "resolve c1 --outcome happened --output x", "standing revoke sta_1"} {
		fails(t, cli.ExitUnavailable, start, append(strings.Fields(args), "--data", s.data)...)
	}
	if r := run(t, "__complete", "show", "--data", s.data, ""); strings.Contains(r.out, "c1") {
		t.Errorf("a completion opened the data folder:\n%s", r.out)
	}
	// As after a kill, the file exists but the server does not.
	write(t, filepath.Join(s.data, "endpoint"), "nats://127.0.0.1:1\n")
	fails(t, cli.ExitUnavailable, start, "approve", "c1", "--yes", "--data", s.data)
	if out := ok(t, "approve", "c1", "--yes", "--offline", "--data", s.data); !strings.Contains(out, "c1 is queued") {
		t.Errorf("approve printed %q", out)
	}
	if out := ok(t, "approve", "c2", "--yes", "--offline", "--data", s.data); !strings.Contains(out, "c2 is ready: waiting for an engine that has the tool") {
		t.Errorf("approve printed %q", out)
	}
	fails(t, cli.ExitConflict, "does not wait for approval", "approve", "c1", "--yes", "--offline", "--data", s.data)
	fails(t, cli.ExitNotFound, "no journal of the space other", "list", "--space", "other", "--data", s.data)
	if out := ok(t, "events", "tail", "s1", "--data", s.data); strings.Count(out, "USER_CONFIRM_RESULT") != 2 {
		t.Errorf("the events do not contain both answers:\n%s", out)
	}

	// The next server runs the calls that were approved in the meantime.
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

// TestStopIsQuick: a connected reader does not delay a stop for long.
func TestStopIsQuick(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	began := time.Now()
	s.stop()
	if took := time.Since(began); took > 4500*time.Millisecond { // a server waits 5 s for its readers
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
		"by worker incident-worker", "progress", "booked as re_0001", "  console  http://127.0.0.1:",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the demo does not print %q", want)
		}
	}
	if strings.Contains(out, "FAIL") || strings.Count(out, "  ok   ") != 4 {
		t.Error("not every check passed")
	}
	if n := strings.Count(out, "\n"); n > 60 {
		t.Errorf("the demo printed %d lines, want at most 60", n)
	}
	if strings.Contains(out, "\x1b") {
		t.Error("the output has colours without a terminal")
	}
	if t.Failed() {
		t.Log(out)
	}

	try := toTry(t, out)
	if out := ok(t, try[1]...); !strings.Contains(out, "refunded 249.00 EUR") || !strings.Contains(out, "refund-over-limit") {
		t.Errorf("%v printed\n%s", try[1], out)
	}
	if out := ok(t, try[2]...); !strings.Contains(out, "Nothing was changed") {
		t.Errorf("%v printed\n%s", try[2], out)
	}
	demoInWeb(t, append(try[0], "--yes", "--data", data, "--pace", "0s", "--durability", "cached"))

	if out := ok(t, "list", "--data", data); out != "No open calls.\n" {
		t.Errorf("list printed %q", out)
	}
	if n := len(decode[toolcall.ListReply](t, ok(t, "list", "--all", "--json", "--data", data)).Calls); n != 10 {
		t.Errorf("%d calls, want 10 from both runs", n)
	}
	m, err := message.DecodeMsg([]byte(ok(t, "events", "replay", "--json", "--data", data)))
	if err != nil || len(message.BlocksOf[*message.ToolResultBlock](m)) != 5 || m.Usage == nil || m.FinishedReason == nil {
		t.Errorf("the rebuilt message is %v, %v", m, err)
	}
}

// toTry returns the three commands that the demo suggests at its end, without the program.
func toTry(t *testing.T, story string) [][]string {
	t.Helper()
	_, end, _ := strings.Cut(story, "\nThree things to try\n")
	var commands [][]string
	for line := range strings.Lines(end) {
		if program, command, found := strings.Cut(line, "askance "); found && strings.HasPrefix(program, "     ") {
			commands = append(commands, strings.Fields(command))
		}
	}
	if len(commands) != 3 {
		t.Fatalf("the demo ends with %d things to try, want 3:\n%s", len(commands), story)
	}
	return commands
}

// demoInWeb runs a demo that keeps serving, carries out its suggestions, and stops it. Without a
// terminal the demo does not open a browser.
func demoInWeb(t *testing.T, args []string) {
	t.Helper()
	opened := filepath.Join(t.TempDir(), "opened")
	browser := filepath.Join(t.TempDir(), "browser.sh")
	if err := os.WriteFile(browser, []byte("#!/bin/sh\necho \"$1\" >>"+opened+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BROWSER", browser)
	t.Setenv("CI", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pr, pw := io.Pipe()
	var errs bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- cli.Main(ctx, cli.IO{In: strings.NewReader(""), Out: pw, Err: &errs}, args)
		_ = pw.Close()
	}()
	var story strings.Builder
	for lines := bufio.NewScanner(pr); lines.Scan(); {
		story.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "The web console stays") {
			break
		}
	}
	_, at, _ := strings.Cut(story.String(), "  console  ")
	at, _, _ = strings.Cut(at, " ")
	if status, page := fetch(t, at+"/history"); status != http.StatusOK || !strings.Contains(page, "call_refund") {
		t.Errorf("the console at %q returns %d\n%s", at, status, page)
	}
	for _, command := range toTry(t, story.String()) {
		ok(t, command...)
	}
	if b, err := os.ReadFile(opened); err != nil || strings.TrimSpace(string(b)) != at+"/" {
		t.Errorf("the browser got %q, %v: want only the address that askance open opens, %s/", b, err, at)
	}
	cancel()
	if got := <-code; got != cli.ExitInterrupted {
		t.Errorf("exit %d\n%s", got, errs.String())
	}
}

// A server prints in a few lines where it listens, which policy is in force, and one next step.
func TestServeSaysWhatRuns(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	rules, tools := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "tools.yaml")
	write(t, rules, "version: 1\nname: x\nrules:\n  - {name: a, tool: pay, behavior: ask}\n")
	write(t, tools, testTools)
	data := filepath.Join(dir, "data")
	for next, args := range map[string][]string{
		"askance init, then start again with --policy FILE": {"--tools", tools},
		"askance policy put FILE --data " + data:            {"--policy-bucket"},
		"askance open --data " + data:                       {"--policy", rules, "--http-url", "http://inbox.localhost"},
		"askance inbox --data " + data:                      {"--policy", rules, "--tools", tools, "--http", "off"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		pr, pw := io.Pipe()
		var errs bytes.Buffer
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			cli.Main(ctx, cli.IO{In: strings.NewReader(""), Out: pw, Err: &errs}, append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--durability", "cached"}, args...))
			_ = pw.Close()
		}()
		b := make([]byte, 4096)
		n, _ := pr.Read(b) // serve prints the text with one write
		cancel()
		<-ended
		text := string(b[:n])
		want := []string{"askance is running\n", "  nats     nats://127.0.0.1:", "\nNext: ", next}
		if slices.Contains(args, "--policy") {
			want = append(want, "  policy   1 rule in "+rules+", in force since 20")
		} else if slices.Contains(args, "--policy-bucket") {
			want = append(want, "  policy   none is in force: everything but read-only tools is denied\n")
		} else {
			want = append(want, "  policy   no rules: every call needs an approval, unless its mode or tool decides\n")
		}
		switch {
		case slices.Contains(args, "--http-url"):
			want = append(want, "  console  http://inbox.localhost (listens at http://127.0.0.1:")
		case !slices.Contains(args, "off"):
			want = append(want, "  console  http://127.0.0.1:")
		}
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("serve %v does not print %q:\n%s%s", args, part, text, errs.String())
			}
		}
		if !slices.Contains(args, "--tools") && !strings.Contains(text, "--tools FILE adds others") {
			t.Errorf("serve without a tools file does not mention --tools:\n%s", text)
		}
		if lines := strings.Count(text, "\n"); lines > 10 {
			t.Errorf("serve prints %d lines:\n%s", lines, text)
		}
	}
}

// With JSON logs, each line of serve is a record, also the first, the last and an error. It states
// what it assumes about the durability once.
func TestServeWithJSONLogs(t *testing.T) {
	cleanEnvironment(t)
	elsewhere, err := embed.Start(t.Context(), embed.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", Durability: journal.DurabilityCached})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(elsewhere.Close)
	data := filepath.Join(t.TempDir(), "data")
	args := []string{"serve", "--data", data, "--nats", elsewhere.URL(), "--http", "off"}
	type record struct {
		Level, Msg, Next string
		Server           struct{ Durability string }
		Error            struct{ Hint string }
	}
	start := func(more ...string) (text, errs string) {
		ctx, cancel := context.WithCancelCause(t.Context())
		pr, pw := io.Pipe()
		var log bytes.Buffer
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			cli.Main(ctx, cli.IO{In: strings.NewReader(""), Out: pw, Err: &log}, append(args, more...))
			_ = pw.Close()
		}()
		b := make([]byte, 4096)
		n, _ := pr.Read(b) // serve prints its start with one write
		cancel(nil)
		<-ended
		return string(b[:n]), log.String()
	}
	text, errs := start("--log-format", "json")
	if got := decode[record](t, text); got.Level != "INFO" || got.Msg != "askance is running" || got.Server.Durability != "cached" || !strings.Contains(got.Next, "askance init") {
		t.Errorf("the first line is %s", text)
	}
	for line := range strings.Lines(errs) {
		if decode[record](t, line).Level == "" {
			t.Errorf("a line of the log is %s", line)
		}
	}
	if text, errs = start(); strings.Count(text+errs, "--nats-system-creds") != 1 {
		t.Errorf("the assumed durability is not explained once:\n%s%s", text, errs)
	}
	if keys := filepath.Join(data, "engine.key"); !strings.Contains(text, "on that server, keys in "+keys+", ") {
		t.Errorf("serve does not name the key file %s:\n%s", keys, text)
	}
	moved := filepath.Join(t.TempDir(), "space.key")
	if err := os.Rename(filepath.Join(data, "engine.key"), moved); err != nil {
		t.Fatal(err)
	}
	if text, errs = start("--keys", moved); !strings.Contains(text, "on that server, keys in "+moved+", ") {
		t.Errorf("serve does not name the file of --keys:\n%s%s", text, errs)
	}
	r := fails(t, cli.ExitUsage, "", append(args, "--log-format", "json", "--durability", "fast")...)
	if got := decode[record](t, r.err); got.Level != "ERROR" || !strings.Contains(got.Msg, "--durability is") {
		t.Errorf("an error is %s", r.err)
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
	for range 2 { // the second run uses the folder of the first
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
				t.Errorf("a line that is neither an event nor the summary: %s", line)
			}
		}
	}
	if len(types) == 0 || types[0] != "REPLY_START" || types[len(types)-1] != "REPLY_END" || len(types) != summary.Events {
		t.Errorf("got %d events %v, the summary counts %d", len(types), types, summary.Events)
	}
	for i, c := range summary.Checks {
		if !c.OK {
			t.Errorf("check %d failed", i)
		}
	}
}

func TestBench(t *testing.T) {
	cleanEnvironment(t)
	first := ok(t, "bench", "--calls", "20", "--concurrency", "4", "--duration", "500ms", "--json")
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
			PerCall        struct {
				CPU float64 `json:"cpu_us"`
			} `json:"per_call"`
		}
	}](t, first)
	if r.Durability != "cached" || r.Raw.Pipelined <= 0 || r.Raw.Sequential <= 0 || len(r.Workloads) != 3 {
		t.Fatalf("the report is %+v", r)
	}
	for i, want := range []float64{2, 2, 4} {
		w := r.Workloads[i]
		if w.Calls != 20 || w.RecordsPerCall != want || w.CallsPerSecond <= 0 || w.P50 <= 0 || w.P99 < w.P50 || w.Share <= 0 || w.PerCall.CPU <= 0 {
			t.Errorf("workload %s = %+v, want 20 calls with %v records each", w.Name, w, want)
		}
	}
	earlier := filepath.Join(t.TempDir(), "earlier.json")
	if err := os.WriteFile(earlier, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	out := ok(t, "bench", "--calls", "200", "--concurrency", "2", "--duration", "500ms", "--workload", "full", "--profile", "--compare", earlier)
	for _, want := range []string{"records per call             4.00", "Not the same: concurrency was 4 and is 2.", "processor time by stage", "full     processor time, µs"} {
		if !strings.Contains(out, want) {
			t.Errorf("bench printed no %q:\n%s", want, out)
		}
	}
	if err := os.WriteFile(earlier, []byte(`{"workloads":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitUsage, "is not a report of askance bench --json: it has no workloads", "bench", "--compare", earlier)
	fails(t, cli.ExitUsage, "cannot read the earlier report", "bench", "--compare", earlier+".none")
}
