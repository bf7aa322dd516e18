package metrics_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/metrics"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

var update = flag.Bool("update", false, "write the reference")

// engine returns what a scrape reads.
type engine struct {
	err   error
	tools int // in addition to pay
}

func (e engine) Call(_ context.Context, op *api.Operation, request any) (any, error) {
	if e.err != nil {
		return nil, e.err
	}
	switch op.Name {
	case api.Info.Name:
		return toolcall.InfoReply{Version: "v1", Engine: "eng_1", Space: "default", Durability: "fsynced", Open: 7, Blocked: 1, Tools: []string{"pay", "tool-2999"}, PolicyErr: "bad", AnchorNew: true, Clocks: []toolcall.ClockReading{{Who: "worker wk-1", AheadMS: -240_500}}}, nil
	case api.Load.Name:
		return load(request)
	case api.PolicyStatus.Name:
		return api.PolicyStatusReply{Bundle: "sha256:1", Rules: 3, Loads: 2, Refused: 1, Loaded: time.Unix(1700000000, 0), Shadow: &api.ShadowPolicyStatus{Compared: 10, Differing: 4}}, nil
	case api.Activity.Name:
		return e.activity(), nil
	}
	return nil, fmt.Errorf("no scrape needs %s", op.Name)
}

// store returns what a scrape reads of a journal.
type store struct {
	err          error
	destinations int // in addition to bot and idle
}

func (s store) Unsigned(context.Context) (uint64, time.Time, error) {
	return 12, time.Now().Add(-time.Hour), s.err
}

func (s store) ListWaiting(context.Context) ([]journal.Waiting, error) {
	out := []journal.Waiting{{Destination: "bot", Records: 3, Oldest: time.Now().Add(-time.Hour)}, {Destination: "idle"}}
	for i := range s.destinations {
		out = append(out, journal.Waiting{Destination: fmt.Sprint("more", i)})
	}
	return out, s.err
}

