package explain_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/explain"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// An explanation of the engine says who must approve, as that of a policy on this machine does.
func TestRequirementOfReply(t *testing.T) {
	x := permission.Explanation{Decision: message.BehaviorAsk, Mode: permission.ModeDefault, Requirement: permission.Requirement{
		Users: []string{"ann"}, Quorum: 2, ExcludeRequester: true, ExcludeEditor: true, Expiry: time.Hour,
		Approvers: []permission.ApproverSet{{Rule: "r", Quorum: 3, Groups: []string{"ops"}, Escalation: []permission.Escalation{{After: time.Minute, To: permission.Approvers{Users: []string{"bob"}}}}}},
		Remember:  &permission.Remember{Scope: []string{"args.id"}, TTL: time.Hour, Uses: 5},
	}}
	raw, err := strictjson.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	out := term.New(io.Discard)
	got, err := explain.Reply(out, toolcall.ExplainReply{Trace: raw})
	if err != nil {
		t.Fatal(err)
	}
	want := explain.Policy(out, &x)
	if !strings.HasSuffix(got, want) || !strings.Contains(want, "2 approvals by each of: ann; 3 of group ops within 1h, not by the requester or a person who edits the arguments") {
		t.Errorf("the reply says\n%s\nwant\n%s", got, want)
	}
}
