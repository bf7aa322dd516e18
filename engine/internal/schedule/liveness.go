package schedule

import (
	"sync"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

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
