package bus

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	maxHeadRoom  = 64 << 20
	roomMaxAge   = 2 * time.Second // other engines write, too
	roomFraction = 16              // of the head-room may be written between two looks
)

// errHeadRoom: what is left is kept for finishing what has begun.
var errHeadRoom = errors.New("the journal is nearly full; what is left is kept for finishing open calls")

// room keeps the last part of a bounded stream free for facts of calls that
// have begun. It works on a recent reading of the stream's size, so several
// engines together may overshoot by what they write within two seconds.
type room struct {
	mu    sync.Mutex // guards all below
	want  int64      // as configured; 0: the default
	keep  int64      // bytes to keep free; 0: the stream is not bounded
	bound int64
	used  int64
	since int64 // written by us since used was read
	read  time.Time
}

func (r *room) set(info *jetstream.StreamInfo, want int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.want = want
	r.update(info)
}

// update takes over a fresh reading. r.mu is held.
func (r *room) update(info *jetstream.StreamInfo) {
	r.bound, r.used, r.since, r.read = info.Config.MaxBytes, int64(info.State.Bytes), 0, time.Now()
	switch {
	case r.bound <= 0:
		r.keep = 0
	case r.want > 0:
		r.keep = min(r.want, r.bound)
	default:
		r.keep = min(maxHeadRoom, r.bound/10)
	}
}

func (r *room) wrote(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since += int64(n)
}

// check refuses to begin something new when only the head-room is left.
func (r *room) check(ctx context.Context, j *Journal) error {
	r.mu.Lock()
	fresh := time.Since(r.read) < roomMaxAge && (r.keep == 0 || r.since <= r.keep/roomFraction)
	full := r.keep > 0 && r.bound-r.used-r.since <= r.keep
	if !fresh {
		r.read = time.Now() // one caller looks; the others go by the last reading meanwhile
	}
	r.mu.Unlock()
	if fresh && !full {
		return nil
	}
	st, err := j.js.Stream(ctx, j.stream)
	if err != nil {
		return nil // not known; the write itself will tell
	}
	j.observe(st.CachedInfo())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.update(st.CachedInfo())
	if r.keep > 0 && r.bound-r.used <= r.keep {
		return errHeadRoom
	}
	return nil
}
