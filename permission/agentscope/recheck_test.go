package agentscope

import (
	"context"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// A rule that covers part of a line is checked again when the line starts.
func TestRecheckOfAPart(t *testing.T) {
	first, second := pathRule(Bash, message.BehaviorAllow, "npm test:*"), pathRule(Bash, message.BehaviorAllow, "go test:*")
	first.Name, second.Name = "npm", "go"
	first.Recheck, first.When = true, `caller.user == "ann"`
	b, err := permission.Compile(permission.Policy{Rules: []permission.Rule{first, second}}, permission.Options{Tools: []permission.Tool{{Name: Bash, Kind: mustNew(Bash, Config{})}}, Enforced: []permission.Duty{permission.DutyRecheck}})
	if err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]bool{"ann": false, "bob": true} {
		req := permission.Request{Tool: Bash, Input: []byte(`{"command": "npm test && go test ./..."}`), Cwd: "/w", Caller: permission.Caller{User: "ann"}}
		d := b.Decide(context.Background(), req)
		if d.Behavior != message.BehaviorAllow || len(d.Recheck) != 1 {
			t.Fatalf("the line is decided as %+v", d)
		}
		req.Caller.User, req.Recheck = user, d.Recheck
		if d, denied := b.Denied(context.Background(), req); denied != want {
			t.Errorf("when %s starts the line: denied %t: %s", user, denied, d.Reason)
		}
	}
}
