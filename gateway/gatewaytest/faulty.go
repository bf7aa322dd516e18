package gatewaytest

import (
	"context"
	"sync/atomic"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Fault is a way in which a journal fails.
type Fault int32

// The faults of a journal.
const (
	Works   Fault = iota
	Hangs         // it never replies
	Refuses       // it replies with an error
	Full          // it can be read, but accepts no record
)

// Break sets the fault of the space's journal; Works removes it.
func (s *Space) Break(f Fault) { s.fault.kind.Store(int32(f)) }

// faulty is a journal that can be broken.
type faulty struct {
	*bus.Journal
	kind atomic.Int32
}

// check returns the error of an operation, and hangs if the journal does.
func (j *faulty) check(ctx context.Context, writes bool) error {
	switch Fault(j.kind.Load()) {
	case Hangs:
		<-ctx.Done()
		return &message.Error{Code: message.CodeUnavailable, Op: "journal", What: "no answer", Hint: "wait", Err: context.Cause(ctx)}
	case Refuses:
		return &message.Error{Code: message.CodeUnavailable, Op: "journal", What: "refused", Hint: "wait"}
	case Full:
		if writes {
			return &message.Error{Code: message.CodeFull, Op: "journal", What: "no room", Hint: "make room"}
		}
	case Works:
	}
	return nil
}

func (j *faulty) ready(ctx context.Context) error { return j.check(ctx, true) }

// Append implements engine.Journal.
func (j *faulty) Append(ctx context.Context, f *toolcall.EventRecord, prev uint64) (uint64, error) {
	if err := j.check(ctx, true); err != nil {
		return 0, err
	}
	return j.Journal.Append(ctx, f, prev)
}

// AppendEvent implements engine.Journal.
func (j *faulty) AppendEvent(ctx context.Context, runtime string, reply toolcall.Key, events []message.RawJSON) (uint64, error) {
	if err := j.check(ctx, true); err != nil {
		return 0, err
	}
	return j.Journal.AppendEvent(ctx, runtime, reply, events)
}

// Last implements engine.Journal.
func (j *faulty) Last(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error) {
	if err := j.check(ctx, false); err != nil {
		return toolcall.JournalEntry{}, err
	}
	return j.Journal.Last(ctx, key)
}

// History implements engine.Journal.
func (j *faulty) History(ctx context.Context, key toolcall.Key) ([]toolcall.JournalEntry, error) {
	if err := j.check(ctx, false); err != nil {
		return nil, err
	}
	return j.Journal.History(ctx, key)
}

// Read implements engine.Journal.
func (j *faulty) Read(ctx context.Context, session toolcall.Key, after uint64, limit int) ([]toolcall.JournalEntry, uint64, error) {
	if err := j.check(ctx, false); err != nil {
		return nil, after, err
	}
	return j.Journal.Read(ctx, session, after, limit)
}
