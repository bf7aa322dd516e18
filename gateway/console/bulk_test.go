package console

import (
	"cmp"
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// uncertain is a client whose replies to responses are lost.
type uncertain struct {
	engine.Client
	err   error
	votes []toolcall.Vote // the votes of the call; one without an id gets that of the response
	gone  bool            // the call cannot be read
}

func (u uncertain) SubmitResponse(_ context.Context, r toolcall.Response) (*toolcall.Call, error) {
	for i := range u.votes {
		u.votes[i].ID = cmp.Or(u.votes[i].ID, r.ID)
	}
	return nil, u.err
}

func (u uncertain) Show(_ context.Context, r toolcall.ShowRequest) (toolcall.ShowReply, error) {
	if u.gone {
		return toolcall.ShowReply{}, message.ErrUnavailable
	}
	return toolcall.ShowReply{Call: &toolcall.Call{Key: r.Key, Tool: "pay", Summary: "pay 42", State: message.ToolCallSubmitted, Cause: "submit", Votes: u.votes, Digest: "sha256:1"}}, nil
}

// If the reply to a response is lost, a bulk report says that its outcome is unknown, unless the
// call contains the response. A response that was not sent is not unknown.
func TestBulkUnknownOutcome(t *testing.T) {
	p := &gateway.Peer{Identity: gateway.Identity{Name: "ann", Roles: []toolcall.Role{toolcall.RoleApprover}}, Space: &gateway.Space{ID: "s"}}
	lost := &message.Error{Code: message.CodeUnknownOutcome, What: "the journal did not answer in time"}
	ann := toolcall.Vote{Kind: toolcall.ResponseApprove, By: toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"}, Digest: "sha256:1"}
	elsewhere := ann
	elsewhere.ID = "of another window"
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name       string
		over       bool // the time for the confirmation is over
		c          uncertain
		ok, unsure bool
		note       string
	}{
		{"lost", false, uncertain{err: lost}, false, true, "outcome unknown: it may count. Open the request to see, or send it again"},
		{"lost, and nothing can be read", false, uncertain{err: context.DeadlineExceeded, gone: true}, false, true, "outcome unknown"},
		{"lost, but it counts", false, uncertain{err: lost, votes: []toolcall.Vote{ann}}, true, false, "approved, the call is queued"},
		{"lost, and the same was sent elsewhere", false, uncertain{err: lost, votes: []toolcall.Vote{elsewhere}}, false, true, "outcome unknown"},
		{"refused", false, uncertain{err: &message.Error{Code: message.CodeForbidden, What: "no"}, gone: true}, false, false, "not accepted: no"},
		{"no time left", true, uncertain{}, false, false, "not sent: the confirmation ran out of time"},
	} {
		i := bulkItem{row: row{Key: url.Values{"session": {"s1"}, "reply": {"r1"}, "call": {"c1"}}.Encode()}, Digest: "sha256:1"}
		ctx := t.Context()
		if tc.over {
			ctx = over
		}
		err := i.answer(ctx, tc.c, p, &form{Do: doApprove, Digest: i.Digest}, began)
		if i.OK != tc.ok || i.Unsure != tc.unsure || !strings.Contains(i.Note, tc.note) || (err == nil) != tc.ok {
			t.Errorf("%s: ok %v, unsure %v, %q, %v", tc.name, i.OK, i.Unsure, i.Note, err)
		}
	}
}
