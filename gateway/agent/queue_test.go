package agent_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
)

// queue sends a message of session s that waits for its turn.
func (s *stage) queue(id string, lines ...string) message.ReplyID {
	s.t.Helper()
	r, err := s.runner.Start(s.t.Context(), user(), "s", "bot", agent.Input{Queue: true, Messages: []*message.Msg{says(s.t, id, lines...)}})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// idle waits until the session has no open turn and no waiting one.
func (s *stage) idle(session string) *agent.Thread {
	s.t.Helper()
	return s.until(session, "the end", func(t *agent.Thread) bool { return len(t.Turns) > 0 && t.Busy() == "" })
}

// TestQueue: waiting turns begin in the order in which they arrived, in any process, and a
// message that is sent twice is one turn.
func TestQueue(t *testing.T) {
	s := newStage(t)
	r := s.begin("s", "m1", `call pay {"to":"acme","amount":42}`)
	k := s.asking("s", string(r), "call-1-1")
	second := s.queue("m2", "say two")
	s.queue("m3", "say three")
	if again := s.queue("m2", "say two"); again != second {
		t.Errorf("sent twice, the message has the reply %s, then %s", second, again)
	}
	_, err := s.runner.Start(t.Context(), user(), "s", "bot", agent.Input{Messages: []*message.Msg{says(t, "m4", "say four")}})
	if open, ok := errors.AsType[*agent.OpenTurnError](err); !ok || open.Reply != r {
		t.Errorf("a message that may not wait: %v", err)
	}
	s.restart()
	s.A.Restart()
	s.A.Reject(gatewaytest.Ann, k, "no")
	var said []string
	for _, m := range s.idle("s").Messages {
		text, _ := m.TextContent("")
		said = append(said, text)
	}
	if want := []string{"say two", "two", "say three", "three"}; len(said) != 6 || !slices.Equal(said[2:], want) {
		t.Errorf("said %q, want %q at the end", said, want)
	}
	s.queue("m5", "say five")
	if thread := s.idle("s"); len(thread.Turns) != 4 {
		t.Errorf("after a turn that need not wait:\n%s", dump(thread))
	}
}

// TestQueuedTurnInterrupted: a turn that is interrupted while it waits never begins and does not
// delay the next one.
func TestQueuedTurnInterrupted(t *testing.T) {
	s := newStage(t)
	r := s.begin("s", "m1", `call pay {"to":"acme","amount":42}`)
	k := s.asking("s", string(r), "call-1-1")
	second := s.queue("m2", "say two")
	s.queue("m3", "say three")
	s.deliver("s", &message.UserInterrupt{EventHeader: message.NewHeader(second)})
	s.A.Reject(gatewaytest.Ann, k, "no")
	thread := s.idle("s")
	if len(thread.Turns) != 2 || thread.Turns[1].Messages[0].ID != "m3" {
		t.Errorf("the thread is\n%s", dump(thread))
	}
}

// TestQueueIsBounded: the number of messages that can wait in a session is limited.
func TestQueueIsBounded(t *testing.T) {
	s := newStage(t)
	r := s.begin("s", "m", `call pay {"to":"acme","amount":42}`)
	s.asking("s", string(r), "call-1-1")
	for i := range 20 {
		_, err := s.runner.Start(t.Context(), user(), "s", "bot", agent.Input{Queue: true, Messages: []*message.Msg{says(t, "m"+string(rune('a'+i)), "say x")}})
		if refused := errors.Is(err, message.ErrConflict); refused != (i >= 16) || err != nil && !refused {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}
