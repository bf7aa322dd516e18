package enginetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
)

// cord ties one engine to the journal. It can be cut, as a process's death
// does, its reading can be held back, and faults can be tied in.
type cord struct {
	engine.Journal
	severed context.Context //nolint:containedctx // its life is the struct's
	sever   context.CancelFunc

	mu     sync.Mutex // guards all below
	append func(ctx context.Context, f *message.Fact, prev uint64, store appendFunc) (uint64, error)
	last   func(key message.Key) error
	hold   chan struct{} // non-nil: the watch delivers nothing until it is closed
}

type appendFunc func(ctx context.Context, f *message.Fact, prev uint64) (uint64, error)

func newCord(j engine.Journal) *cord {
	ctx, cancel := context.WithCancel(context.Background())
	return &cord{Journal: j, severed: ctx, sever: cancel}
}

var errCut = errors.New("the cord is cut")

func cutError(op string) error {
	return &message.Error{Code: message.CodeUnavailable, Op: op, What: "the journal is out of reach", Hint: "try again", Err: errCut}
}

func (c *cord) cut() { c.sever() }

// onAppend lets f take the place of Append; nil takes it away.
func (c *cord) onAppend(f func(ctx context.Context, fact *message.Fact, prev uint64, store appendFunc) (uint64, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.append = f
}

// onLast lets f make Last fail; nil takes it away.
func (c *cord) onLast(f func(key message.Key) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = f
}

// lag holds the watch back until the function that it returns is called.
func (c *cord) lag() (catchUp func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hold := make(chan struct{})
	c.hold = hold
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		closeOnce(hold)
	}
}

func (c *cord) Append(ctx context.Context, f *message.Fact, prev uint64) (uint64, error) {
	if c.severed.Err() != nil {
		return 0, cutError("append")
	}
	c.mu.Lock()
	instead := c.append
	c.mu.Unlock()
	if instead != nil {
		return instead(ctx, f, prev, c.Journal.Append)
	}
	return c.Journal.Append(ctx, f, prev)
}

func (c *cord) AppendEvent(ctx context.Context, runtime string, reply message.Key, events []message.RawJSON) (uint64, error) {
	if c.severed.Err() != nil {
		return 0, cutError("append")
	}
	return c.Journal.AppendEvent(ctx, runtime, reply, events)
}

func (c *cord) Last(ctx context.Context, key message.Key) (message.Record, error) {
	if c.severed.Err() != nil {
		return message.Record{}, cutError("last")
	}
	c.mu.Lock()
	fault := c.last
	c.mu.Unlock()
	if fault != nil {
		if err := fault(key); err != nil {
			return message.Record{}, err
		}
	}
	return c.Journal.Last(ctx, key)
}

func (c *cord) Watch(ctx context.Context, after uint64, sink message.Sink) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.severed, func() { cancel(errCut) })()
	return c.Journal.Watch(ctx, after, &lagging{c, ctx, sink})
}

// lagging is a sink that waits while the cord lags.
type lagging struct {
	c    *cord
	ctx  context.Context //nolint:containedctx // its life is the struct's
	sink message.Sink
}

// ready waits while the cord lags, and reports whether it is still whole.
func (l *lagging) ready() bool {
	l.c.mu.Lock()
	hold := l.c.hold
	l.c.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-l.ctx.Done():
		}
	}
	return l.c.severed.Err() == nil
}

func (l *lagging) Wants(seq uint64, id string, stored time.Time) bool {
	if !l.ready() {
		return false
	}
	choosy, ok := l.sink.(message.ChoosySink)
	return !ok || choosy.Wants(seq, id, stored)
}

func (l *lagging) Record(r message.Record) {
	if l.ready() {
		l.sink.Record(r)
	}
}

func (l *lagging) CaughtUp() { l.sink.CaughtUp() }
