package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Stream is a stream of server-sent events that is kept alive by comments
// while nothing happens. Its methods may be called from many goroutines.
type Stream struct {
	mu  sync.Mutex
	sse *SSE
}

// Streaming answers a request with a stream that f writes. ctx ends when the
// request does, or when the peer does not read; f then returns. An error of f
// is returned if it is not the end of ctx.
func Streaming(ctx context.Context, w http.ResponseWriter, keepAlive time.Duration, f func(context.Context, *Stream) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &Stream{sse: NewSSE(w)}
	if err := s.KeepAlive(); err != nil { // the headers are on their way
		return nil // the peer has gone
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

// Event writes one event: see SSE.Event.
func (s *Stream) Event(id, name string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sse.Event(id, name, data)
}

// JSON writes one event without an id: see SSE.JSON.
func (s *Stream) JSON(name string, v any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sse.JSON(name, v)
}

// KeepAlive writes a comment.
func (s *Stream) KeepAlive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sse.KeepAlive()
}
