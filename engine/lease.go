package engine

import (
	"sync"
	"time"

	"github.com/askance-dev/askance/message"
)

// leases remembers when each running attempt was last heard of by this
// replica. A replica may call an owner dead only after it has itself listened
// for a whole lease, so what it has not heard of counts from when it began to
// listen.
type leases struct {
	mu    sync.Mutex
	heard map[message.Key]beat
}

type beat struct {
	attempt int
	at      time.Time
}

func newLeases() *leases { return &leases{heard: map[message.Key]beat{}} }

// hear notes a sign of life.
func (l *leases) hear(key message.Key, attempt int, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.heard[key]; attempt > b.attempt || attempt == b.attempt && at.After(b.at) {
		l.heard[key] = beat{attempt, at}
	}
}

// last is the latest sign of life of an attempt; if there is none, the
// listening begins now.
func (l *leases) last(key message.Key, attempt int, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.heard[key]
	if b.attempt != attempt {
		b = beat{attempt, now}
		l.heard[key] = b
	}
	return b.at
}

// excuse does not count a pause of this process as listening: whoever was heard
// of before it is taken to have been heard of that much later.
func (l *leases) excuse(pause time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, b := range l.heard {
		if b.at = b.at.Add(pause); b.at.After(now) {
			b.at = now
		}
		l.heard[key] = b
	}
}

// any reports whether an attempt is listened for.
func (l *leases) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.heard) > 0
}

// forget drops a call that is not running any more.
func (l *leases) forget(key message.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.heard, key)
}
