package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agent/script"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// stage is a world with a runner.
type stage struct {
	*gatewaytest.World
	t      *testing.T
	runner *agent.Runner
	agents []agent.Agent
}

func newStage(t *testing.T, agents ...agent.Agent) *stage {
	t.Helper()
	s := &stage{World: gatewaytest.New(t), t: t, agents: append(agents, script.New("bot"))}
	s.start()
	t.Cleanup(func() { _ = s.runner.Close() })
	return s
}

func (s *stage) config() agent.Config {
	cfg := agent.Config{As: s.A.As, Agents: s.agents}
	for _, tool := range s.A.Gateway().Tools {
		cfg.Tools = append(cfg.Tools, tool.Name)
	}
	return cfg
}

func (s *stage) start() {
	s.t.Helper()
	var err error
	if s.runner, err = agent.New(s.config()); err != nil {
		s.t.Fatal(err)
	}
	if err := s.runner.Resume(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// restart replaces the runner, as a restart of the process does.
func (s *stage) restart() {
	s.t.Helper()
	_ = s.runner.Close()
	s.start()
}

// user is Bot as a principal: a runtime.
func user() toolcall.Principal {
	return toolcall.Principal{Role: toolcall.RoleRuntime, Name: gatewaytest.Bot, Auth: gatewaytest.AuthToken}
}

func says(t testing.TB, id string, lines ...string) *message.Msg {
	t.Helper()
	m, err := message.UserMsg("me", message.Content{Text: strings.Join(lines, "\n")}, message.WithID(id))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (s *stage) begin(session, id string, lines ...string) message.ReplyID {
	s.t.Helper()
	r, err := s.runner.Start(s.t.Context(), user(), message.SessionID(session), "bot", agent.Input{Messages: []*message.Msg{says(s.t, id, lines...)}})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// until reads the session until cond holds.
func (s *stage) until(session, what string, cond func(*agent.Thread) bool) *agent.Thread {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), gatewaytest.Patience)
	defer cancel()
	c := s.A.Client(gatewaytest.Bot)
	for {
		thread, err := agent.ReadThread(ctx, c, message.SessionID(session))
		if err != nil {
			s.t.Fatalf("%s did not happen: %v", what, err)
		}
		if cond(thread) {
			return thread
		}
		if _, err := c.Events(ctx, toolcall.EventsRequest{Session: message.SessionID(session), After: thread.Through, WaitMS: 25}); err != nil || ctx.Err() != nil {
			s.t.Fatalf("%s did not happen: %v\n%s", what, err, dump(thread))
		}
	}
}

// deliver sends an event as a frontend does.
func (s *stage) deliver(session string, ev message.Event) {
	s.t.Helper()
	if err := engine.Deliver(s.t.Context(), s.A.Client(gatewaytest.Bot), message.SessionID(session), ev, nil); err != nil {
		s.t.Fatal(err)
	}
}

// ended waits for the end of the session's turns.
func (s *stage) ended(session string) *agent.Thread {
	s.t.Helper()
	return s.until(session, "the end", func(t *agent.Thread) bool { return len(t.Turns) > 0 && t.Open == "" })
}

// asking waits for an open approval request.
func (s *stage) asking(session, reply, call string) toolcall.Key {
	s.t.Helper()
	s.until(session, "the approval request "+call, func(t *agent.Thread) bool {
		for _, m := range t.Messages {
			if c := m.ToolCall(message.CallID(call)); m.ID == reply && c != nil && c.State == message.ToolCallAsking {
				return true
			}
		}
		return false
	})
	return toolcall.Key{Space: s.A.ID, Session: message.SessionID(session), Reply: message.ReplyID(reply), Call: message.CallID(call)}
}

// dump returns a thread as text.
func dump(t *agent.Thread) string {
	var b strings.Builder
	for _, m := range t.Messages {
		b.WriteString(string(m.Role) + " " + m.Name + ":")
		for _, block := range m.Content {
			switch x := block.(type) {
			case *message.TextBlock:
				b.WriteString(" [" + strings.TrimSpace(x.Text) + "]")
			case *message.ThinkingBlock:
				b.WriteString(" (" + x.Thinking + ")")
			case *message.ToolCallBlock:
				b.WriteString(" " + string(x.ID) + "=" + x.Name + x.Input + ":" + string(x.State))
			case *message.ToolResultBlock:
				b.WriteString(" " + string(x.ID) + "->" + string(x.State) + "{" + x.Output.String() + "}")
			default:
			}
		}
		if m.FinishedReason != nil {
			b.WriteString(" " + string(*m.FinishedReason))
		}
		if m.Error != nil {
			b.WriteString(" " + string(m.Error.Type) + ": " + m.Error.Message)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (s *stage) want(thread *agent.Thread, want ...string) {
	s.t.Helper()
	if got := dump(thread); got != strings.Join(want, "\n")+"\n" {
		s.t.Errorf("the thread is\n%swant\n%s", got, strings.Join(want, "\n"))
	}
}
