package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// newerSessions is a journal whose facts of sessions are of a later version.
type newerSessions struct{ engine.Journal }

func (j newerSessions) Last(ctx context.Context, key message.Key) (message.Record, error) {
	if key.Session != "" && key.Reply == "" {
		return message.Record{Key: key, Seq: 1, Invalid: errors.New("fact version 2")}, nil
	}
	return j.Journal.Last(ctx, key)
}

// A session of which nobody can tell whose it is belongs to somebody: no runtime
// reads it, or ends its calls.
func TestSessionThatCannotBeReadIsSomebodys(t *testing.T) {
	bundle, err := permission.Compile(permission.Policy{}, permission.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New("default", newerSessions{engine.NewMemory()}, bundle, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	bot := e.As(message.Principal{Role: message.RoleRuntime, Name: "bot"})
	_, events := bot.Events(t.Context(), message.EventsRequest{Session: "s"})
	_, wait := bot.Wait(t.Context(), message.WaitRequest{Session: "s", Reply: "r", TimeoutMS: 1})
	_, interrupt := bot.Interrupt(t.Context(), message.InterruptRequest{Session: "s", Reply: "r"})
	for op, err := range map[string]error{"events": events, "wait": wait, "interrupt": interrupt} {
		if got, ok := errors.AsType[*message.Error](err); !ok || got.Code != message.CodeInternal || got.Op != op {
			t.Errorf("%s: %v, want that the session cannot be read", op, err)
		}
	}
}
