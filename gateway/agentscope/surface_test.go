package agentscope_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agentscope"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
)

// fold builds a message from events as a frontend does.
func fold(t *testing.T, reply message.ReplyID, frames []frame) string {
	t.Helper()
	m := &message.Msg{ID: string(reply), Role: message.RoleAssistant, Content: []message.Block{}, Metadata: map[string]any{}}
	for _, f := range frames {
		if s, ok := f.ev.(*message.ReplyStart); ok && s.Reply == reply {
			m.Name, m.CreatedAt = s.Name, s.CreatedAt
		}
		if f.ev.Type() == message.EventCustom {
			continue
		}
		if err := message.Append(m, f.ev); err != nil {
			t.Fatalf("%s: %v", f.raw, err)
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestReconnect follows a whole turn with approval requests and breaks the connection after every
// event. The frontend always builds the same message.
func TestReconnect(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	reply := s.say("s1", "m1", "think hm", "say I pay.", `call pay {"to":"acme","amount":1}`, "say done")
	next, end := s.stream(s.me(), "s1", "", "")
	s.ok(s.me(), "POST", "/sessions/s1/events", confirm(asks(t, until(next, message.EventRequireUserConfirm)), true), nil)
	until(next, message.EventReplyEnd)
	end()
	next, end = s.stream(s.me(), "s1", "?after=0", "") // a reader that came before the record of the call saw no arguments
	frames := until(next, message.EventReplyEnd)
	end()
	whole := fold(t, reply, frames)
	var history agentscope.MessagesReply
	s.ok(s.me(), "GET", "/sessions/s1/messages", nil, &history)
	if len(history.Messages) != 2 || history.Messages[0].ID != "m1" || history.Open != "" {
		t.Fatalf("the history is %+v", history)
	}
	got, err := json.Marshal(history.Messages[1])
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(whole, string(got)); d != "" {
		t.Errorf("the history is not what the events build (-events +history):\n%s", d)
	}
	for cut := range frames[:len(frames)-1] {
		next, end := s.stream(s.me(), "s1", "", frames[cut].id)
		again := append(frames[:cut+1:cut+1], until(next, message.EventReplyEnd)...)
		end()
		if d := cmp.Diff(whole, fold(t, reply, again)); d != "" || len(again) != len(frames) {
			t.Fatalf("cut after event %d, %d events build another message (-want +got):\n%s", cut, len(again), d)
		}
	}
}

// TestWhereStreamsBegin checks the three possible beginnings.
func TestWhereStreamsBegin(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first := s.say("s1", "m1", "say one")
	next, end := s.stream(s.me(), "s1", "?agent_id=bot&after=0", "")
	frames := until(next, message.EventReplyEnd)
	end()
	if rec, ok := agent.ParseRecord(frames[0].ev); !ok || rec.Reply != first {
		t.Errorf("the whole session begins with %s", frames[0].raw)
	}
	second := s.say("s1", "m2", `call pay {"to":"acme","amount":1}`)
	next, end = s.stream(s.me(), "s1", "", "") // the current turn
	f := next()
	if rec, ok := agent.ParseRecord(f.ev); !ok || rec.Reply != second {
		t.Errorf("the current turn begins with %s", f.raw)
	}
	ask := asks(t, until(next, message.EventRequireUserConfirm))
	end()
	var history agentscope.MessagesReply
	s.ok(s.me(), "GET", "/sessions/s1/messages", nil, &history)
	if history.Open != second {
		t.Errorf("the open reply is %q, want %q", history.Open, second)
	}
	s.ok(s.me(), "POST", "/sessions/s1/events", confirm(ask, false), nil)
	s.refused(s.me(), "GET", "/sessions/s1/stream?after=1000000", nil, message.CodeInvalid)
	next, end = s.stream(s.me(), "s1", "?after="+number(history.Next), "") // after the history
	if f := next(); f.ev.Type() != message.EventUserConfirmResult {
		t.Errorf("the first event after the history is %s", f.raw)
	}
	until(next, message.EventReplyEnd)
	end()
	next, _ = s.stream(s.me(), "s1", "", "") // no turn runs: the stream begins with the next event
	third := s.say("s1", "m3", "say three")
	if rec, ok := agent.ParseRecord(next().ev); !ok || rec.Reply != third {
		t.Error("a stream of an idle session does not begin with the next event")
	}
	for _, query := range []string{"?after=x", "?after=1&after=2", "?from=1"} {
		s.refused(s.me(), "GET", "/sessions/s1/stream"+query, nil, message.CodeInvalid)
	}
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

// TestRoles answers without the necessary roles.
func TestRoles(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	bot, ann, cy := s.A.HTTP(gatewaytest.Bot), s.A.HTTP(gatewaytest.Ann), s.A.HTTP(gatewaytest.Cy)
	k := s.A.Ask("s1", "r1", "c1")
	next, _ := s.stream(ann, "s1", "", "")
	ask := asks(t, until(next, message.EventRequireUserConfirm))
	s.refused(bot, "POST", "/sessions/s1/events", confirm(ask, true), message.CodeForbidden)
	s.refused(s.A.HTTP(gatewaytest.Robot), "GET", "/sessions/s1/messages", nil, message.CodeForeign)
	s.refused(s.B.HTTP(gatewaytest.Ann), "POST", "/sessions/s1/events", confirm(ask, true), message.CodeNotFound)
	s.refused(ann, "POST", "/chat", `{"agent_id":"bot","session_id":"s2","input":{"role":"user","name":"me","content":[{"type":"text","text":"say hi"}]}}`, message.CodeForbidden)
	s.refused(s.A.HTTP(gatewaytest.Wendy), "GET", "/sessions/s1/stream", nil, message.CodeForbidden)
	s.refused(s.A.HTTP(gatewaytest.Audie), "POST", "/sessions/s1/events", confirm(ask, true), message.CodeForbidden)
	// Cy has read nothing here and returns the arguments unchanged. The journal tells which
	// approval request they belong to.
	s.ok(cy, "POST", "/sessions/s1/events", confirm(ask, true), nil)
	c := s.A.Finished(k)
	if v := c.Votes[len(c.Votes)-1]; v.By.Name != gatewaytest.Cy || v.By.Auth != gatewaytest.AuthToken {
		t.Errorf("the vote is by %+v", v.By)
	}
	p := s.refused(ann, "POST", "/sessions/s1/events", confirm(ask, true), message.CodeFinished)
	if p.Call == nil || p.Call.Votes[0].By.Name != gatewaytest.Cy {
		t.Errorf("the refusal does not say who answered first: %+v", p)
	}
}

// TestExternal has the frontend run a tool.
func TestExternal(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	reply := s.say("s1", "m1", "call lookup {}", "say thanks")
	next, _ := s.stream(s.me(), "s1", "", "")
	frames := until(next, message.EventRequireExternalExecution)
	call := frames[len(frames)-1].ev.(*message.RequireExternalExecution).ToolCalls[0]
	result := map[string]any{"type": "EXTERNAL_EXECUTION_RESULT", "reply_id": reply, "execution_results": []any{
		map[string]any{"type": "tool_result", "id": call.ID, "name": call.Name, "output": "found it", "state": "success"},
	}}
	s.refused(s.A.HTTP(gatewaytest.Ann), "POST", "/sessions/s1/events", result, message.CodeForbidden)
	s.ok(s.me(), "POST", "/chat/", map[string]any{"agent_id": "bot", "session_id": "s1", "input": result}, nil)
	frames = append(frames, until(next, message.EventReplyEnd)...)
	if got := fold(t, reply, frames); !strings.Contains(got, "found it") {
		t.Errorf("the result is not in %s", got)
	}
	s.refused(s.me(), "POST", "/sessions/s1/events", result, message.CodeFinished)
}

// TestInterrupt ends a turn in both ways.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var idle agentscope.ChatReply
	s.ok(s.me(), "POST", "/sessions/s0/interrupt?agent_id=bot", nil, &idle)
	if idle.Reply != "" {
		t.Errorf("the interrupt of an idle session ended %q", idle.Reply)
	}
	for session, f := range map[string]func(reply message.ReplyID){
		"s1": func(message.ReplyID) { s.ok(s.me(), "POST", "/sessions/s1/interrupt", nil, nil) },
		"s2": func(reply message.ReplyID) {
			s.ok(s.me(), "POST", "/sessions/s2/events", map[string]any{"type": "USER_INTERRUPT", "reply_id": reply}, nil)
		},
	} {
		reply := s.say(session, "m1", `call pay {"to":"acme","amount":1}`)
		next, _ := s.stream(s.me(), session, "", "")
		until(next, message.EventRequireUserConfirm)
		f(reply)
		frames := until(next, message.EventReplyEnd)
		if e := frames[len(frames)-1].ev.(*message.ReplyEnd); e.FinishedReason != message.FinishedInterrupted {
			t.Errorf("the reply ends as %s", e.FinishedReason)
		}
	}
}

// TestBadInput sends what a frontend may not send.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, body := range []string{
		``, `{}`, `[]`, `{"agent_id":"bot","session_id":"","input":null}`, `{"agent_id":"bot","session_id":"s1","input":null}`,
		`{"agent_id":"bot","session_id":"s1","input":"hi"}`, `{"agent_id":"bot","session_id":"s1","input":[]}`,
		`{"agent_id":"bot","session_id":"s1","input":{"role":"user"}}`,
		`{"agent_id":"bot","session_id":"s1","input":{"role":"user","name":"me","content":[{"type":"text","text":"hi"}]},"user":"x"}`,
		`{"agent_id":"bot","session_id":"s1","input":{"type":"USER_CONFIRM_RESULT","reply_id":"r1","confirm_results":[]}}`,
	} {
		s.refused(s.me(), "POST", "/chat", body, message.CodeInvalid)
	}
	s.refused(s.me(), "POST", "/chat", `{"agent_id":"unknown","session_id":"s1","input":{"role":"user","name":"me","content":[{"type":"text","text":"hi"}]}}`, message.CodeNotFound)
	s.refused(s.me(), "POST", "/chat", `{"agent_id":"bot","session_id":"s1","input":{"type":"hello"}}`, message.CodeForbidden)
	s.refused(s.me(), "POST", "/sessions/s1/events", `{"type":"TEXT_BLOCK_START","reply_id":"r1","block_id":"b"}`, message.CodeForbidden)
	s.refused(s.me(), "POST", "/sessions/s1/events", `{"type":"REPLY_END","reply_id":"r1","session_id":"s1"}`, message.CodeForbidden)
	s.refused(s.B.HTTP(gatewaytest.Everything), "POST", "/chat", `{"agent_id":"bot","session_id":"s1","input":{"role":"user","name":"me","content":[{"type":"text","text":"hi"}]}}`, message.CodeNotFound)
	var agents agentscope.AgentsReply
	s.ok(s.me(), "GET", "/agents", nil, &agents)
	if len(agents.Agents) != 1 || agents.Agents[0].Name != "bot" {
		t.Errorf("the agents are %+v", agents)
	}
}
