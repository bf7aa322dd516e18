package cli_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/toolcall"
)

// limitedServe serves the test's rules with limits of reviewers and metrics.
func limitedServe(t *testing.T, more ...string) (s *served, flags []string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), testRules)
	write(t, filepath.Join(dir, "tools.yaml"), testTools)
	flags = append([]string{"--policy", filepath.Join(dir, "rules.yaml"), "--tools", filepath.Join(dir, "tools.yaml")}, more...)
	return serveOn(t, filepath.Join(dir, "data"), flags...), flags
}

func TestLoad(t *testing.T) {
	cleanEnvironment(t)
	s, flags := limitedServe(t, "--reviewer-per-minute", "2", "--reviewer-max-open", "5")
	if out := ok(t, "load", "--data", s.data, "--as", "eve"); !strings.Contains(out, "0 open approval requests") || !strings.Contains(out, "There are no responses yet") {
		t.Errorf("without requests: %s", out)
	}
	for _, id := range []string{"c1", "c2", "c3"} {
		s.propose("r-"+id, id, "pay", `{"cents":500}`)
	}
	s.propose("r-c4", "c4", "boss", `{}`)
	ok(t, "approve", "c1", "--data", s.data, "--as", "ann", "--yes")
	ok(t, "reject", "c2", "--data", s.data, "--as", "ann", "--yes")

	r := decode[toolcall.LoadReply](t, ok(t, "load", "--json", "--data", s.data))
	if r.Open != 2 || r.Unassigned != 1 || len(r.People) != 2 || r.Limits.PerMinute != 2 {
		t.Fatalf("load: %+v", r)
	}
	if ann, boss := r.People[0], r.People[1]; ann.Name != "ann" || ann.Answered != 2 || ann.Approved != 1 || boss.Name != "boss" || boss.Open != 1 {
		t.Errorf("load: %+v", r.People)
	}
	text := ok(t, "reviewers", "--data", s.data)
	for _, want := range []string{"2 open approval requests, 1 for any approver", "limits for one reviewer: 2 responses a minute, 5 open requests; this engine refused 0", "REVIEWER", "ann", "50%"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}

	// The third answer within the minute is refused, and the approval request stays open.
	f := fails(t, cli.ExitUnavailable, "ann has answered 2 approval requests within a minute, the limit is 2", "approve", "c3", "--offline", "--data", s.data, "--as", "ann", "--yes")
	if f.out != "" {
		t.Errorf("printed %q", f.out)
	}
	j := run(t, "approve", "c3", "--offline", "--data", s.data, "--as", "ann", "--yes", "--json")
	if e := decode[map[string]map[string]any](t, j.err)["error"]; e["code"] != "over_limit" || e["state"] != "asking" {
		t.Errorf("the error is %v", e)
	}

	// The limit survives the server: a command that opens the folder applies it.
	s.stop()
	fails(t, cli.ExitUnavailable, "the limit is 2", "approve", "c3", "--offline", "--data", s.data, "--as", "ann", "--yes")
	for _, since := range []string{"", "1h"} {
		if r := decode[toolcall.LoadReply](t, ok(t, "load", "--json", "--data", s.data, "--since", since)); r.Open != 2 || r.People[0].Answered != 2 {
			t.Errorf("without a server: %+v", r)
		}
	}

	// Answers are counted within the window; open requests are always the current ones.
	// They come last, because the refusals above must come within a minute of the first answer.
	s = serveOn(t, s.data, flags...)
	for _, tc := range []struct {
		window   string
		answered int
	}{{"--since 1h", 2}, {"--until 1h", 0}, {"--since 2001-02-03 --until 2001-02-04", 0}, {"--since 2001-02-03T04:05:06Z", 2}, {"--since 1h --until 0s", 2}} {
		r := decode[toolcall.LoadReply](t, ok(t, append([]string{"load", "--json", "--data", s.data}, strings.Fields(tc.window)...)...))
		n := 0
		for _, p := range r.People {
			n += p.Answered
		}
		if n != tc.answered || r.Open != 2 || r.Since.IsZero() && r.Until.IsZero() {
			t.Errorf("%s: %d answers, %d open, want %d and 2", tc.window, n, r.Open, tc.answered)
		}
	}
	if text := ok(t, "load", "--data", s.data, "--until", "2001-02-03T04:05:06Z"); !strings.Contains(text, "responses before 2001-02-0") {
		t.Errorf("the output does not name the window:\n%s", text)
	}
	fails(t, cli.ExitUsage, "use a duration such as 24h", "load", "--data", s.data, "--since", "yesterday")
	fails(t, cli.ExitUsage, "must be earlier", "load", "--data", s.data, "--since", "1h", "--until", "2h")
	s.stop()
	ok(t, "approve", "c3", "--offline", "--data", s.data, "--as", "bob", "--yes")

	last := filepath.Join(s.data, "last-run.yaml")
	b, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	write(t, last, strings.Replace(string(b), `"2"`, "many", 1))
	fails(t, cli.ExitUsage, `reviewer_per_minute is "many", use a whole number`, "approve", "c4", "--data", s.data, "--as", "boss", "--yes")
}

func TestServeMetrics(t *testing.T) {
	cleanEnvironment(t)
	s, _ := limitedServe(t, "--metrics", ":0", "--metrics-window", "30m", "--metrics-people")
	s.propose("r1", "c1", "boss", `{}`)
	if !strings.HasPrefix(s.metrics, "http://127.0.0.1:") {
		t.Fatalf("metrics at %q", s.metrics)
	}
	resp, err := http.Get(s.metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"askance_up 1\n", `askance_reviewer_open_requests{kind="person",name="boss"} 1`, "askance_open_requests 1", "askance_reviewer_recent_window_seconds 1800"} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	fails(t, cli.ExitUsage, "is not host:port", "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--metrics", "nowhere")
	fails(t, cli.ExitUsage, "is negative, use 0", "serve", "--data", t.TempDir(), "--reviewer-per-minute", "-1")
	fails(t, cli.ExitUsage, "use a positive time", "serve", "--data", t.TempDir(), "--metrics-window", "0s")
}
