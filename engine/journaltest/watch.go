package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/askance-dev/askance/toolcall"
)

var errDone = errors.New("the case is over")

// watcher is a sink that can be waited for.
type watcher struct {
	j       *journalTest
	ctx     context.Context //nolint:containedctx // its life is the struct's
	mu      sync.Mutex      // guards names, seqs and caughtAt
	names   []string
	seqs    []uint64
	caught  []int // how many records had come when CaughtUp was called
	moved   chan struct{}
	busy    atomic.Bool
	stopped chan error
}

func (j *journalTest) watch(after uint64) *watcher {
	ctx, cancel := context.WithCancelCause(context.Background())
	w := &watcher{j: j, ctx: ctx, moved: make(chan struct{}, 1), stopped: make(chan error, 1)}
	go func() { w.stopped <- j.Watch(ctx, after, w) }()
	j.Cleanup(func() {
		cancel(errDone)
		if err := <-w.stopped; !errors.Is(err, errDone) {
			j.Errorf("the watch ended with %v, not with its context's cause", err)
		}
	})
	return w
}

func (w *watcher) note(f func()) {
	if !w.busy.CompareAndSwap(false, true) {
		w.j.Error("the watch called its sink from two goroutines at once")
	}
	w.mu.Lock()
	f()
	w.mu.Unlock()
	w.busy.Store(false)
	select {
	case w.moved <- struct{}{}:
	default:
	}
}

func (w *watcher) Record(r toolcall.JournalEntry) {
	w.note(func() { w.names, w.seqs = append(w.names, name(r)), append(w.seqs, r.Seq) })
}

func (w *watcher) CaughtUp() { w.note(func() { w.caught = append(w.caught, len(w.names)) }) }

// wait waits until the watch has delivered n records and has caught up.
func (w *watcher) wait(n int) {
	w.j.Helper()
	deadline, cancel := context.WithTimeout(w.j.Context(), caseTime)
	defer cancel()
	for {
		w.mu.Lock()
		got, caught := len(w.names), len(w.caught)
		w.mu.Unlock()
		if got >= n && caught > 0 {
			return
		}
		select {
		case <-w.moved:
		case <-deadline.Done():
			w.j.Fatalf("the watch delivered %d of %d records, and caught up %d times", got, n, caught)
		}
	}
}

// check compares what was delivered with what was written: the records in order, and
// CaughtUp once, after the past records.
func (w *watcher) check(want []string, past int) {
	w.j.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.names, want) {
		w.j.Errorf("the watch delivered %v, want %v", w.names, want)
	}
	if !slices.IsSorted(w.seqs) {
		w.j.Errorf("the sequences are not in order: %v", w.seqs)
	}
	if len(w.caught) != 1 || w.caught[0] < past {
		w.j.Errorf("CaughtUp came after %v records, want once and not before %d", w.caught, past)
	}
}

func watching(j *journalTest) {
	early := j.watch(0)
	early.wait(0)
	early.check(nil, 0)
	want := j.story("s")
	late := j.watch(0)
	late.wait(len(want))
	want = append(want, j.story("t")...)
	for _, w := range []*watcher{early, late} {
		w.wait(len(want))
	}
	early.check(want, 0)
	late.check(want, len(want)/2)
}

func watchingFrom(j *journalTest) {
	j.story("s")
	records, _, err := j.Read(j.Context(), j.key("s", "", ""), 0, 1000)
	if err != nil {
		j.Fatal(err)
	}
	for _, skip := range []int{1, 7, len(records)} {
		var want []string
		for _, r := range records[skip:] {
			want = append(want, name(r))
		}
		w := j.watch(records[skip-1].Seq)
		w.wait(len(want))
		w.check(want, len(want))
	}
}

// watchingUnderLoad starts watches while many writers write.
func watchingUnderLoad(j *journalTest) {
	const writers, records = 8, 25
	var wg sync.WaitGroup
	var watchers []*watcher
	for i := range writers {
		key := j.key("s", "r", fmt.Sprint("c", i, "-"))
		wg.Go(func() {
			var prev uint64
			for n := 1; n <= records; n++ {
				var err error
				if prev, err = j.Append(j.Context(), j.record(key, n), prev); err != nil {
					j.Errorf("append: %v", err)
					return
				}
			}
		})
		watchers = append(watchers, j.watch(0))
	}
	wg.Wait()
	for _, w := range watchers {
		w.wait(writers * records)
		w.checkLoad(writers, records)
	}
}

func (w *watcher) checkLoad(writers, records int) {
	w.j.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	next := map[string]int{}
	for _, n := range w.names {
		var call string
		var number, i int
		if _, err := fmt.Sscanf(n, "c%d-%d", &i, &number); err != nil {
			w.j.Fatalf("record %q: %v", n, err)
		}
		call = fmt.Sprint("c", i)
		if next[call]++; next[call] != number {
			w.j.Fatalf("%s came as number %d of its call", n, next[call])
		}
	}
	if len(w.names) != writers*records || len(next) != writers || !slices.IsSorted(w.seqs) || len(w.caught) != 1 {
		w.j.Errorf("%d records of %d calls, caught up %v", len(w.names), len(next), w.caught)
	}
}

// caller is a sink that calls done when it has caught up.
type caller struct{ done func() }

func (*caller) Record(toolcall.JournalEntry) {}
func (c *caller) CaughtUp()                  { c.done() }

func watchEnds(j *journalTest) {
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	if err := j.Watch(ctx, 0, &caller{done: func() { cancel(why) }}); !errors.Is(err, why) {
		j.Errorf("Watch ended with %v, want the context's cause", err)
	}
	ended, cancelNow := context.WithCancel(context.Background())
	cancelNow()
	if err := j.Watch(ended, 0, &caller{done: func() {}}); !errors.Is(err, context.Canceled) {
		j.Errorf("Watch with an ended context returned %v", err)
	}
}
