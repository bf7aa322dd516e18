package engine

import (
	"context"
	"testing"
	"testing/synctest"

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
