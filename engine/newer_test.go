package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// newerReplies is a journal in which an engine of a later version wrote the records of replies.
type newerReplies struct{ *engine.Memory }

func (n newerReplies) Last(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error) {
	r, err := n.Memory.Last(ctx, key)
	if err == nil && r.Record.Reply != nil {
		err = errLaterVersion
	}
	return r, err
}

func (n newerReplies) Watch(ctx context.Context, after uint64, sink toolcall.Sink) error {
	return n.Memory.Watch(ctx, after, newerRepliesSink{sink})
}

type newerRepliesSink struct{ toolcall.Sink }

func (s newerRepliesSink) Record(r toolcall.JournalEntry) {
	if r.Record != nil && r.Record.Reply != nil {
		r.Record, r.Invalid = nil, errLaterVersion
	}
	s.Sink.Record(r)
}

var errLaterVersion = &message.Error{Code: message.CodeUnavailable, Op: "read record", What: "this engine cannot read the record"}

// A call does not begin while the engine cannot read whether its reply was interrupted.
func TestInterruptOfALaterVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := engine.NewMemory()
		tool := engine.Tool{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceRemote}
		policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{Name: "r", Tools: []string{"t"}, Behavior: message.BehaviorAllow}}}, permission.Options{Tools: []permission.Tool{tool.Tool}})
		if err != nil {
			t.Fatal(err)
		}
		eng, err := engine.New("default", newerReplies{j}, policy, []engine.Tool{tool})
		if err != nil {
			t.Fatal(err)
		}
		if err := eng.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = eng.Close() }()
		as := func(role toolcall.Role) *engine.Port { return eng.As(toolcall.Principal{Role: role, Name: "x"}) }
		out, err := as(toolcall.RoleRuntime).Propose(t.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: "c", Name: "t", Input: `{}`}}})
		if err != nil {
			t.Fatal(err)
		}
		reply := out.Calls[0].ReplyKey()
		_, err = j.Append(t.Context(), &toolcall.EventRecord{V: toolcall.RecordVersion, ID: "i", At: time.Now(), Engine: "later", By: toolcall.Principal{Role: toolcall.RoleOperator, Name: "olga"}, Reply: &toolcall.ReplyState{Key: reply, Phase: toolcall.ReplyInterrupted}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if r, err := as(toolcall.RoleWorker).Start(t.Context(), toolcall.StartRequest{Key: out.Calls[0].Key, Attempt: 1, Claim: "x"}); !errors.Is(err, message.ErrUnavailable) {
			t.Errorf("a start after the interrupt: %+v, %v", r, err)
		}
	})
}
