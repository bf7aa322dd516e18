package toolcall_test

import (
	"testing"

	"github.com/askance-dev/askance/toolcall"
)

// After a lost reply the client must distinguish its own vote from another vote of the same
// person.
func TestHasResponse(t *testing.T) {
	text := func(s string) *string { return &s }
	ann := toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"}
	call := func(v toolcall.Vote) *toolcall.Call {
		v.By, v.Digest = ann, "d"
		return &toolcall.Call{Input: `{"n":1}`, Votes: []toolcall.Vote{v}}
	}
	approve := toolcall.Response{Digest: "d", Kind: toolcall.ResponseApprove}
	edit := func(s string) toolcall.Response { resp := approve; resp.Input = text(s); return resp }
	for name, tc := range map[string]struct {
		call *toolcall.Call
		name string
		a    toolcall.Response
		want bool
	}{
		"the vote":              {call(toolcall.Vote{Kind: toolcall.ResponseApprove}), "ann", approve, true},
		"another person's":      {call(toolcall.Vote{Kind: toolcall.ResponseApprove}), "bob", approve, false},
		"another kind":          {call(toolcall.Vote{Kind: toolcall.ResponseReject}), "ann", approve, false},
		"no call":               {nil, "ann", approve, false},
		"the edit":              {call(toolcall.Vote{Kind: toolcall.ResponseApprove, Edited: true}), "ann", edit(`{"n":1}`), true},
		"another screen's edit": {call(toolcall.Vote{Kind: toolcall.ResponseApprove, Edited: true}), "ann", edit(`{"n":2}`), false},
		"edited, not approved":  {call(toolcall.Vote{Kind: toolcall.ResponseApprove, Edited: true}), "ann", approve, false},
		"same arguments":        {call(toolcall.Vote{Kind: toolcall.ResponseApprove}), "ann", edit(`{"n":1}`), true},
		"other feedback":        {call(toolcall.Vote{Kind: toolcall.ResponseReject, Feedback: "no"}), "ann", toolcall.Response{Digest: "d", Kind: toolcall.ResponseReject, Feedback: "never"}, false},
	} {
		if got := tc.call.HasResponse(tc.name, tc.a); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
