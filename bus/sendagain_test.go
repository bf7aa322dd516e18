package bus_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// An edit of arguments with hidden values whose reply is lost does not edit twice, and its sender
// gets the result. The new approval request has other marks, so neither digest nor arguments
// identify the edit.
func TestLostAnswerToHiddenEdit(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		sp := testSpace()
		sp.rules = []permission.Rule{{Name: "money", Tools: []string{pay}, Behavior: message.BehaviorAsk, Quorum: 2, Redact: []string{"args.pin"}}}
		var left atomic.Int32
		w.engineOf(sp, bus.ServiceOptions{}, func(s api.Caller) api.Caller { return forgetful{s, &left} })
		bot, ann := w.client(toolcall.RoleRuntime, "bot"), w.client(toolcall.RoleApprover, "ann")
		propose(t, bot, toolCall("c1", pay, `{"pin":"pin-0815","n":1}`))
		show, err := ann.Show(t.Context(), toolcall.ShowRequest{Key: bustest.CallKey("c1")})
		if err != nil {
			t.Fatal(err)
		}
		q := show.Call
		input := strings.Replace(q.Input, `"n":1`, `"n":2`, 1)
		left.Store(2)
		c, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: q.Key, Digest: q.Digest, Kind: toolcall.ResponseApprove, Input: &input})
		if err != nil {
			t.Fatalf("the edit that was sent three times: %v", err)
		}
		if len(c.Votes) != 1 || !c.Votes[0].Edited || c.Digest == q.Digest || c.State != message.ToolCallAsking || strings.Contains(c.Input, "pin-0815") {
			t.Errorf("the edited call is %s with %+v", c.State, c.Votes)
		}
		// The same edit with another id is an answer to an approval request that is over.
		if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: q.Key, Digest: q.Digest, Kind: toolcall.ResponseApprove, Input: &input}); message.AsError("", err).Code != message.CodeDigest {
			t.Errorf("edited once more: %v", err)
		}
	})
}
