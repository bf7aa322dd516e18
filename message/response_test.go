package message_test

import (
	"testing"

	"github.com/askance-dev/askance/message"
)

// After a lost answer the client must know its own vote from another one of the
// same person.
func TestHasResponse(t *testing.T) {
	text := func(s string) *string { return &s }
	ann := message.Principal{Role: message.RoleApprover, Name: "ann"}
	call := func(v message.Vote) *message.Call {
		v.By, v.Digest = ann, "d"
		return &message.Call{Input: `{"n":1}`, Votes: []message.Vote{v}}
	}
	approve := message.Response{Digest: "d", Kind: message.ResponseApprove}
	edit := func(s string) message.Response { a := approve; a.Input = text(s); return a }
	for name, tc := range map[string]struct {
		call *message.Call
		name string
		a    message.Response
		want bool
	}{
		"the vote":               {call(message.Vote{Kind: message.ResponseApprove}), "ann", approve, true},
		"another person's":       {call(message.Vote{Kind: message.ResponseApprove}), "bob", approve, false},
		"another kind":           {call(message.Vote{Kind: message.ResponseReject}), "ann", approve, false},
		"no call":                {nil, "ann", approve, false},
		"the edit":               {call(message.Vote{Kind: message.ResponseApprove, Edited: true}), "ann", edit(`{"n":1}`), true},
		"another screen's edit":  {call(message.Vote{Kind: message.ResponseApprove, Edited: true}), "ann", edit(`{"n":2}`), false},
		"an edit, not the plain": {call(message.Vote{Kind: message.ResponseApprove, Edited: true}), "ann", approve, false},
		"edited to the same":     {call(message.Vote{Kind: message.ResponseApprove}), "ann", edit(`{"n":1}`), true},
		"other feedback":         {call(message.Vote{Kind: message.ResponseReject, Feedback: "no"}), "ann", message.Response{Digest: "d", Kind: message.ResponseReject, Feedback: "never"}, false},
	} {
		if got := tc.call.HasResponse(tc.name, tc.a); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
