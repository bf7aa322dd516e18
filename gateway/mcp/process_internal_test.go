package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
)

// A server that does not read its input holds up no request whose client gave it up.
func TestSendToDeafServer(t *testing.T) {
	t.Parallel()
	l := &link{up: &Upstream{Command: []string{"sleep", "1000"}}, log: slog.New(slog.DiscardHandler), pending: map[string]*waiting{}}
	p, err := startProcess(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	large := &frame{method: "notifications/message", params: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(p.turn) == 0 {
			runtime.Gosched()
		}
		cancel()
	}()
	if err := p.send(ctx, large, nil); err != nil {
		t.Errorf("a message that the server has a part of: %v", err)
	}
	if err := p.send(ctx, large, nil); !errors.Is(err, errNotSent) || !errors.Is(err, context.Canceled) {
		t.Errorf("a message behind it: %v", err)
	}
}
