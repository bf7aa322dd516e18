package gatewaytest

import (
	"context"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Patience is how long tests wait for an expected result. It is long enough for any machine, so
// only a test that hangs reaches it.
const Patience = 2 * time.Minute

// PayInput is the input of the calls that Ask proposes.
const PayInput = `{"to":"acme","amount":42}`

// Propose proposes a call as Bot and returns the call that results.
func (s *Space) Propose(session, reply, call, tool, input string) *toolcall.Call {
	s.w.t.Helper()
	return s.ProposeAs("agent", session, reply, call, tool, input)
}

// ProposeAs proposes a call for a named agent.
func (s *Space) ProposeAs(agent, session, reply, call, tool, input string) *toolcall.Call {
	s.w.t.Helper()
	out, err := s.Client(Bot).Propose(s.w.t.Context(), toolcall.ProposeRequest{
		Session: message.SessionID(session), Reply: message.ReplyID(reply), Agent: agent,
		Calls: []message.ToolCallBlock{{ID: message.CallID(call), Name: tool, Input: input, State: message.ToolCallPending}},
	})
	if err != nil || len(out.Calls) != 1 {
		s.w.t.Fatalf("propose %s: %v", call, err)
	}
	return out.Calls[0]
}

// Ask proposes a call of Pay, which needs approval, and returns its key.
func (s *Space) Ask(session, reply, call string) toolcall.Key {
	s.w.t.Helper()
	c := s.Propose(session, reply, call, Pay, PayInput)
	if c.State != message.ToolCallAsking {
		s.w.t.Fatalf("the call %s is %s, not asking", call, c.State)
	}
	return c.Key
}

// Open lists the open approval requests.
func (s *Space) Open() []*toolcall.Call {
	s.w.t.Helper()
	out, err := s.Client(Bot).List(s.w.t.Context(), toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseAsking}})
	if err != nil {
		s.w.t.Fatalf("list: %v", err)
	}
	return out.Calls
}

// Say streams events of a reply as Bot and sets their reply ids.
func (s *Space) Say(session, reply string, events ...message.Event) uint64 {
	s.w.t.Helper()
	r := toolcall.EmitRequest{Session: message.SessionID(session), Reply: message.ReplyID(reply)}
	for _, ev := range events {
		ev.Header().Reply = r.Reply
		raw, err := strictjson.Marshal(ev)
		if err != nil {
			s.w.t.Fatalf("encode %s: %v", ev.Type(), err)
		}
		r.Events = append(r.Events, raw)
	}
	out, err := s.Client(Bot).Emit(s.w.t.Context(), r)
	if err != nil {
		s.w.t.Fatalf("emit: %v", err)
	}
	return out.Seq
}

// Show returns the call as Bot sees it.
func (s *Space) Show(k toolcall.Key) *toolcall.Call {
	s.w.t.Helper()
	out, err := s.Client(Bot).Show(s.w.t.Context(), toolcall.ShowRequest{Key: k})
	if err != nil {
		s.w.t.Fatalf("show %s: %v", k, err)
	}
	return out.Call
}

// Approve approves a call in the name of an approver, in this process.
func (s *Space) Approve(name string, k toolcall.Key) *toolcall.Call {
	s.w.t.Helper()
	return s.SubmitResponse(name, toolcall.Response{Key: k, Kind: toolcall.ResponseApprove})
}

// Reject rejects a call with feedback.
func (s *Space) Reject(name string, k toolcall.Key, feedback string) *toolcall.Call {
	s.w.t.Helper()
	return s.SubmitResponse(name, toolcall.Response{Key: k, Kind: toolcall.ResponseReject, Feedback: feedback})
}

// SubmitResponse responds to the current approval request of a call.
func (s *Space) SubmitResponse(name string, resp toolcall.Response) *toolcall.Call {
	s.w.t.Helper()
	if resp.Digest == "" {
		resp.Digest = s.Show(resp.Key).Digest
	}
	c, err := s.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: name}).SubmitResponse(s.w.t.Context(), resp)
	if err != nil {
		s.w.t.Fatalf("answer of %s to %s: %v", name, resp.Key, err)
	}
	return c
}

// Finished waits until the call is finished, and returns it.
func (s *Space) Finished(k toolcall.Key) *toolcall.Call {
	s.w.t.Helper()
	ctx, cancel := context.WithTimeout(s.w.t.Context(), Patience)
	defer cancel()
	for {
		out, err := s.Client(Bot).Wait(ctx, toolcall.WaitRequest{Session: k.Session, Reply: k.Reply, Calls: []message.CallID{k.Call}})
		if err != nil {
			s.w.t.Fatalf("the call %s is not finished: %v", k, err)
		}
		if out.Done {
			return out.Calls[0]
		}
	}
}
