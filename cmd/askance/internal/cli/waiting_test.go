package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const quorumRules = `
version: 1
name: test
rules:
  - name: two
    tool_name: pay
    behavior: ask
    quorum: 2
    message: "'Pay?'"
    approvers: {users: [ann, bob, cy], exclude_requester: true}
    escalation: [{after: 1h, to: {users: [max]}}]
    expiry: 2h
    on_expiry: escalate
  - {name: outside, tool_name: outside, behavior: allow}
`

// If several people must agree, every command shows who has agreed and who is missing.
func TestSeveralAgree(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), quorumRules)
	write(t, filepath.Join(dir, "tools.yaml"), testTools)
	s := serveOn(t, filepath.Join(dir, "data"), "--policy", filepath.Join(dir, "rules.yaml"), "--tools", filepath.Join(dir, "tools.yaml"), "--remind", "1h")
	s.propose("r1", "c", "pay", `{"cents":500}`)
	has := func(text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%q is missing in\n%s", w, text)
			}
		}
	}
	as := func(name string, args ...string) []string {
		return append(args, "--as", name, "--data", s.data)
	}
	has(ok(t, as("ann", "show", "c")...), "2 of ann, bob, cy (rule two), 2 missing", "the requester bot", "max can also respond", "then the call is denied")
	fails(t, cli.ExitForbidden, "you cannot respond: only ann, bob, cy can", as("max", "approve", "c", "--yes")...)
	fails(t, cli.ExitForbidden, "the call was requested on your behalf", as("bot", "approve", "c", "--yes")...)
	has(ok(t, as("ann", "approve", "c", "--yes")...), "1 approved, 1 missing", "waiting for other approvers")
	has(ok(t, as("ann", "list")...), "[1 approved, 1 missing] pay")
	fails(t, cli.ExitForbidden, "is not an approver of this approval request", as("ann", "delegate", "c", "--to", "zoe", "--yes")...)
	has(ok(t, as("cy", "delegate", "c", "--to", "bob", "--note", "yours", "--yes")...), "delegated to bob, waiting for other approvers")
	has(ok(t, as("bob", "edit", "c", "--args", `{"cents":400}`, "--yes")...), "needs another approval", "1 approved, 1 missing")
	has(ok(t, as("bob", "show", "c")...), "void: the arguments changed", "approved by bob (NATS, not authenticated), 1 missing", "delegate by approver cy", "yours")
	show := decode[toolcall.ShowReply](t, ok(t, as("bob", "show", "c", "--json")...))
	if w := show.Waiting; w == nil || w.Agreed || len(w.Parts) != 1 || w.Parts[0].Quorum != 2 || w.Parts[0].Missing != 1 || w.Ends.IsZero() || len(w.NextUsers) != 1 {
		t.Errorf("show --json: %+v", w)
	}
	list := decode[toolcall.ListReply](t, ok(t, as("bob", "list", "--json")...))
	if len(list.Waiting) != 1 || list.Waiting[0].Digest != list.Calls[0].Digest {
		t.Errorf("list --json: %+v", list.Waiting)
	}
	has(ok(t, as("ann", "approve", "c", "--yes")...), "queued")

	around := s.propose("r1", "outer", "outside", `{}`)
	worker, err := bus.NewClient(s.connection("worker"), "default", toolcall.Principal{Role: toolcall.RoleRuntime, Name: "worker"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Propose(t.Context(), toolcall.ProposeRequest{
		V: 1, Session: "s2", Reply: "r1", Parent: &toolcall.ParentKey{Session: around.Session, Reply: around.Reply, Call: around.Call},
		Calls: []message.ToolCallBlock{{ID: "inner", Name: "pay", Input: `{"cents":500}`}},
	}); err != nil {
		t.Fatal(err)
	}
	has(ok(t, as("ann", "show", "inner")...), "the requester worker\n", "bot (requested a call around this one)\n")
	fails(t, cli.ExitForbidden, "a call around this one was requested on your behalf", as("bot", "approve", "inner", "--yes")...)
	fails(t, cli.ExitUsage, "use 0 or a positive time", "serve", "--remind", "-1h", "--data", filepath.Join(dir, "other"))
}
