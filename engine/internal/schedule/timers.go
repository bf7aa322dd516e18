// Package schedule holds what the engine knows about time: when it has to look at an
// entity again ([Timers]), when it last heard of the owners of running attempts
// ([Liveness]), how long it pauses between attempts ([Pauses], [Double]), and
// which clocks differ from its own ([Clocks]).
//
// A timer only causes a look: what is due is decided from the journal and written by
// compare-and-swap, so a duplicate or stale timer is harmless. All methods may be
// called from many goroutines.
package schedule

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// Timers holds when the engine has to look at which entity again. One goroutine
// waits for all of them; an open approval request costs one heap entry and no goroutine.
//
// A time that a record names follows the machine's clock when that is set, and a wait does
// not. Each kind has its own heap, because a set clock changes the order between them.
type Timers struct {
	mu    sync.Mutex // guards times, waits and slow
	times dueHeap
	waits dueHeap
	slow  bool             // Run waits for longer than a pulse
	woken chan struct{}    // room for one token: the earliest entry changed
	clock func() time.Time // the machine's clock
}

// Due is a look whose time has come.
type Due struct {
	At  time.Time
	Key toolcall.Key
	Seq uint64 // the event record that set it; a later one sets its own
}

// NewTimers returns timers without entries.
func NewTimers() *Timers { return &Timers{woken: make(chan struct{}, 1), clock: time.Now} }

// Set asks for a look at key when the machine's clock shows the given time.
func (t *Timers) Set(at time.Time, key toolcall.Key, seq uint64) {
	t.add(&t.times, Due{at.Round(0), key, seq})
}

// SetAfter asks for a look at key after a wait.
func (t *Timers) SetAfter(wait time.Duration, key toolcall.Key, seq uint64) {
	t.add(&t.waits, Due{time.Now().Add(wait), key, seq})
}

func (t *Timers) add(h *dueHeap, d Due) {
	t.mu.Lock()
	*h = append(*h, d) // without a box, as heap.Push needs
	heap.Fix(h, len(*h)-1)
	news := t.slow || (*h)[0] == d
	t.mu.Unlock()
	if news {
		select {
		case t.woken <- struct{}{}:
		default: // there is already a token
		}
	}
}

// pulse is the longest wait of the timers while they listen for heartbeats. A process that
// is stopped (by a signal, or with its machine) hears none; waking up more than a pulse
// late shows such a pause.
const pulse = 200 * time.Millisecond

// idle is the longest wait of the timers otherwise. A changed clock is noticed by then.
const idle = time.Minute

// Run calls fire for each entry at its time, until ctx ends. fire must not block.
// Pauses of the process are reported to l before anything fires.
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
		ready, next := t.waits.takeDue(now, nil)
		ready, nextTime := t.times.takeDue(t.clock().Round(0), ready)
		wait = min(wait, next, nextTime)
		t.slow = wait > pulse
		t.mu.Unlock()
		type look struct {
			key toolcall.Key
			seq uint64
		}
		fired := map[look]bool{} // one look serves all due timers of a record
		for _, d := range ready {
			if l := (look{d.Key, d.Seq}); !fired[l] {
				fired[l] = true
				fire(d)
			}
		}
		if len(ready) > 0 {
			expected = now.Add(idle)
			continue // fire may have set earlier timers
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

// takeDue moves the entries that are due to ready, and returns how far away the next is.
func (h *dueHeap) takeDue(now time.Time, ready []Due) ([]Due, time.Duration) {
	for len(*h) > 0 {
		if d := (*h)[0].At.Sub(now); d > 0 {
			return ready, d
		}
		ready = append(ready, heap.Pop(h).(Due))
	}
	return ready, idle
}

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

// Double returns d doubled the given number of times, at most limit.
func Double(d time.Duration, times int, limit time.Duration) time.Duration {
	for ; times > 0 && d < limit; times-- {
		d *= 2
	}
	return min(d, limit)
}

// Pauses are the pauses between attempts at something that has to succeed: each
// is twice as long as the one before.
type Pauses struct {
	Next time.Duration // the next pause
	Most time.Duration // the longest pause
}

// Wait pauses and reports whether to try again. It returns false if ctx ended first.
func (p *Pauses) Wait(ctx context.Context) bool {
	next := time.After(p.Next)
	p.Next = Double(p.Next, 1, p.Most)
	select {
	case <-next:
		return true
	case <-ctx.Done():
		return false
	}
}

// Liveness remembers when this replica last heard of each attempt that runs, or may still run. A replica may
// declare an owner dead only after it has itself listened for a whole lease, so an
// owner that it has not heard of counts from when it began to listen.
type Liveness struct {
	mu    sync.Mutex // guards heard
	heard map[toolcall.Key]beat
}

type beat struct {
	attempt int
	at      time.Time
	told    time.Time // when its owner was first asked to stop; zero: never
}

// NewLiveness returns a Liveness that has heard of no owner.
func NewLiveness() *Liveness { return &Liveness{heard: map[toolcall.Key]beat{}} }

// Hear records a sign of life.
func (l *Liveness) Hear(key toolcall.Key, attempt int, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.heard[key]
	switch {
	case attempt > b.attempt:
		l.heard[key] = beat{attempt: attempt, at: at}
	case attempt == b.attempt && at.After(b.at):
		b.at = at
		l.heard[key] = b
	}
}

// AskedToStop returns when the owner that LastHeard is about was first asked to stop: now, unless
// it was before.
func (l *Liveness) AskedToStop(key toolcall.Key, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.heard[key]
	if b.told.IsZero() {
		b.told = now
		l.heard[key] = b
	}
	return b.told
}

// LastHeard is the latest sign of life of an attempt. If there is none, listening
// begins now.
func (l *Liveness) LastHeard(key toolcall.Key, attempt int, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.heard[key]
	if b.attempt != attempt {
		b = beat{attempt: attempt, at: now}
		l.heard[key] = b
	}
	return b.at
}

// Excuse does not count a pause of this process as listening: it moves the last sign of
// life of every owner, and when it was asked to stop, forward by the pause.
func (l *Liveness) Excuse(pause time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, b := range l.heard {
		for _, at := range []*time.Time{&b.at, &b.told} {
			if at.IsZero() {
				continue
			}
			if *at = at.Add(pause); at.After(now) {
				*at = now
			}
		}
		l.heard[key] = b
	}
}

// isListening reports whether the engine listens for the owner of any attempt.
func (l *Liveness) isListening() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.heard) > 0
}

// Forget drops a call that is no longer running.
func (l *Liveness) Forget(key toolcall.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.heard, key)
}
