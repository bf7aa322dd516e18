package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/toolcall"
)

// lease is the time after which the engine counts a silent owner as dead, measured by
// this worker's clocks.
type lease struct {
	since  time.Time // before the stored request was sent: the engine began to count no earlier
	length time.Duration
}

// errNotBegun says that no part of the attempt ran here, and none will.
var errNotBegun = errors.New("the attempt was not begun")

// mayBegin refuses an attempt that the engine may have given up, or may give up before the
// first heartbeat arrives.
func (l lease) mayBegin() error {
	if l.length < toolcall.MinLease {
		return fmt.Errorf("%w: the engine's lease of %s is shorter than the %s that a worker can keep; give the tool a longer lease", errNotBegun, l.length, toolcall.MinLease)
	}
	if past := elapsed(l.since); past > toolcall.BeginWithin(l.length) {
		return fmt.Errorf("%w: %s of the lease of %s had passed", errNotBegun, past.Round(time.Millisecond), l.length)
	}
	return nil
}

func elapsed(t time.Time) time.Duration { return toolcall.Elapsed(t, time.Now()) }

// maxBegun limits how many grants a worker remembers.
const maxBegun = 1 << 16

// begunGrants remembers the grants whose attempts have begun in this process,
// until they expire. An expired grant begins nothing.
type begunGrants struct {
	mu    sync.Mutex // guards what follows
	known map[string]time.Time
	order []string // oldest first
}

// add notes a grant and reports whether this is the first time.
func (b *begunGrants) add(g *toolcall.Grant, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, again := b.known[g.Nonce]; again {
		return false
	}
	if b.known == nil {
		b.known = map[string]time.Time{}
	}
	for len(b.order) > 0 && (len(b.order) >= maxBegun || now.After(b.known[b.order[0]])) {
		delete(b.known, b.order[0])
		b.order = b.order[1:]
	}
	b.known[g.Nonce] = g.Expires
	b.order = append(b.order, g.Nonce)
	return true
}

// clockTolerance is how much a worker's clock may differ before that is logged.
const clockTolerance = time.Second

// clock is how a worker's clock differs from the engines'. It is measured by the time in
// an engine's reply, which lies between sending and receiving.
type clock struct {
	mu            sync.Mutex // guards all below
	ahead, within time.Duration
	off           bool
}

// measure takes the time of a reply into account, and logs once per change.
func (c *clock) measure(log *slog.Logger, sent, received, engine time.Time) {
	if engine.IsZero() { // the engine does not send its time
		return
	}
	within := received.Sub(sent) / 2
	ahead := sent.Add(within).Sub(engine)
	off := ahead.Abs()-within > clockTolerance
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.off
	if was && !off && within > clockTolerance {
		return // the reply took too long to prove that the clocks agree
	}
	c.ahead, c.within, c.off = ahead, within, off
	switch {
	case off && !was:
		log.Warn("this machine's clock differs from the engine's: correct it, or valid grants will be refused here", "ahead", ahead.Round(time.Millisecond).String(), "within", within.String())
	case was && !off:
		log.Warn("this machine's clock agrees with the engine's again")
	}
}

// engineTime is the time by the engine's clock, as last measured.
func (c *clock) engineTime() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.off {
		return time.Now()
	}
	return time.Now().Add(-c.ahead)
}

// on tells an engine of the clock, with a heartbeat.
func (c *clock) on(r toolcall.HeartbeatRequest) toolcall.HeartbeatRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off {
		r.ClockMS, r.ClockWithinMS = c.ahead.Milliseconds(), c.within.Milliseconds()
	}
	return r
}

// Waiting between tries: doubled from the first to the last, each wait drawn
// from its upper half so that workers which lost the same engine do not all
// come back in the same instant.
const (
	backoffFirst = 100 * time.Millisecond
	backoffLast  = 10 * time.Second
)

// backoff counts tries. The zero value is ready; it is not safe for concurrent
// use.
type backoff struct{ last time.Duration }

// next returns how long to wait now.
func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, backoffFirst), backoffLast)
	return b.last/2 + rand.N(b.last/2+1)
}

// wait waits and reports whether to try again; ctx ends it early.
func (b *backoff) wait(ctx context.Context) bool {
	return sleep.For(ctx, b.next()) == nil
}

// withDelayedEnd returns a context that ends d after parent, with the given cause. release
// frees it and waits for its goroutine.
func withDelayedEnd(parent context.Context, d time.Duration, cause error) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	ended := make(chan struct{})
	stop := context.AfterFunc(parent, func() {
		defer close(ended)
		select {
		case <-time.After(d):
			cancel(cause)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		if !stop() {
			<-ended
		}
	}
}
