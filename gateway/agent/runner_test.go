package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestTurn(t *testing.T) {
	s := newStage(t)
	lines := []string{"think hmm", "say I pay.", `call pay {"to":"acme","amount":42}`, "call drop", "say Done."}
	r := s.begin("s", "m1", lines...)
	k := s.asking("s", string(r), "call-3-1")
	s.A.Approve(gatewaytest.Ann, k)
	s.want(s.ended("s"),
		"user me: ["+strings.Join(lines, "\n")+"]",
		`assistant bot: (hmm) [I pay.] call-3-1=pay{"to":"acme","amount":42}:finished call-3-1->success{{"to":"acme","amount":42}} [pay: success: {"to":"acme","amount":42}]`+
			` call-4-1=drop{}:finished call-4-1->denied{`+denied+`} [drop: denied: `+denied+`] [Done.] completed`)
	if again := s.begin("s", "m1", lines...); again != r {
		t.Errorf("the same message again has the reply %s, want %s", again, r)
	}
}

// TestParallel: parallel calls do not wait for each other, and their results come in the order of
// the calls.
func TestParallel(t *testing.T) {
	s := newStage(t)
	r := s.begin("s", "m1", `call pay {"to":"acme","amount":1}`, `also echo {"n":2}`, `also pay {"to":"acme","amount":3}`)
	third := s.asking("s", string(r), "call-1-3")
	s.A.Finished(toolcall.Key{Space: s.A.ID, Session: "s", Reply: r, Call: "call-1-2"})
	s.A.Approve(gatewaytest.Ann, third)
	s.A.Reject(gatewaytest.Ann, s.asking("s", string(r), "call-1-1"), "no")
	text, _ := s.ended("s").Messages[1].TextContent("")
	if lines := strings.Split(text, "\n"); len(lines) < 3 || !strings.HasPrefix(lines[0], "pay: denied:") || lines[1] != `echo: success: {"n":2}` || lines[2] != `pay: success: {"to":"acme","amount":3}` {
		t.Errorf("the results are %q", text)
	}
}

const denied = "Permission denied for drop (rule never: tables are not dropped here)."

func TestSecondTurn(t *testing.T) {
	s := newStage(t)
	s.begin("s", "m1", "say one")
	s.ended("s")
	s.begin("s", "m2", "say two")
	s.want(s.ended("s"), "user me: [say one]", "assistant bot: [one] completed", "user me: [say two]", "assistant bot: [two] completed")
	_, err := s.runner.Start(t.Context(), user(), "s", "bot", agent.Input{Messages: []*message.Msg{says(t, "m1", "say three"), says(t, "m3", "say x")}})
	if !errors.Is(err, message.ErrConflict) {
		t.Errorf("a message was changed after it was sent: %v", err)
	}
}

func TestRefused(t *testing.T) {
	s := newStage(t)
	one := agent.Input{Messages: []*message.Msg{says(t, "m1", "say x")}}
	with := func(tools ...agent.Tool) agent.Input { return agent.Input{Messages: one.Messages, Tools: tools} }
	for _, row := range []struct {
		name    string
		by      toolcall.Principal
		session message.SessionID
		agent   string
		in      agent.Input
		want    error
	}{
		{"an approver", toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"}, "s", "bot", one, message.ErrForbidden},
		{"no name", toolcall.Principal{Role: toolcall.RoleRuntime}, "s", "bot", one, message.ErrForbidden},
		{"the runner itself", toolcall.Principal{Role: toolcall.RoleRuntime, Name: agent.Principal}, "s", "bot", one, message.ErrForbidden},
		{"no such agent", user(), "s", "other", one, message.ErrNotFound},
		{"no session", user(), "", "bot", one, message.ErrInvalid},
		{"no message", user(), "s", "bot", agent.Input{}, message.ErrInvalid},
		{"a nil message", user(), "s", "bot", agent.Input{Messages: []*message.Msg{nil}}, message.ErrInvalid},
		{"a message of the agent", user(), "s", "bot", agent.Input{Messages: []*message.Msg{{ID: "x", Role: message.RoleAssistant}}}, message.ErrInvalid},
		{"a link that runs a script", user(), "s", "bot", agent.Input{Messages: []*message.Msg{links(t, "javascript:alert(1)")}}, message.ErrInvalid},
		{"a file", user(), "s", "bot", agent.Input{Messages: []*message.Msg{links(t, "file:///etc/passwd")}}, message.ErrInvalid},
		{"an engine's tool", user(), "s", "bot", with(agent.Tool{Name: gatewaytest.Pay}), message.ErrInvalid},
		{"a duplicate tool", user(), "s", "bot", with(agent.Tool{Name: "a"}, agent.Tool{Name: "a"}), message.ErrInvalid},
		{"a tool without a name", user(), "s", "bot", with(agent.Tool{}), message.ErrInvalid},
	} {
		if _, err := s.runner.Start(t.Context(), row.by, row.session, row.agent, row.in); !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", row.name, err, row.want)
		}
	}
	s.begin("s", "m1", "say x")
	s.ended("s")
	robot := toolcall.Principal{Role: toolcall.RoleRuntime, Name: gatewaytest.Robot}
	if _, err := s.runner.Start(t.Context(), robot, "s", "bot", one); !errors.Is(err, message.ErrForeign) {
		t.Errorf("the session of another principal: %v", err)
	}
}

