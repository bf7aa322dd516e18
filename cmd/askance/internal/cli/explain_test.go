package cli_test

import (
	"bytes"
	"html"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/cmd/askance/internal/explain"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/internal/termtest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const explainedRules = memoryRules + `  - {name: cap, tool_name: pay, behavior: deny, when: args.cents > 9000, locked: true}
  - {name: boss, tool_name: boss, behavior: ask, approvers: {users: [boss]}}
  - {name: recorded, tool_name: pay, behavior: ask, when: args.cents == 777, audit: {level: full}, message: "'An odd sum?'"}
  - {name: secret, tool_name: outside, behavior: ask, when: has(args.pin), redact: [args.pin]}
`

// NATS, HTTP, the command line, the terminal inbox and the web inbox return the same explanation
// of a call: recorded, redacted or based on a standing approval.
func TestSameExplanation(t *testing.T) {
	cleanEnvironment(t)
	s := serveRules(t, explainedRules)
	first := s.propose("r1", "c-first", "pay", `{"cents":500}`)
	ok(t, "approve", "c-first", "--remember", "--scope", "space", "--yes", "--as", "ann", "--data", s.data)
	remembered := s.propose("r2", "c-remembered", "pay", `{"cents":500}`)
	if remembered.Decision.Standing == "" && len(remembered.Decision.StandingApprovals()) == 0 {
		t.Fatalf("no standing approval allowed %+v", remembered.Decision)
	}
	calls := []*toolcall.Call{
		first, remembered,
		s.propose("r3", "c-recorded", "pay", `{"cents":777}`),
		s.propose("r4", "c-denied", "pay", `{"cents":9999}`),
		s.propose("r5", "c-allowed", "pay", `{"cents":5}`),
		s.propose("r6", "c-redacted", "outside", `{"pin":"correct-horse"}`),
		s.propose("r7", "c-boss", "boss", `{}`),
	}
	auditor, err := bus.NewClient(s.connection("audie"), "default", toolcall.Principal{Role: toolcall.RoleAuditor, Name: "audie"})
	if err != nil {
		t.Fatal(err)
	}
	inTerminal, redacted, standing, recorded := 0, 0, 0, 0
	for _, c := range calls {
		want, err := auditor.Explain(t.Context(), toolcall.ExplainRequest{V: 1, Key: c.Key})
		if err != nil {
			t.Fatal(err)
		}
		one := jsonText(t, want)
		_, overHTTP := s.send(http.MethodGet, "/v1/calls/s1/"+string(c.Reply)+"/"+string(c.Call)+"/explain", "")
		var parsed toolcall.ExplainReply
		if err := strictjson.UnmarshalOpen([]byte(overHTTP), &parsed); err != nil || jsonText(t, parsed) != one {
			t.Errorf("HTTP explains %s as\n%s\nNATS explains it as\n%s (%v)", c.Call, overHTTP, one, err)
		}
		printed := decode[struct {
			Explain toolcall.ExplainReply `json:"explain"`
		}](t, ok(t, "show", string(c.Call), "--explain", "--json", "--data", s.data))
		if got := jsonText(t, printed.Explain); got != one {
			t.Errorf("show --explain --json explains %s as\n%s\nNATS explains it as\n%s", c.Call, got, one)
		}
		text, err := explain.Reply(term.New(new(bytes.Buffer)), want)
		if err != nil {
			t.Fatal(err)
		}
		if out := ok(t, "show", string(c.Call), "--explain", "--data", s.data); !strings.HasSuffix(out, text) {
			t.Errorf("show --explain explains %s as\n%s\nwant\n%s", c.Call, out, text)
		}
		if now := s.present(c); now.State == message.ToolCallAsking {
			inTerminal++
			s.checkTerminalExplanation(c, text)
		}
		s.checkWebExplanation(c, want)
		if strings.Contains(one+text, "correct-horse") {
			t.Errorf("the explanation of %s contains a redacted value: %s", c.Call, one)
		}
		standing += len(want.StandingApprovals)
		if c.Hides() {
			redacted++
		}
		if want.Recorded != nil {
			recorded++
		}
	}
	if inTerminal < 3 || redacted == 0 || standing == 0 || recorded == 0 {
		t.Errorf("%d calls in the terminal, %d redacted, %d with a standing approval, %d recorded", inTerminal, redacted, standing, recorded)
	}
}

// present returns the current state of a call.
func (s *served) present(c *toolcall.Call) *toolcall.Call {
	s.t.Helper()
	return decode[toolcall.ShowReply](s.t, ok(s.t, "show", string(c.Call), "--json", "--data", s.data)).Call
}

// checkTerminalExplanation opens the call in the terminal inbox and compares the text of its
// explanation.
func (s *served) checkTerminalExplanation(c *toolcall.Call, want string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), os.Args[0], "inbox", "--nats", s.url, "--as", "ann", "--log-level", "error")
	x := termtest.Open(s.t, 200, 80, cmd)
	x.See("open")
	x.Press("/", "filter:")
	x.Press(string(c.Call)+"\r", "> ")
	x.Press("\r", string(c.Call), "digest")
	x.Press("i", "Explanation: ")
	screen := x.Until("the explanation", func(screen string) bool {
		return strings.Contains(screen, "Explanation: ") && !strings.Contains(screen, "loading")
	})
	if !strings.Contains(words(strings.ReplaceAll(screen, "│", " ")), words(strings.ReplaceAll(want, "│", " "))) {
		s.t.Errorf("the terminal inbox explains %s as\n%s\nwant\n%s", c.Call, screen, want)
	}
	x.Press("\x03")
	x.Ends(cli.ExitInterrupted)
}

// checkWebExplanation opens the call in the web inbox and looks for the decision and
// for the result of each rule.
func (s *served) checkWebExplanation(c *toolcall.Call, want toolcall.ExplainReply) {
	s.t.Helper()
	q := url.Values{"session": {"s1"}, "reply": {string(c.Reply)}, "call": {string(c.Call)}, "explain": {"1"}}
	status, page := s.send(http.MethodGet, "/inbox/call?"+q.Encode(), "", "Accept", "text/html")
	_, found, _ := strings.Cut(page, `id="explained"`)
	seen := words(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString("<"+found, " ")))
	parts := []string{want.Withheld}
	if want.Withheld == "" {
		var e struct {
			Decision  string                   `json:"decision"`
			Reason    string                   `json:"reason"`
			NearMiss  string                   `json:"near_miss"`
			Suggested []message.PermissionRule `json:"suggested_rules"`
			Trace     []struct {
				Rule     string `json:"rule"`
				Behavior string `json:"behavior"`
				Matched  bool   `json:"matched"`
				Failed   bool   `json:"failed"`
			}
		}
		if err := strictjson.UnmarshalOpen(want.Trace, &e); err != nil {
			s.t.Fatal(err)
		}
		parts = []string{e.Decision + " with the current policy: " + e.Reason, e.NearMiss}
		for _, r := range e.Trace {
			verb := map[bool]string{true: "matches", false: "does not match"}[r.Matched]
			if r.Failed {
				verb = "could not be evaluated"
			}
			parts = append(parts, r.Behavior+" "+r.Rule+" "+verb)
		}
		if (e.Decision == "ask") != (len(e.Suggested) > 0) {
			s.t.Errorf("the explanation of %s offers %+v with the decision %s", c.Call, e.Suggested, e.Decision)
		}
		for _, r := range e.Suggested {
			parts = append(parts, "can be remembered: "+asked.RuleText(r))
		}
		for _, l := range want.StandingApprovals {
			parts = append(parts, string(l.Standing.ID)+" , which is "+string(l.State)+" now")
		}
	}
	for _, part := range parts {
		if status != http.StatusOK || !strings.Contains(seen, words(part)) {
			s.t.Errorf("the web inbox does not show %q for %s (status %d):\n%s", part, c.Call, status, seen)
		}
	}
}

func words(text string) string { return strings.Join(strings.Fields(text), " ") }

func jsonText(t *testing.T, x toolcall.ExplainReply) string {
	t.Helper()
	b, err := strictjson.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
