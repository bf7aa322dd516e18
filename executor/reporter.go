package executor

import (
	"context"
	"sync"
	"time"
)

// Limits of progress: at most one line per progressEvery is sent, the newest
// progressKept lines wait for their turn, sending one line can take progressTimeout, and
// sending the last lines of a finished run progressFlush.
const (
	progressEvery   = 50 * time.Millisecond
	progressKept    = 32
	progressFlush   = time.Second
	progressTimeout = time.Second
)

// reporter numbers lines of progress and sends them from a separate goroutine, so that a
// handler never waits for the network. Lines are numbered when they are reported: a gap
// shows that lines were dropped, always the oldest.
type reporter struct {
	send func(ctx context.Context, n int, text string) error
	wake chan struct{} // one token: there are lines, or closed changed

	mu     sync.Mutex // guards what follows
	n      int        // lines reported so far
	lines  []string   // the last reported lines, not yet sent
	closed bool
}

func newReporter(send func(context.Context, int, string) error) *reporter {
	return &reporter{send: send, wake: make(chan struct{}, 1)}
}

// add takes a line. It never blocks.
func (r *reporter) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.n++
	if r.lines = append(r.lines, text); len(r.lines) > progressKept {
		r.lines = r.lines[1:]
	}
	r.signal()
}

// close makes run return after the remaining lines were sent, or could not be sent.
func (r *reporter) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.signal()
}

func (r *reporter) signal() {
	select {
	case r.wake <- struct{}{}:
	default: // the token is already there
	}
}

// take removes the oldest waiting line.
func (r *reporter) take() (n int, text string, ok, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) == 0 {
		return 0, "", false, r.closed
	}
	n, text = r.n-len(r.lines)+1, r.lines[0]
	r.lines = r.lines[1:]
	return n, text, true, r.closed
}

// run sends until the reporter is closed and empty, or ctx ends.
func (r *reporter) run(ctx context.Context) {
	pace := time.NewTicker(progressEvery)
	defer pace.Stop()
	for ctx.Err() == nil {
		n, text, ok, closed := r.take()
		switch {
		case closed:
			r.flush(ctx, n, text, ok)
			return
		case ok:
			_ = r.send(ctx, n, text) // best effort; send logs
			select {
			case <-pace.C:
			case <-ctx.Done():
			}
		default:
			select {
			case <-r.wake:
			case <-ctx.Done():
			}
		}
	}
}

// flush sends the remaining lines without pauses, until one fails or the time is over.
func (r *reporter) flush(ctx context.Context, n int, text string, ok bool) {
	ctx, stop := context.WithTimeout(ctx, progressFlush)
	defer stop()
	for ; ok; n, text, ok, _ = r.take() {
		if r.send(ctx, n, text) != nil {
			return
		}
	}
}
