package store_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// unasking is a journal that delivers everything, wanted or not.
type unasking struct{ *engine.Memory }

func (u unasking) Watch(ctx context.Context, after uint64, sink toolcall.Sink) error {
	return u.Memory.Watch(ctx, after, struct{ toolcall.Sink }{sink})
}

// lossy is a journal that stores event records, loses their acknowledgements and then cannot
// be read.
type lossy struct{ *engine.Memory }

func (l lossy) Append(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (uint64, error) {
	_, _ = l.Memory.Append(ctx, rec, prev)
	return 0, &message.Error{Code: message.CodeUnknownOutcome, Op: "append", What: "no acknowledgement"}
}

func (lossy) Last(context.Context, toolcall.Key) (toolcall.JournalEntry, error) {
	return toolcall.JournalEntry{}, &message.Error{Code: message.CodeUnavailable, Op: "last", What: "no answer"}
}

// full is a journal that stores nothing.
type full struct{ *engine.Memory }

func (full) Append(context.Context, *toolcall.EventRecord, uint64) (uint64, error) {
	return 0, &message.Error{Code: message.CodeFull, Op: "append", What: "the store is full"}
}

// follow makes a store that follows a journal until the test ends.
func follow(t *testing.T, j store.Journal, v *view.View, hooks store.Hooks) *store.Store {
	t.Helper()
	s := store.New(t.Context(), "x", "e", j, v, slog.New(slog.DiscardHandler), hooks)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Follow(ctx) }()
	<-s.CaughtUp()
	t.Cleanup(func() { stop(); <-ended }) //nolint:errcheck // it ends because it was stopped
	return s
}

func quiet() store.Hooks {
	return store.Hooks{
		Delivered: func(*toolcall.EventRecord) {}, AskedAt: func(*toolcall.EventRecord) (at time.Time) { return at },
		Wrote: func(*toolcall.EventRecord, time.Time, time.Duration) {},
		News:  func(*toolcall.EventRecord) {}, Compare: func(_, _ time.Time) {},
		Written: func(*toolcall.Call, []toolcall.Effect, time.Time) {},
	}
}

func binding(s *store.Store) *toolcall.EventRecord {
	rec := s.NewRecord(toolcall.Principal{Name: "bot"}, time.Now())
	rec.Session = &toolcall.SessionState{Key: toolcall.Key{Space: "x", Session: "s"}, Runtime: "bot"}
	return rec
}

// Every write leaves the store's memory: when the watch delivers it, when it fails, when its
// outcome stays unknown, and when the watch has ended.
func TestInFlightWritesAreRemoved(t *testing.T) {
	tests := []struct {
		name   string
		open   func() store.Journal
		ends   bool // the watch ends before the write
		stored bool // the write succeeds
	}{
		{"the journal delivers only what is wanted", func() store.Journal { return engine.NewMemory() }, false, true},
		{"the journal delivers everything", func() store.Journal { return unasking{engine.NewMemory()} }, false, true},
		{"lost acknowledgements", func() store.Journal { return lossy{engine.NewMemory()} }, false, false},
		{"a full journal", func() store.Journal { return full{engine.NewMemory()} }, false, false},
		{"the watch ended", func() store.Journal { return engine.NewMemory() }, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := follow(t, tt.open(), view.New(10), quiet())
				if tt.ends {
					s.EndWatch()
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := s.Append(ctx, binding(s), 0)
				if (err == nil) != tt.stored {
					t.Errorf("the write ended with %v, want success: %t", err, tt.stored)
				}
				synctest.Wait()
				if n := s.InFlight(); n != 0 {
					t.Errorf("the store still keeps %d writes", n)
				}
			})
		})
	}
}

// A store compares the journal's clock using its own event records, which the watch skips,
// and applies them to the view while reporting each as news only once.
func TestOwnRecordsAreNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		compared, news, v := 0, 0, view.New(10)
		hooks := quiet()
		hooks.Compare = func(at, stored time.Time) { compared++ }
		hooks.News = func(*toolcall.EventRecord) { news++ }
		s := follow(t, engine.NewMemory(), v, hooks)
		rec := binding(s)
		seq, err := s.Append(t.Context(), rec, 0)
		synctest.Wait()
		state, _ := v.Session(rec.Session.Key)
		if err != nil || compared != 1 || v.Sequence() != seq || state.Runtime != "bot" {
			t.Errorf("%v; compared %d times, the view is at %d of %d", err, compared, v.Sequence(), seq)
		}
	})
}
