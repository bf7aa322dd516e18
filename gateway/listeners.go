package gateway

import (
	"sync"

	"github.com/askance-dev/askance/message"
)

// Listeners hear the progress of running calls: what Space.Progress takes, for
// whoever serves a space. The zero value is ready; its methods may be called from
// many goroutines.
type Listeners struct {
	mu   sync.Mutex // guards what follows
	next int
	all  map[int]func(message.ProgressRequest)
}

// Add lets f hear of progress until stop is called. f must not block, and must
// not call the Listeners.
func (l *Listeners) Add(f func(message.ProgressRequest)) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[int]func(message.ProgressRequest){}
	}
	id := l.next
	l.next++
	l.all[id] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.all, id)
	}
}

// Tell passes progress on.
func (l *Listeners) Tell(p message.ProgressRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.all {
		f(p)
	}
}
