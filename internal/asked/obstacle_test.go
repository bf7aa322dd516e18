package asked_test

import (
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// What a person can send depends on the requirement and on the person's latest response.
func TestObstacle(t *testing.T) {
	edited := "{}"
	all := []struct {
		name string
		a    toolcall.Response
	}{
		{"approve", toolcall.Response{Kind: toolcall.ResponseApprove}}, {"edit", toolcall.Response{Kind: toolcall.ResponseApprove, Input: &edited}},
		{"reject", toolcall.Response{Kind: toolcall.ResponseReject}}, {"respond", toolcall.Response{Kind: toolcall.ResponseRespond}},
		{"delegate", toolcall.Response{Kind: toolcall.ResponseDelegate, To: "eve"}}, {"skip", toolcall.Response{Kind: toolcall.ResponseSkip}},
	}
	two := []toolcall.ApproverSet{{Rule: "a", Users: []string{"ann"}}, {Rule: "b", Groups: []string{"ops"}}}
	for _, tc := range []struct {
		name string
		r    toolcall.Requirement
		vote toolcall.ResponseKind // of ann
		can  string
		says string // said about each of the others
	}{
		{"anyone", toolcall.Requirement{}, "", "approve edit reject respond delegate skip", ""},
		{"others", toolcall.Requirement{Users: []string{"bob", "eve"}}, "", "", "You cannot respond: only bob, eve can."},
		{"own request", toolcall.Requirement{ExcludeRequester: true, Requester: "ann"}, "", "", "the call was requested on your behalf"},
		{"own request around it", toolcall.Requirement{ExcludeRequester: true, Requester: "worker", RequestersAround: []string{"bob", "Ann"}}, "", "", "a call around this one was requested on your behalf"},
		{"unknown request", toolcall.Requirement{ExcludeRequester: true}, "", "", "who requested the call is unknown"},
		{"approved", toolcall.Requirement{Quorum: 2}, toolcall.ResponseApprove, "edit reject delegate skip", "You "},
		{"skipped", toolcall.Requirement{}, toolcall.ResponseSkip, "reject", "You skipped: you can only reject this request now."},
		{"delegated", toolcall.Requirement{}, toolcall.ResponseDelegate, "reject", "You delegated to eve: you can only reject this request now."},
		{"editor", toolcall.Requirement{ExcludeEditor: true, Editors: []string{"ann"}}, "", "edit reject delegate skip", "You"},
		{"two of a group", toolcall.Requirement{Approvers: []toolcall.ApproverSet{{Groups: []string{"ops"}}}, Quorum: 2}, "", "approve edit reject delegate skip", "others must agree, too"},
		{"two parts, perhaps in both", toolcall.Requirement{Approvers: two}, "", "approve edit reject respond delegate skip", ""},
		{"two parts", toolcall.Requirement{Approvers: append(two[:1:1], toolcall.ApproverSet{Rule: "b", Users: []string{"bob"}})}, "", "approve edit reject delegate skip", "others must agree, too"},
		{"signed", toolcall.Requirement{Signed: true}, "", "approve edit reject delegate skip", "signed approval"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := asking(t, func(req *toolcall.ApprovalRequest) { req.Requirement = tc.r })
			if tc.vote != "" {
				c.Votes = []toolcall.Vote{{Kind: tc.vote, By: toolcall.Principal{Name: "ann"}, To: map[bool]string{true: "eve"}[tc.vote == toolcall.ResponseDelegate], Digest: c.Digest}}
			}
			var can []string
			for _, k := range all {
				why := asked.Obstacle(c, "ann", k.a)
				if why == "" {
					can = append(can, k.name)
				} else if !strings.Contains(why, tc.says) {
					t.Errorf("%s: %q does not contain %q", k.name, why, tc.says)
				}
			}
			if got := strings.Join(can, " "); got != tc.can {
				t.Errorf("ann can %q, want %q", got, tc.can)
			}
		})
	}
	c := asking(t, nil)
	c.Votes = []toolcall.Vote{{Kind: toolcall.ResponseApprove, By: toolcall.Principal{Name: "ann"}, Digest: c.Digest}}
	if got := asked.Obstacle(c, "ann", all[0].a); got != "You approved: you can only edit, reject, delegate or skip this request now." {
		t.Errorf("a second approval: %q", got)
	}
	c.Votes[0].Signature = &toolcall.ApproverSignature{Until: time.Now().Add(time.Hour)}
	if got := asked.Obstacle(c, "ann", all[0].a); got != "" {
		t.Errorf("a second signature, whose first the engine may no longer count: %q", got)
	}
	c.Votes[0].Signature.Until = time.Now()
	if w, _ := c.Waiting(time.Now()); len(w.Approvals) != 0 || strings.Contains(strings.Join(asked.Needs(c), "\n"), "ann") {
		t.Error("a signature that has ended is shown as an approval")
	}
	c.State = message.ToolCallFinished
	if asked.Obstacle(c, "ann", all[2].a) == "" {
		t.Error("a finished call accepts a response")
	}
}
