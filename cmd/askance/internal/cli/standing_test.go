package cli_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const memoryRules = `
version: 1
name: memory
rules:
  - name: large
    tool_name: pay
    behavior: ask
    when: args.cents > 100
    message: "'Pay ' + string(args.cents) + ' cents?'"
    remember: {scope: caller.user, ttl: 1h, max_uses: 3}
  - {name: small, tool_name: pay, behavior: allow, when: args.cents <= 100}
`

func TestRememberOnTerms(t *testing.T) {
	cleanEnvironment(t)
	s := serveRules(t, memoryRules)
	at := []string{"--data", s.data, "--as", "ann"}
	if out := ok(t, append([]string{"standing", "list"}, at...)...); out != "No standing approvals.\n" {
		t.Errorf("standing list printed %q", out)
	}
	s.propose("r1", "c1", "pay", `{"cents":500}`)
	if out := ok(t, append([]string{"show", "c1"}, at...)...); !strings.Contains(out, "for at most 1h, for 3 later calls, with the same caller.user") {
		t.Errorf("show printed %q", out)
	}
	fails(t, cli.ExitForbidden, "at most 3 further calls", append([]string{"approve", "c1", "--yes", "--remember", "--uses", "4"}, at...)...)
	fails(t, cli.ExitForbidden, "remembering only until", append([]string{"approve", "c1", "--yes", "--remember", "--until", "2h"}, at...)...)
	fails(t, cli.ExitUsage, "write it as", append([]string{"approve", "c1", "--yes", "--remember", "--budget", "cents"}, at...)...)
	fails(t, cli.ExitUsage, "write a duration", append([]string{"approve", "c1", "--yes", "--remember", "--until", "tomorrow"}, at...)...)
	fails(t, cli.ExitUsage, "use call_like", append([]string{"approve", "c1", "--yes", "--remember", "--scope", "world"}, at...)...)
	fails(t, cli.ExitUsage, "pass --remember", append([]string{"approve", "c1", "--yes", "--uses", "2"}, at...)...)
	if out := ok(t, append([]string{"approve", "c1", "--yes", "--remember", "--scope", "space", "--until", "30m", "--uses", "2", "--budget", "args.cents=1500"}, at...)...); !strings.Contains(out, "; standing approval sta_") || !strings.Contains(out, ": scope space, 2 of 2 uses left") {
		t.Errorf("approve --remember printed %q", out)
	}
	given := decode[toolcall.ShowReply](t, ok(t, append([]string{"show", "c1", "--json"}, at...)...)).Call
	if len(given.StandingApprovals) != 1 {
		t.Fatalf("the standing approvals of the call are %+v", given.StandingApprovals)
	}
	id := string(given.StandingApprovals[0].ID)

	if c := s.propose("r1", "c2", "pay", `{"cents":1000}`); c.State != message.ToolCallSubmitted || string(c.Decision.Standing) != id {
		t.Fatalf("the next call is %s by %+v", c.State, c.Decision)
	}
	if c := s.propose("r1", "c3", "pay", `{"cents":501}`); c.State != message.ToolCallAsking {
		t.Errorf("above the budget the call is %s", c.State)
	}
	if out := ok(t, append([]string{"show", "c2", "--explain"}, at...)...); !strings.Contains(out, "explanation with the current policy:\nask by rule large") {
		t.Errorf("show --explain printed %q", out)
	}
	var why struct {
		Explain toolcall.ExplainReply `json:"explain"`
	}
	if err := strictjson.UnmarshalOpen([]byte(ok(t, append([]string{"show", "c2", "--explain", "--json"}, at...)...)), &why); err != nil || len(why.Explain.StandingApprovals) != 1 || *why.Explain.StandingApprovals[0].UsesLeft != 1 || len(why.Explain.Trace) == 0 {
		t.Errorf("show --explain --json = %+v, %v", why, err)
	}
	for _, want := range []string{"remembered as " + id + " by ann", "rule used  " + id + ", active, granted by ann, scope space, 1 of 2 uses left"} {
		if out := ok(t, append([]string{"show", "c2"}, at...)...); !strings.Contains(out, want) {
			t.Errorf("show does not print %q:\n%s", want, out)
		}
	}
	for _, want := range []string{"active", id, "ann", `scope space, 1 of 2 uses left, 500 of 1500 left of args.cents, caller.user = "bot"`} {
		if out := ok(t, append([]string{"standing", "list"}, at...)...); !strings.Contains(out, want) {
			t.Errorf("standing list does not print %q:\n%s", want, out)
		}
	}
	for _, want := range []string{`caller.user = "bot"`, "used by    s1/r1/c2", "1000", "granted by approver ann", "large"} {
		if out := ok(t, append([]string{"standing", "show", id}, at...)...); !strings.Contains(out, want) {
			t.Errorf("standing show does not print %q:\n%s", want, out)
		}
	}
	if list := decode[toolcall.StandingApprovalsReply](t, ok(t, append([]string{"standing", "list", "--json", "--tool", "ship"}, at...)...)); len(list.StandingApprovals) != 0 {
		t.Errorf("for another tool: %+v", list.StandingApprovals)
	}

	fails(t, cli.ExitForbidden, "did not grant", "standing", "revoke", id, "--data", s.data, "--as", "bob", "--approver")
	fails(t, cli.ExitNotFound, "no standing approval", append([]string{"standing", "revoke", "sta_x"}, at...)...)
	fails(t, cli.ExitUsage, "expected one standing approval", append([]string{"standing", "show"}, at...)...)
	fails(t, cli.ExitNotFound, "hint: askance standing list shows them\n", append([]string{"standing", "show", "sta_none"}, at...)...)
	if out := ok(t, append([]string{"standing", "revoke", id, "--approver", "--reason", "over"}, at...)...); !strings.Contains(out, id+" is revoked") {
		t.Errorf("standing revoke printed %q", out)
	}
	if c := s.finished("c2"); c.Result == nil || c.Result.State != message.ToolResultDenied {
		t.Errorf("an allowed call that had not started ended as %+v", c.Result)
	}
	if out := ok(t, append([]string{"list", "--all"}, at...)...); !strings.Contains(out, "standing approval") {
		t.Errorf("list --all does not say that a standing approval allowed c2:\n%s", out)
	}
	if c := s.propose("r1", "c4", "pay", `{"cents":101}`); c.State != message.ToolCallAsking {
		t.Errorf("after the revocation the call is %s", c.State)
	}
	s.stop() // and in a folder without a server
	if out := ok(t, append([]string{"show", "c2", "--explain"}, at...)...); !strings.Contains(out, id+", revoked, granted by ann") || !strings.Contains(out, "no engine runs here") {
		t.Errorf("show --explain printed %q", out)
	}
	gone := decode[toolcall.ShowStandingApprovalReply](t, ok(t, append([]string{"standing", "show", id, "--json"}, at...)...))
	if gone.Standing.Revoked == nil || gone.Standing.Revoked.Reason != "over" || len(gone.Uses) != 1 {
		t.Errorf("standing show --json = %+v", gone)
	}
	if list := decode[toolcall.StandingApprovalsReply](t, ok(t, append([]string{"standing", "list", "--json", "--all"}, at...)...)); len(list.StandingApprovals) != 1 {
		t.Errorf("standing list --all: %+v", list.StandingApprovals)
	}
}