// A scrape exports what is not signed and what webhooks have not received, also of an engine that
// does not answer.
func TestMetricsOfTheJournal(t *testing.T) {
	for _, cfg := range []metrics.Config{
		{Engine: engine{}, Journal: store{}}, {Engine: engine{err: message.ErrUnavailable}, Journal: store{}},
		{Spaces: map[toolcall.SpaceID]metrics.Space{"a": {Engine: engine{}, Journal: store{}}}},
	} {
		text := strings.Join(scrape(t, cfg, metrics.NewProcess()), "\n") + "\n"
		text = strings.NewReplacer(`{space="a"}`, "", `,space="a"}`, "}").Replace(text)
		for _, want := range []string{
			"askance_journal_unsigned_records 12\n", "askance_journal_unsigned_oldest_seconds 36", `askance_webhook_waiting_records{destination="bot"} 3` + "\n",
			`askance_webhook_oldest_seconds{destination="bot"} 36`, `askance_webhook_waiting_records{destination="idle"} 0` + "\n", `askance_webhook_oldest_seconds{destination="idle"} 0` + "\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
	}
	text := strings.Join(scrape(t, metrics.Config{Engine: engine{}, Journal: store{err: message.ErrUnavailable}}, metrics.NewProcess()), "\n")
	if !strings.Contains(text, "askance_journal_unsigned_records NaN") || strings.Contains(text, "askance_webhook") || !strings.Contains(text, "askance_up 1") {
		t.Errorf("of a journal that does not answer:\n%s", text)
	}
	answers := &store{}
	handler := metrics.Handler(metrics.Config{Engine: engine{}, Journal: answers}, metrics.NewProcess())
	for _, answers.err = range []error{nil, message.ErrUnavailable} {
		reply := httptest.NewRecorder()
		handler.ServeHTTP(reply, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		text = reply.Body.String()
	}
	for _, want := range []string{`waiting_records{destination="bot"} NaN`, `oldest_seconds{destination="idle"} NaN`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s after a listing that failed in\n%s", want, text)
		}
	}
	text = strings.Join(scrape(t, metrics.Config{Engine: engine{}, Journal: store{destinations: 300}}, metrics.NewProcess()), "\n")
	if n := strings.Count(text, "askance_webhook_waiting_records{"); n != 200 {
		t.Errorf("%d destinations have a series, want 200", n)
	}
}

func load(request any) (toolcall.LoadReply, error) {
	r, _ := request.(toolcall.LoadRequest)
	if r.Window() {
		if ago := time.Since(r.Since); ago < 30*time.Minute || ago > 31*time.Minute || !r.Until.IsZero() {
			return toolcall.LoadReply{}, message.ErrInvalid
		}
		return toolcall.LoadReply{
			People: []toolcall.ReviewerLoad{{Name: "ann", Answered: 2, Approved: 1, Rejected: 1, Within2S: 1, MedianMS: 2500}, {Name: "bob", Open: 3}, {Name: "eve", Passed: 1}},
		}, nil
	}
	return toolcall.LoadReply{
		Open: 5, Unassigned: 2, Refused: 3, Limits: toolcall.ReviewerLimits{PerHour: 60},
		People: []toolcall.ReviewerLoad{{Name: "ann \"x\"\n", Open: 3, Answered: 4, Approved: 3, Rejected: 1, Within2S: 2, MedianMS: 1500, TotalMS: 9000}},
		Groups: []toolcall.ReviewerLoad{{Name: "ops", Open: 1}},
	}, nil
}

func (e engine) activity() toolcall.ActivityReply {
	counts := toolcall.ActivityCounts{Proposed: 5, Asked: 3, Approved: 2, Rejected: 1, Denied: 2, Started: 2, Succeeded: 1, Failed: 1, Retried: 1}
	times := toolcall.ActivityTimes{Count: 3, SumMS: 4500, Buckets: []toolcall.ActivityUpTo{{UpToMS: 1000, Count: 2}, {UpToMS: 5000}, {Count: 1}}}
	out := toolcall.ActivityReply{
		ByToolAndRule: []toolcall.ActivityCell{{Tool: "pay", Rule: "large", ActivityCounts: counts}},
		ByTool: []toolcall.ActivityTool{{
			ActivityShare: toolcall.ActivityShare{Name: "pay", ActivityCounts: counts},
			ToDecision:    times, Queued: times, Run: times,
		}},
		Queues: []toolcall.ActivityQueue{{Tool: "pay", Placement: toolcall.PlaceRemote, Depth: 2, Oldest: time.Now().Add(-time.Hour), Running: 1, Workers: []toolcall.ActivityWorker{{Name: "wk", Running: 1}, {Name: "gone", LastHeard: time.Now().Add(-time.Hour)}}}},
	}
	for i := range e.tools {
		name := fmt.Sprintf("tool-%04d", i)
		c := toolcall.ActivityCounts{Proposed: 1, Allowed: 1}
		out.ByTool = append(out.ByTool, toolcall.ActivityTool{ActivityShare: toolcall.ActivityShare{Name: name, ActivityCounts: c}})
		out.ByToolAndRule = append(out.ByToolAndRule, toolcall.ActivityCell{Tool: name, Rule: name, ActivityCounts: c})
	}
	return out
}

func scrape(t *testing.T, cfg metrics.Config, process *metrics.Process) []string {
	t.Helper()
	cfg.Recent = 30 * time.Minute
	w := httptest.NewRecorder()
	metrics.Handler(cfg, process).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	var out []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "askance_") && !strings.Contains(line, "_bucket{") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

func TestMetrics(t *testing.T) {
	process := metrics.NewProcess()
	process.Wrote(10 * time.Millisecond)
	process.Served("GET", "/v1/calls", 200, time.Second)
	own := []metrics.Number{metrics.Own(metrics.NATSConnected, func() float64 { return 1 }), metrics.Own(metrics.NATSReconnects, func() float64 { return 2 })}
	got := scrape(t, metrics.Config{Engine: engine{}, Own: own}, process)
	text := strings.Join(got, "\n")
	for _, want := range []string{
		"askance_up 1", `askance_build_info{durability="fsynced",engine="eng_1",space="default",version="v1"} 1`,
		`askance_decisions_total{rule="large",tool="pay",verdict="approve"} 2`, `askance_decisions_total{rule="large",tool="pay",verdict="deny"} 2`,
		`askance_decisions_total{rule="large",tool="pay",verdict="expire"} 0`, `askance_calls_finished_total{outcome="error",tool="pay"} 1`, `askance_calls_proposed_total{tool="pay"} 5`, `askance_retries_total{tool="pay"} 1`,
		`askance_decision_seconds_count{tool="pay"} 3`, `askance_decision_seconds_sum{tool="pay"} 4.5`,
		`askance_queue_depth{placement="remote",route="",tool="pay"} 2`, `askance_queue_workers{placement="remote",route="",tool="pay"} 1`,
		`askance_policy_info{bundle="sha256:1"} 1`, `askance_policy_reloads_total{result="refused"} 1`, "askance_policy_loaded_timestamp_seconds 1.7e+09", "askance_policy_error 1", "askance_journal_anchor_new 1",
		`askance_shadow_policy_calls_total{result="different"} 4`, `askance_clock_ahead_seconds{who="worker wk-1"} -240.5`,
		"askance_journal_write_seconds_count 1", `askance_http_requests_total{method="GET",route="/v1/calls",status="200"} 1`,
		"askance_nats_connected 1", "askance_nats_reconnects_total 2", "askance_open_requests 5", `askance_reviewer_limit{limit="per_hour"} 60`,
		`askance_reviewer_open_requests{kind="group",name="ops"} 1`,
	} {
		if !strings.Contains(text+"\n", want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if more := strings.Join(scrape(t, metrics.Config{Engine: engine{tools: 1}}, process), "\n"); strings.Count(more, "askance_run_seconds_count{") != 1 {
		t.Error("a histogram without times has the bucket +Inf: the others begin later, and quantiles of rates are wrong")
	}
	if i := strings.Index(text, "askance_queue_oldest_seconds"); i < 0 || !regexp.MustCompile(`askance_queue_oldest_seconds{.*} 36\d\d`).MatchString(text[i:]) {
		t.Errorf("the oldest call waits for an hour: %s", text[max(0, i):])
	}
}

// Names of people are labels only if the operator enables them.
func TestPeople(t *testing.T) {
	for _, people := range []bool{false, true} {
		text := strings.Join(scrape(t, metrics.Config{Engine: engine{}, People: people}, metrics.NewProcess()), "\n")
		for _, series := range []string{
			`askance_reviewer_open_requests{kind="person",name="ann \"x\"\n"} 3`, `askance_reviewer_recent_approve_ratio{kind="person",name="ann"} 0.5`,
			`askance_reviewer_recent_responses{kind="person",name="eve",response="pass"} 1`, `askance_reviewer_response_seconds_sum{kind="person",name="ann \"x\"\n"} 9`,
		} {
			if strings.Contains(text, series) != people {
				t.Errorf("People %v: %s in\n%s", people, series, text)
			}
		}
		if strings.Contains(text, "ann") != people {
			t.Errorf("People %v: unexpected names in\n%s", people, text)
		}
	}
}

// All tools and rules above a limit share one series; the engine's own tools keep theirs.
func TestSeriesAreBounded(t *testing.T) {
	h := metrics.Handler(metrics.Config{Engine: engine{tools: 3000}, Recent: 30 * time.Minute}, metrics.NewProcess())
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if n := strings.Count(w.Body.String(), "\naskance_decisions_total{"); n > 510 {
		t.Errorf("%d series of decisions", n)
	}
	if n := strings.Count(w.Body.String(), "\naskance_calls_proposed_total{"); n > 53 {
		t.Errorf("%d series of proposed calls", n)
	}
	for _, want := range []string{`askance_decisions_total{rule="other",tool="other",verdict="allow"} 2501`, `askance_calls_proposed_total{tool="other"} 2949`, `askance_calls_proposed_total{tool="tool-2999"} 1`} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

func TestMetricsOfASilentEngine(t *testing.T) {
	got := scrape(t, metrics.Config{Engine: engine{err: message.ErrUnavailable}}, metrics.NewProcess())
	if text := strings.Join(got, " "); text != "askance_journal_write_seconds_sum 0 askance_journal_write_seconds_count 0 askance_up 0" {
		t.Errorf("got %s", text)
	}
}

// TestReference: docs/metrics.md lists exactly the exported metrics.
func TestReference(t *testing.T) {
	const path, begin, end = "../../../../docs/metrics.md", "<!-- metrics:begin -->\n", "<!-- metrics:end -->"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(b), begin)
	have, tail, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s has no block %s", path, begin)
	}
	want := metrics.Reference()
	if *update {
		if err := os.WriteFile(path, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		have = want
	}
	if have != want {
		t.Errorf("%s differs from the code: run go test ./cmd/askance/internal/metrics -update", path)
	}
	process := metrics.NewProcess()
	process.Served("GET", "/", 200, time.Second)
	own := []metrics.Number{metrics.Own(metrics.NATSConnected, zero), metrics.Own(metrics.NATSReconnects, zero), metrics.Own(metrics.TokenError, zero), metrics.Own(metrics.DirectoryError, zero), metrics.Own(metrics.DeadLetters, zero)}
	exported := map[string]bool{}
	w := httptest.NewRecorder()
	metrics.Handler(metrics.Config{Engine: engine{}, Journal: store{}, People: true, Recent: 30 * time.Minute, Own: own}, process).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (askance_\S+) (\S+)$`).FindAllStringSubmatch(w.Body.String(), -1) {
		exported[m[1]] = true
		if !strings.Contains(want, "| `"+m[1]+"` | "+m[2]+" |") {
			t.Errorf("the reference lacks the %s %s", m[2], m[1])
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(askance_\\S+)`").FindAllStringSubmatch(want, -1) {
		if !exported[m[1]] {
			t.Errorf("%s is not exported", m[1])
		}
	}
}

func zero() float64 { return 0 }

func TestServe(t *testing.T) {
	l, err := metrics.Listen(t.Context(), ":0")
	if err != nil {
		t.Fatal(err)
	}
	s := metrics.Serve(l, metrics.Config{Engine: engine{}, Recent: time.Hour, Own: []metrics.Number{metrics.Own(metrics.TokenError, func() float64 { return 7 })}}, metrics.NewProcess())
	if !strings.HasPrefix(s.URL(), "http://127.0.0.1:") {
		t.Errorf("an address without a host does not mean loopback: %s", s.URL())
	}
	resp, err := http.Get(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || !strings.Contains(string(body), "go_goroutines") || !strings.Contains(string(body), "askance_http_token_error 7") {
		t.Errorf("%v\n%s", err, body)
	}
	rebound, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	rebound.Host = "evil.example:9464" // its name resolves to loopback
	refused, err := http.DefaultClient.Do(rebound)
	if err != nil {
		t.Fatal(err)
	}
	_ = refused.Body.Close()
	if refused.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site: status %d", refused.StatusCode)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := metrics.Listen(t.Context(), "nowhere"); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("no address: %v", err)
	}
}

// piped is a listener for one connection through memory.
type piped struct{ c chan net.Conn }

func (p piped) Accept() (net.Conn, error) {
	if c, ok := <-p.c; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p piped) Close() error { close(p.c); return nil }

func (piped) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// A scrape whose body never arrives ends its connection.
func TestBodyThatNeverArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := piped{make(chan net.Conn, 1)}
		s := metrics.Serve(l, metrics.Config{Engine: engine{}, Recent: time.Hour}, metrics.NewProcess())
		c, there := net.Pipe()
		l.c <- there
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("the connection is open after an hour: %v", err)
		}
		if err := errors.Join(c.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
}
