package script_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agent/script"
	"github.com/askance-dev/askance/message"
)

// stub is a turn without a journal: calls answer with their input.
type stub struct {
	msgs []*message.Msg
	out  *message.Msg
}

func newStub(t *testing.T, text string) *stub {
	t.Helper()
	m, err := message.UserMsg("me", message.Content{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	return &stub{msgs: []*message.Msg{m}, out: &message.Msg{ID: "r", Role: message.RoleAssistant}}
}

func (*stub) Session() message.SessionID                             { return "s" }
func (*stub) Reply() message.ReplyID                                 { return "r" }
func (s *stub) Conversation(context.Context) ([]*message.Msg, error) { return s.msgs, nil }
func (*stub) Tools() []agent.Tool                                    { return nil }
func (*stub) Input() map[string]message.RawJSON                      { return nil }

func (s *stub) Emit(_ context.Context, events ...message.Event) error {
	for _, e := range events {
		e.Header().Reply = "r"
		if err := message.Append(s.out, e); err != nil {
			return err
		}
	}
	return nil
}

func (s *stub) Call(_ context.Context, calls ...message.ToolCallBlock) ([]message.ToolResultBlock, error) {
	var out []message.ToolResultBlock
	for _, c := range calls {
		out = append(out, message.ToolResultBlock{ID: c.ID, State: message.ToolResultSuccess, Output: message.Content{Text: c.Input}})
	}
	return out, nil
}

// TestLines: what each line does.
func TestLines(t *testing.T) {
	for text, want := range map[string]string{
		"say hi":                         "hi",
		"  say  hi there \r\nsay you":    "hi there|you",
		"stream 3":                       "00001 00002 00003 ",
		"stream nonsense":                "00001 ",
		"stream -4":                      "00001 ",
		"call echo":                      "echo: success: {}\n",
		"call a {\"n\":1}\nalso b {}":    "a: success: {\"n\":1}\nb: success: {}\n",
		"also b {}":                      script.Help,
		"say x\nalso b {}\nwhat is this": "x",
		"What will the weather be?":      script.Help,
		"":                               script.Help,
	} {
		s := newStub(t, text)
		if err := script.New("bot").Run(t.Context(), s); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if got, _ := s.out.TextContent("|"); got != want {
			t.Errorf("%q is answered %q, want %q", text, got, want)
		}
	}
}

// TestGoesOn: a reply that was cut off anywhere in a text continues there.
func TestGoesOn(t *testing.T) {
	const text = "stream 4"
	whole := "00001 00002 00003 00004 "
	for n := range len(whole) + 1 {
		s := newStub(t, text)
		if n > 0 {
			s.out.Content = []message.Block{&message.TextBlock{ID: "r-say-1", Text: whole[:n]}}
			s.msgs = append(s.msgs, s.out)
		}
		if err := script.New("bot").Run(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if got, _ := s.out.TextContent(""); got != whole {
			t.Errorf("cut off at %d, the text is %q", n, got)
		}
	}
}

func TestEnds(t *testing.T) {
	var failed *agent.ReplyError
	if err := script.New("bot").Run(t.Context(), newStub(t, "fail upstream too slow\nsay never")); !errors.As(err, &failed) || failed.What != "too slow" {
		t.Errorf("fail: %v", err)
	}
	if err := script.New("bot").Run(t.Context(), newStub(t, "loop")); !errors.Is(err, agent.ErrMaxIters) {
		t.Errorf("loop: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(agent.ErrInterrupted)
	for _, text := range []string{"wait", "stream 3 1000"} {
		if err := script.New("bot").Run(ctx, newStub(t, text)); !errors.Is(err, agent.ErrInterrupted) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if i := script.New("bot", agent.Tool{Name: "echo"}).Info(); i.Name != "bot" || len(i.Tools) != 1 || strings.TrimSpace(i.Description) == "" {
		t.Errorf("the agent describes itself as %+v", i)
	}
}
