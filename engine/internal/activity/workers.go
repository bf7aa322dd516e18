package activity

import (
	"sync"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

const (
	// MaxWorkers bounds how many pairs of a worker and a queue are remembered.
	MaxWorkers = 1024
	// recentWorkers is how long a silent worker stays listed.
	recentWorkers = time.Hour
)

// Workers remembers when workers were last heard of. The zero value is empty.
type Workers struct {
	mu    sync.Mutex // guards all below
	heard map[serves]time.Time
	asked map[serves]time.Time // the last request for tasks
}

type serves struct {
	worker string
	queue  toolcall.Queue
}

// Hear records a sign of life from a worker that serves a queue.
func (w *Workers) Hear(worker string, queue toolcall.Queue, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heard == nil {
		w.heard = map[serves]time.Time{}
	}
	k := serves{worker, queue}
	last, known := w.heard[k]
	if !known && len(w.heard) >= MaxWorkers {
		w.dropOldest()
	}
	if at.After(last) {
		w.heard[k] = at.UTC().Round(0)
	}
}

// Ask records a request for tasks, which is a sign of life. left forgets the worker, unless it has
// asked again.
func (w *Workers) Ask(worker string, queue toolcall.Queue, at time.Time) (left func()) {
	w.Hear(worker, queue, at)
	w.mu.Lock()
	defer w.mu.Unlock()
	k := serves{worker, queue}
	if w.asked == nil {
		w.asked = map[serves]time.Time{}
	}
	w.asked[k] = at
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.asked[k].Equal(at) {
			w.dropPair(k)
		}
	}
}

func (w *Workers) dropPair(k serves) {
	delete(w.heard, k)
	delete(w.asked, k)
}

func (w *Workers) dropOldest() {
	var oldest serves
	first := true
	for k, at := range w.heard {
		if first || at.Before(w.heard[oldest]) {
			oldest, first = k, false
		}
	}
	w.dropPair(oldest)
}

// Each calls fn for every worker heard of within the last hour, in no particular order.
func (w *Workers) Each(now time.Time, fn func(worker string, queue toolcall.Queue, last time.Time)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, at := range w.heard {
		if now.Sub(at) < recentWorkers {
			fn(k.worker, k.queue, at)
		}
	}
}

func (w *Workers) workerStates() []workerState {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []workerState
	for k, at := range w.heard {
		out = append(out, workerState{k.worker, k.queue.Tool, k.queue.Route, at})
	}
	return out
}
