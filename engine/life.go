package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// life is how long an engine and its goroutines live.
type life struct {
	ctx     context.Context //nolint:containedctx // the life of the engine, not of a request; ends with ErrStopping
	stop    context.CancelCauseFunc
	wg      sync.WaitGroup
	jobs    chan struct{} // bounds the background steps that run at once
	closing atomic.Bool   // no new request is taken
	mu      sync.Mutex    // guards all below, and that no goroutine begins after stop
	steps   int           // being taken: each may end in a run
}

// maxJobs bounds background steps (timers, followers); requests come on their
// callers' goroutines.
const maxJobs = 64

func newLife() *life {
	l := &life{jobs: make(chan struct{}, maxJobs)}
	l.ctx, l.stop = context.WithCancelCause(context.Background())
	return l
}

// end stops the engine after at most drain, and waits for all goroutines. runs is
// how many local calls run.
func (l *life) end(drain time.Duration, runs func() int) {
	if l.closing.CompareAndSwap(false, true) {
		l.drain(drain, runs)
		l.mu.Lock()
		l.stop(ErrStopping)
		l.mu.Unlock()
	}
	l.wg.Wait()
}

// drain waits until no local call runs or is about to, at most so long.
func (l *life) drain(most time.Duration, runs func() int) {
	deadline := time.NewTimer(most)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		l.mu.Lock()
		steps := l.steps // first: what a step starts is counted before the step ends
		l.mu.Unlock()
		if steps+runs() == 0 {
			return
		}
		select {
		case <-deadline.C:
			return
		case <-tick.C:
		}
	}
}

// enterStep announces a step that may start a local attempt; leave ends it. A step
// that is entered before Close is waited for: a start that is on record has to be
// run, or no replica could tell that it was not.
func (l *life) enterStep() (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.steps--
	}
}

// startGoroutine runs f on a goroutine that Close waits for, and reports whether:
// after stop none begins.
func (l *life) startGoroutine(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.wg.Go(f)
	return true
}

// runInBackground runs f as one of the bounded background steps. It gives up
// silently when the engine stops first: what f would do is derived again from the
// journal.
func (l *life) runInBackground(f func(ctx context.Context)) {
	l.startGoroutine(func() {
		select {
		case l.jobs <- struct{}{}:
			defer func() { <-l.jobs }()
			f(l.ctx)
		case <-l.ctx.Done():
		}
	})
}
