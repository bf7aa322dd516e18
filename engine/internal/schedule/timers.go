package schedule

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// Timers holds when the engine has to look at which entity again. One goroutine
// owns the waiting; an open approval request costs one heap entry and no goroutine. A
// timer only causes a look: what is done is decided from the event records and written
// by compare-and-swap, so a doubled or stale timer is harmless.
type Timers struct {
	mu    sync.Mutex // guards heap and slow
	heap  dueHeap
	slow  bool          // it waits for longer than a pulse
	woken chan struct{} // has room for one token: the earliest entry changed
}

// Due is a look whose time has come.
type Due struct {
	At  time.Time
	Key toolcall.Key
	Seq uint64 // the event record for which it was set; a later event record sets its own
}

// NewTimers makes timers without an entry.
func NewTimers() *Timers { return &Timers{woken: make(chan struct{}, 1)} }

// Set asks for a look at key at the given time.
func (t *Timers) Set(at time.Time, key toolcall.Key, seq uint64) {
	t.mu.Lock()
	heap.Push(&t.heap, Due{at, key, seq})
	news := t.slow || t.heap[0].Key == key && t.heap[0].At.Equal(at)
	t.mu.Unlock()
	if news {
		select {
		case t.woken <- struct{}{}:
		default: // a token is there already
		}
	}
}

// A process that is stopped (by a signal, with its machine) cannot listen. While
// it has to, its timers run at least every pulse; waking up a whole pulse late
// is a pause.
const pulse = 200 * time.Millisecond

// idle is the longest wait of the timers: a clock that was set is noticed then.
const idle = time.Minute

// Run calls fire for each entry when its time has come, until ctx ends. fire
// must not block. Pauses of the process are reported to l before
// anything fires.
func (t *Timers) Run(ctx context.Context, l *Liveness, fire func(Due)) {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for expected := time.Now().Add(idle); ; {
		now, wait := time.Now(), idle
		if late := now.Sub(expected); late > pulse {
			l.Excuse(late, now)
		}
		if l.isListening() {
			wait = pulse
		}
		t.mu.Lock()
		var ready []Due
		for len(t.heap) > 0 {
			if d := t.heap[0].At.Sub(now); d > 0 {
				wait = min(wait, d)
				break
			}
			ready = append(ready, heap.Pop(&t.heap).(Due))
		}
		t.slow = wait > pulse
		t.mu.Unlock()
		for _, d := range ready {
			fire(d)
		}
		if len(ready) > 0 {
			expected = now.Add(idle)
			continue // fire may have set earlier ones
		}
		timer.Reset(wait)
		expected = now.Add(wait)
		select {
		case <-timer.C:
		case <-t.woken:
		case <-ctx.Done():
			return
		}
	}
}

type dueHeap []Due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].At.Before(h[j].At) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(Due)) }
func (h *dueHeap) Pop() any {
	old := *h
	d := old[len(old)-1]
	*h = old[:len(old)-1]
	return d
}
