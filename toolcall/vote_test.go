package toolcall_test

import (
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// TestNamesInAnotherCase: a person with a name in two forms counts once, and is not another person
// than the requester or the editor.
func TestNamesInAnotherCase(t *testing.T) {
	vote := func(name string) toolcall.Vote {
		return toolcall.Vote{Kind: toolcall.ResponseApprove, By: toolcall.Principal{Role: toolcall.RoleApprover, Name: name}, Digest: "d"}
	}
	two := toolcall.Requirement{Users: []string{}, Quorum: 2}
	for _, tc := range []struct {
		r      toolcall.Requirement
		voters []string
		agreed bool
	}{
		{two, []string{"ann", "bob"}, true},
		{two, []string{"ann", "Ann"}, false},
		{two, []string{"J\u00dcRGEN@example.com", "j\u00fcrgen@EXAMPLE.com"}, false},
		{two, []string{"m\u00fcller", "mu\u0308ller"}, false},
		{toolcall.Requirement{Users: []string{"ann", "Ann"}, Quorum: 2}, []string{"ann", "Ann"}, false},
		{toolcall.Requirement{ExcludeRequester: true, Requester: "Ann"}, []string{"bob"}, true},
		{toolcall.Requirement{ExcludeRequester: true, Requester: "Ann"}, []string{"ann"}, false},
		{toolcall.Requirement{ExcludeEditor: true, Editors: []string{"bob", "ANN"}}, []string{"ann"}, false},
		{toolcall.Requirement{Users: []string{"Ann"}}, []string{"ann"}, false}, // a rule names people exactly
		{toolcall.Requirement{Quorum: 2, Approvers: []toolcall.ApproverSet{{Users: []string{"ann", "bob"}}, {Users: []string{"zoe"}, Quorum: 1}}}, []string{"ann", "bob", "zoe"}, true},
		{toolcall.Requirement{Quorum: 2, Approvers: []toolcall.ApproverSet{{Users: []string{"ann", "bob"}}, {Users: []string{"zoe"}, Quorum: 1}}}, []string{"ann", "zoe"}, false},
		{toolcall.Requirement{Approvers: []toolcall.ApproverSet{{Users: []string{"ann"}, Quorum: -1}}}, nil, false},
	} {
		var votes []toolcall.Vote
		for _, name := range tc.voters {
			votes = append(votes, vote(name))
		}
		if got := tc.r.Tally(votes, "d", 0); got.Agreed != tc.agreed {
			t.Errorf("%+v with the approvals of %q: agreed %v", tc.r, tc.voters, got.Agreed)
		}
	}
}

// TestEscalationToTheSameGroup: a group that an escalation names again is asked once.
func TestEscalationToTheSameGroup(t *testing.T) {
	at := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	r := toolcall.Requirement{Quorum: 2, Approvers: []toolcall.ApproverSet{{
		Rule: "large", Users: []string{"ann"}, Groups: []string{"leads", "support"},
		Escalation: []toolcall.EscalationStep{{At: at, Users: []string{"ann", "mia"}, Groups: []string{"leads"}}},
	}}}
	part := r.Tally(nil, "d", 1).Parts[0]
	if got := strings.Join(append(part.Users, part.Groups...), " "); got != "ann mia leads support" {
		t.Errorf("after the escalation %s are asked", got)
	}
}
