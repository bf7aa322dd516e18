package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// dying is the engine of a process that is killed. The first writes reach the journal; after them
// no write does and no caller gets a reply. If lost is set, the last write happens and only its
// reply is lost.
type dying struct {
	engine.Client
	left *atomic.Int64
	lost bool
}

var errKilled = errors.New("the process is dead")

func (d dying) write(f func() error) error {
	switch n := d.left.Add(-1); {
	case n < 0:
		return errKilled
	case n == 0 && d.lost:
		_ = f() // the caller gets no reply
		return errKilled
	}
	return f()
}

func (d dying) Emit(ctx context.Context, r toolcall.EmitRequest) (out toolcall.EmitReply, err error) {
	err = d.write(func() error { out, err = d.Client.Emit(ctx, r); return err })
	return out, err
}

func (d dying) Propose(ctx context.Context, r toolcall.ProposeRequest) (out toolcall.ProposeReply, err error) {
	err = d.write(func() error { out, err = d.Client.Propose(ctx, r); return err })
	return out, err
}

func (d dying) Interrupt(ctx context.Context, r toolcall.InterruptRequest) (out toolcall.InterruptReply, err error) {
	err = d.write(func() error { out, err = d.Client.Interrupt(ctx, r); return err })
	return out, err
}

// TestKilledAnywhere kills the process at each of its writes. The user's client sends the message
// again, the next process continues, and the reply is as if nothing had happened.
func TestKilledAnywhere(t *testing.T) {
	s := newStage(t)
	lines := []string{"say one", `call echo {"n":1}`, `also pay {"to":"acme","amount":2}`, "stream 3", `call lookup {"n":3}`, "say end"}
	for _, lost := range []bool{false, true} {
		for n := range int64(24) {
			name := fmt.Sprintf("%d-%v", n, lost)
			left := new(atomic.Int64)
			left.Store(n)
			cfg := s.config()
			cfg.ID = name
			cfg.As = func(p toolcall.Principal) engine.Client { return dying{s.A.As(p), left, lost} }
			first, err := agent.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			in := func() agent.Input { return agent.Input{Messages: []*message.Msg{says(t, "m1", lines...)}} }
			session := message.SessionID(name)
			_, startErr := first.Start(t.Context(), user(), session, "bot", in())
			if startErr == nil {
				s.play(name, func() bool { return left.Load() < 0 })
			}
			_ = first.Close()
			left.Store(0) // it is dead

			cfg.As = s.A.As
			second, err := agent.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := second.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := second.Start(t.Context(), user(), session, "bot", in()); err != nil {
				t.Fatalf("%s: sending the message again: %v (the first time: %v)", name, err, startErr)
			}
			s.play(name, func() bool { return false })
			s.whole(name)
			_ = second.Close()
		}
	}
}

// play answers the approval requests of the turn until the turn ends or the process is dead.
func (s *stage) play(session string, dead func() bool) {
	s.t.Helper()
	state := func(t *agent.Thread, id message.CallID) message.ToolCallState {
		if c := t.Messages[len(t.Messages)-1].ToolCall(id); c != nil {
			return c.State
		}
		return ""
	}
	for {
		thread := s.until(session, "something to do", func(t *agent.Thread) bool {
			return dead() || t.Open == "" || state(t, "call-2-2") == message.ToolCallAsking || state(t, "call-4-1") == message.ToolCallSubmitted
		})
		last := thread.Messages[len(thread.Messages)-1]
		switch {
		case dead() || thread.Open == "":
			return
		case state(thread, "call-2-2") == message.ToolCallAsking:
			s.A.Approve(gatewaytest.Ann, toolcall.Key{Space: s.A.ID, Session: message.SessionID(session), Reply: message.ReplyID(last.ID), Call: "call-2-2"})
		default:
			s.deliver(session, &message.ExternalExecutionResult{EventHeader: message.NewHeader(message.ReplyID(last.ID)), ExecutionResults: []message.ToolResultBlock{{ID: "call-4-1", Name: gatewaytest.Lookup, State: message.ToolResultSuccess, Output: message.Content{Text: "found"}}}})
		}
	}
}

// whole checks that a reply looks as if nothing had happened.
func (s *stage) whole(session string) {
	s.t.Helper()
	thread := s.ended(session)
	if len(thread.Messages) != 2 || len(thread.Turns) != 1 {
		s.t.Fatalf("%s: the thread is\n%s", session, dump(thread))
	}
	m := thread.Messages[1]
	text, _ := m.TextContent("")
	want := "one" + "echo: success: {\"n\":1}\npay: success: {\"to\":\"acme\",\"amount\":2}\n" + "00001 00002 00003 " + "lookup: success: found\n" + "end"
	if text != want || *m.FinishedReason != message.FinishedCompleted {
		s.t.Errorf("%s: the text is %q\n%s", session, text, dump(thread))
	}
	for _, b := range message.BlocksOf[*message.TextBlock](m) {
		if b.FinishedAt == nil {
			s.t.Errorf("%s: the block %s never ended", session, b.ID)
		}
	}
	for _, id := range []string{"call-2-1", "call-2-2", "call-4-1"} {
		if n := strings.Count(dump(thread), " "+id+"="); n != 1 {
			s.t.Errorf("%s: the call %s appears %d times", session, id, n)
		}
	}
}