// links is a message with a URL.
func links(t *testing.T, url string) *message.Msg {
	t.Helper()
	m, err := message.UserMsg("me", message.List(message.NewData(&message.URLSource{URL: url, MediaType: "text/html"})), message.WithID("m1"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestConflict(t *testing.T) {
	s := newStage(t)
	r := s.begin("s", "m1", `call pay {"to":"acme","amount":42}`)
	k := s.asking("s", string(r), "call-1-1")
	_, err := s.runner.Start(t.Context(), user(), "s", "bot", agent.Input{Messages: []*message.Msg{says(t, "m2", "say x")}})
	var open *agent.OpenTurnError
	if !errors.As(err, &open) || open.Reply != r || !errors.Is(err, message.ErrConflict) {
		t.Errorf("a message while a turn is open: %v", err)
	}
	s.begin("other", "m1", "say at the same time")
	s.ended("other")
	s.A.Reject(gatewaytest.Ann, k, "too much")
	s.ended("s")
	s.begin("s", "m2", "say now")
	s.ended("s")
}

// TestTwoProcesses begins turns of one session in two processes at the same time. Only one of
// them becomes the session's turn, in both processes.
func TestTwoProcesses(t *testing.T) {
	s := newStage(t)
	cfg := s.config()
	cfg.ID = "second"
	second, err := agent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	for _, session := range []message.SessionID{"a", "b", "c", "d"} {
		errs := make(chan error, 2)
		for i, r := range []*agent.Runner{s.runner, second} {
			m := says(t, []string{"m1", "m2"}[i], `call pay {"to":"acme","amount":42}`)
			go func() {
				_, err := r.Start(t.Context(), user(), session, "bot", agent.Input{Messages: []*message.Msg{m}})
				errs <- err
			}()
		}
		first, other := <-errs, <-errs
		var open *agent.OpenTurnError
		if lost := errors.Join(first, other); first != nil && other != nil || !errors.As(lost, &open) {
			t.Fatalf("two turns at the same time: %v; %v", first, other)
		}
		k := s.asking(string(session), string(open.Reply), "call-1-1")
		s.A.Reject(gatewaytest.Ann, k, "no")
		if thread := s.ended(string(session)); len(thread.Messages) != 2 || len(thread.Turns) != 1 {
			t.Errorf("the thread is\n%s", dump(thread))
		}
	}
}

func TestFailures(t *testing.T) {
	s := newStage(t)
	for _, row := range []struct{ line, want string }{
		{"fail rate_limit slow down", "assistant bot: error rate_limit: slow down"},
		{"fail nonsense slow down", "assistant bot: error unknown: slow down"},
		{"panic", "assistant bot: error internal: the agent failed; the server's log says why"},
		{"loop", "assistant bot: exceed_max_iters"},
	} {
		s.begin(row.line, "m", row.line)
		s.want(s.ended(row.line), "user me: ["+row.line+"]", row.want)
	}
}

// crammed fills the store before it goes on, and makes room a moment later.
type crammed struct{ s *stage }

func (crammed) Info() agent.Info { return agent.Info{Name: "crammed"} }

func (c crammed) Run(ctx context.Context, t agent.Turn) error {
	for _, id := range []message.CallID{"said", "done"} {
		c.s.A.Break(gatewaytest.Full)
		time.AfterFunc(100*time.Millisecond, func() { c.s.A.Break(gatewaytest.Works) })
		if _, err := t.Call(ctx, message.ToolCallBlock{ID: id, Name: gatewaytest.Echo, Input: `{}`}); err != nil {
			return err
		}
	}
	c.s.A.Break(gatewaytest.Full) // the end of the reply cannot be stored, either
	time.AfterFunc(100*time.Millisecond, func() { c.s.A.Break(gatewaytest.Works) })
	return nil
}

// TestFullStore: a turn waits while the store is full. It neither fails nor stays open for the next
// process.
func TestFullStore(t *testing.T) {
	c := &crammed{}
	s := newStage(t, c)
	c.s = s
	if _, err := s.runner.Start(t.Context(), user(), "s", "crammed", agent.Input{Messages: []*message.Msg{says(t, "m", "go on")}}); err != nil {
		t.Fatal(err)
	}
	s.want(s.ended("s"), "user me: [go on]", "assistant crammed: said=echo{}:finished said->success{{}} done=echo{}:finished done->success{{}} completed")
}

func TestInterrupt(t *testing.T) {
	s := newStage(t)
	interrupt := func(session string, r message.ReplyID) {
		t.Helper()
		s.deliver(session, &message.UserInterrupt{EventHeader: message.NewHeader(r)})
	}
	r := s.begin("parked", "m1", `call pay {"to":"acme","amount":42}`, "say never")
	s.asking("parked", string(r), "call-1-1")
	interrupt("parked", r)
	thread := s.ended("parked")
	if m := thread.Messages[1]; *m.FinishedReason != message.FinishedInterrupted || m.ToolResult("call-1-1").State != message.ToolResultInterrupted || len(m.Content) != 2 {
		t.Errorf("interrupted while parked:\n%s", dump(thread))
	}
	r = s.begin("busy", "m1", "say begun", "wait", "say never")
	s.until("busy", "its words", func(t *agent.Thread) bool {
		return strings.Contains(dump(t), "[begun]")
	})
	interrupt("busy", r)
	s.want(s.ended("busy"), "user me: [say begun\nwait\nsay never]", "assistant bot: [begun] interrupted")
	s.begin("busy", "m2", "say again")
	s.ended("busy")
}

// TestNotesAreReserved: only a runner can take the session of its notes, even before it first starts.
func TestNotesAreReserved(t *testing.T) {
	s := newStage(t)
	_, err := s.runner.Start(t.Context(), user(), "askance.turns/next", "bot", agent.Input{Messages: []*message.Msg{says(t, "m1", "say hi")}})
	if !errors.Is(err, message.ErrForeign) {
		t.Errorf("a user's turn in the session: %v", err)
	}
	cfg := s.config()
	cfg.ID = "next"
	next, err := agent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := next.Resume(t.Context()); err != nil {
		t.Error(err)
	}
}
