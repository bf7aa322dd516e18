// Package schedule is what the engine knows of time: when it has to look at an
// entity again ([Timers]), when it last heard of the owners of running attempts
// ([Liveness]), how long it pauses between attempts ([Pauses], [Double]), and
// which clocks differ from its own ([Clocks]).
//
// A timer only causes a look: what is due is decided from the journal and written
// by compare-and-swap, so that a doubled or stale timer is harmless. Each type
// guards itself; all methods may be called from many goroutines.
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
		type look struct {
			key toolcall.Key
			seq uint64
		}
		fired := map[look]bool{} // one look does for all timers of a record that are due
		for _, d := range ready {
			if l := (look{d.Key, d.Seq}); !fired[l] {
				fired[l] = true
				fire(d)
			}
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

// Double gives d doubled so many times, at most limit.
func Double(d time.Duration, times int, limit time.Duration) time.Duration {
	for ; times > 0 && d < limit; times-- {
		d *= 2
	}
	return min(d, limit)
}

// Pauses are the pauses between attempts at something that has to succeed: each
// is twice as long as the one before.
type Pauses struct {
	Next time.Duration // the first pause, then the one that follows
	Most time.Duration // no pause is longer
}

// Wait pauses and reports whether to try again: false if ctx ended first.
func (p *Pauses) Wait(ctx context.Context) bool {
	timer := time.NewTimer(p.Next)
	defer timer.Stop()
	p.Next = Double(p.Next, 1, p.Most)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Liveness remembers when each running attempt was last heard of by this
// replica. A replica may call an owner dead only after it has itself listened
// for a whole lease, so what it has not heard of counts from when it began to
// listen.
type Liveness struct {
	mu    sync.Mutex // guards heard
	heard map[toolcall.Key]beat
}

type beat struct {
	attempt int
	at      time.Time
}

// NewLiveness makes a Liveness that has heard of no owner.
func NewLiveness() *Liveness { return &Liveness{heard: map[toolcall.Key]beat{}} }

// Hear notes a sign of life.
func (l *Liveness) Hear(key toolcall.Key, attempt int, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.heard[key]; attempt > b.attempt || attempt == b.attempt && at.After(b.at) {
		l.heard[key] = beat{attempt, at}
	}
}

// LastHeard is the latest sign of life of an attempt; if there is none, the
// listening begins now.
func (l *Liveness) LastHeard(key toolcall.Key, attempt int, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.heard[key]
	if b.attempt != attempt {
		b = beat{attempt, now}
		l.heard[key] = b
	}
	return b.at
}

// Excuse does not count a pause of this process as listening: an owner that was heard
// of before it is taken to have been heard of that much later.
func (l *Liveness) Excuse(pause time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, b := range l.heard {
		if b.at = b.at.Add(pause); b.at.After(now) {
			b.at = now
		}
		l.heard[key] = b
	}
}

// isListening reports whether an attempt is listened for.
func (l *Liveness) isListening() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.heard) > 0
}

// Forget drops a call that is not running any more.
func (l *Liveness) Forget(key toolcall.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.heard, key)
}
