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

// scripted is a wire to a server that refuses initialize, as the official Python SDK does once it
// has read server/discover.
type scripted struct{ l *link }

func (s scripted) send(_ context.Context, f *frame, _ *waiting) error {
	if f.method == "initialize" {
		s.l.receive(&frame{id: f.id, fault: []byte(`{"code":-32022,"message":"connection is serving the 2026-07-28 protocol","data":{"supported":["2026-07-28"]}}`)}, nil)
	} else {
		s.l.receive(&frame{id: f.id, result: []byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)}, nil)
	}
	return nil
}

func (scripted) close() {}

// A modern server can need more than probeTime to start, as one that is downloaded does.
func TestSlowModernServer(t *testing.T) {
	t.Parallel()
	l := &link{peer: &peer{g: &Gateway{}}, pending: map[string]*waiting{}}
	l.wire = scripted{l}
	if err := l.initialize(t.Context()); err != nil || !l.modern || l.version != modernVersion || !l.has("tools") {
		t.Errorf("modern %t, revision %q, %v", l.modern, l.version, err)
	}
}
