package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var errClosed = errors.New("the approval request is closed")

// follower is a toolcall.Sink: it forwards the records of one reply and tracks which
// approval requests are open.
type follower struct {
	reply toolcall.Key
	sink  toolcall.Sink
	asked chan *toolcall.Call // approval requests as they open; has room for many

	mu    sync.Mutex // guards the fields below
	told  uint64     // everything up to here was forwarded
	calls map[toolcall.Key]*toolcall.Call
	moved chan struct{} // closed and replaced with each record
}

func newFollower(reply toolcall.Key, sink toolcall.Sink) *follower {
	return &follower{
		reply: reply, sink: sink, asked: make(chan *toolcall.Call, toolcall.MaxCallsPerTurn),
		calls: map[toolcall.Key]*toolcall.Call{}, moved: make(chan struct{}),
	}
}

// CaughtUp implements toolcall.Sink.
func (f *follower) CaughtUp() { f.sink.CaughtUp() }

// Record implements toolcall.Sink.
func (f *follower) Record(r toolcall.JournalEntry) {
	ours := r.Key.ReplyKey() == f.reply
	if ours {
		f.sink.Record(r)
	}
	f.mu.Lock()
	if ours && r.Record != nil && r.Record.Call != nil {
		f.calls[r.Key] = r.Record.Call
	}
	f.told = r.Seq
	close(f.moved)
	f.moved = make(chan struct{})
	f.mu.Unlock()
	if ours && r.Record != nil && r.Record.Call != nil && r.Record.Note == nil && r.Record.Call.State == message.ToolCallAsking {
		f.asked <- r.Record.Call // has room, unless a person edits one call hundreds of times
	}
}

// whileOpen returns a context that ends with errClosed when the approval request of c
// is closed. stop ends the watch.
func (f *follower) whileOpen(ctx context.Context, c *toolcall.Call) (open context.Context, stop func()) {
	open, end := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		closed := f.until(open, func() bool {
			now := f.calls[c.Key]
			return now.State != message.ToolCallAsking || now.Digest != c.Digest
		})
		if closed == nil {
			end(errClosed)
		}
	}()
	return open, func() { end(context.Canceled); <-done }
}

func (f *follower) until(ctx context.Context, ok func() bool) error {
	for {
		f.mu.Lock()
		met, moved := ok(), f.moved
		f.mu.Unlock()
		if met {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("follow the journal: %w", context.Cause(ctx))
		}
	}
}
