package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// unasking is a journal that delivers everything, wanted or not.
type unasking struct{ *Memory }

func (j unasking) Watch(ctx context.Context, after uint64, sink Sink) error {
	return j.Memory.Watch(ctx, after, struct{ Sink }{sink})
}

// The ids of own facts are kept until the watch meets the facts, whether the
// journal asks first or not.
func TestOwnFactsAreForgotten(t *testing.T) {
	for name, open := range map[string]func() Journal{
		"asking":   func() Journal { return NewMemory() },
		"unasking": func() Journal { return unasking{NewMemory()} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy, err := permission.Compile(permission.Policy{}, permission.Options{})
				if err != nil {
					t.Fatal(err)
				}
				e, err := New("x", open(), policy, []Tool{{Tool: permission.Tool{Name: "t"}}})
				if err != nil {
					t.Fatal(err)
				}
				if err := e.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				bot := e.As(message.Principal{Role: message.RoleRuntime, Name: "bot"})
				if _, err := bot.Propose(t.Context(), message.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: "a", Name: "t", Input: "{}"}, {ID: "b", Name: "t", Input: "{}"}}}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if n := len(e.own.ids); n != 0 {
					t.Errorf("%d ids of own facts are kept", n)
				}
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// lagging is a journal whose writers hear late that their facts are stored.
type lagging struct{ *Memory }

func (j lagging) Append(ctx context.Context, f *message.Fact, prev uint64) (uint64, error) {
	seq, err := j.Memory.Append(ctx, f, prev)
	time.Sleep(ownLag / 4) // in a bubble
	return seq, err
}

// Whoever has seen an event of a call finds the call in a list, also while the
// engine that writes it has not heard that it is stored.
func TestListKnowsWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy, err := permission.Compile(permission.Policy{}, permission.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := New("x", lagging{NewMemory()}, policy, []Tool{{Tool: permission.Tool{Name: "t"}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		bot := e.As(message.Principal{Role: message.RoleRuntime, Name: "bot"})
		proposed := make(chan error, 1)
		go func() {
			_, err := bot.Propose(t.Context(), message.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: "a", Name: "t", Input: "{}"}}})
			proposed <- err
		}()
		for after := uint64(0); ; {
			page, err := bot.Events(t.Context(), message.EventsRequest{Session: "s", After: after, WaitMS: 1})
			if err != nil {
				t.Fatal(err)
			}
			if after = page.Next; len(page.Events) > 0 {
				break
			}
		}
		out, err := bot.List(t.Context(), message.ListRequest{Session: "s", States: []message.ToolCallState{message.ToolCallAsking}})
		if err != nil || len(out.Calls) != 1 {
			t.Errorf("the list has %d calls, %v", len(out.Calls), err)
		}
		if err := errors.Join(<-proposed, e.Close()); err != nil {
			t.Error(err)
		}
	})
}
