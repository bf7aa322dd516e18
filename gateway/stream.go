package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// Stream is a stream of server-sent events with keep-alive comments. It is safe for
// concurrent use.
type Stream struct {
	mu  sync.Mutex
	sse *SSE
	ctx context.Context //nolint:containedctx // of the request: nothing is written once it has ended
}

// Streaming replies with a stream that f writes. ctx ends with the request, or when the peer
// stops reading; f must then return. Streaming returns the error of f unless ctx has ended.
func Streaming(ctx context.Context, w http.ResponseWriter, keepAlive time.Duration, f func(context.Context, *Stream) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &Stream{sse: NewSSE(w), ctx: ctx}
	if err := s.KeepAlive(); err != nil { // sends the headers
		return nil // the peer is gone
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	done := make(chan struct{})
	defer close(done)
	wg.Go(func() {
		tick := time.NewTicker(keepAlive)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if err := s.KeepAlive(); err != nil {
					cancel(err)
					return
				}
			case <-done:
				return
			}
		}
	})
	if err := f(ctx, s); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// Event is SSE.Event.
func (s *Stream) Event(id, name string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return s.sse.Event(id, name, data)
}

// JSON is SSE.JSON.
func (s *Stream) JSON(name string, v any) error {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return err
	}
	return s.Event("", name, b)
}

// KeepAlive is SSE.KeepAlive.
func (s *Stream) KeepAlive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sse.KeepAlive()
}

// writeTimeout is how long a reader of a stream may take to accept one write.
const writeTimeout = 10 * time.Second

// SSE writes server-sent events. Only one goroutine may use it.
type SSE struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// NewSSE begins a stream of server-sent events.
func NewSSE(w http.ResponseWriter) *SSE {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{}) // the request is read; the peer may be silent from now on
	return &SSE{w: w, rc: rc}
}

// Event writes one event; id and name may be empty. data with line breaks is split as the format
// requires.
func (s *SSE) Event(id, name string, data []byte) error {
	var b strings.Builder
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		b.WriteString("data: " + strings.TrimSuffix(line, "\r") + "\n")
	}
	b.WriteString("\n")
	return s.Write([]byte(b.String()))
}

// JSON writes one event without an id, whose data is v.
func (s *SSE) JSON(name string, v any) error {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return err
	}
	return s.Event("", name, b)
}

// KeepAlive writes a comment, which clients skip.
func (s *SSE) KeepAlive() error { return s.Write([]byte(":\n\n")) }

// Write writes and flushes framed bytes. A reader that does not accept them within
// writeTimeout is disconnected.
func (s *SSE) Write(b []byte) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.rc.Flush()
}

// Ended returns an error that tells the peer why a stream ends although its session continues.
// ctx is the request's. Ended returns nil if ctx has not ended or the peer is gone.
func Ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil, errors.Is(cause, context.Canceled):
		return nil
	case errors.Is(cause, errExpired), errors.Is(cause, errRevoked):
		return &message.Error{Code: message.CodeForbidden, Op: "stream", What: cause.Error(), Hint: "connect again with new credentials"}
	case errors.Is(cause, errClosing):
		return &message.Error{Code: message.CodeUnavailable, Op: "stream", What: cause.Error(), Hint: "connect again in a moment"}
	}
	return message.AsError("stream", cause)
}
