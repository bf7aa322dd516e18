package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	maxHeadRoom  = 64 << 20
	roomMaxAge   = 2 * time.Second // other engines also write
	roomFraction = 16              // 1/16 of the head-room may be written between two readings
)

var errHeadRoom = errors.New("the journal is nearly full, and the rest is reserved for open calls")

// Room is the free part of one limit of the store. If Bound is 0, there is no limit. Disk is
// the free space on the store's disk, 0 if unknown.
type Room struct{ Free, Bound, Disk int64 }

// HeadRoom returns how much of the limit is reserved for calls that have begun.
func (r Room) HeadRoom(want int64) int64 {
	if want > 0 {
		return min(want, r.Bound)
	}
	return min(maxHeadRoom, r.Bound/10)
}

// room reserves the last part of a bounded store for calls that have begun. Sizes
// are read every two seconds, so several engines together may exceed the limit by
// what they write in between.
type room struct {
	store   reader
	server  func() Room // of an embedded server; nil: unknown
	observe func(*jetstream.StreamInfo)

	mu    sync.Mutex   // guards all below
	want  int64        // as configured; 0: the default
	owed  func() int64 // bytes that the open calls still need; nil: unknown
	keep  int64        // bytes to keep free; 0: nothing is bounded
	slack int64        // bytes that new calls could use when it was read
	since int64        // bytes written by this engine since slack was read
	read  time.Time
}

func (r *room) set(want int64, limits []Room) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.want = want
	r.update(limits)
}

func (r *room) reserveOwed(owed func() int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owed, r.read = owed, time.Time{}
}

// update notes a fresh reading; the tightest limit counts. r.mu is held.
func (r *room) update(limits []Room) {
	r.keep, r.slack, r.since, r.read = 0, 0, 0, time.Now()
	owed := int64(0)
	if r.owed != nil {
		owed = r.owed()
	}
	for _, l := range limits {
		if l.Bound <= 0 {
			continue
		}
		keep := max(1, l.HeadRoom(r.want))
		if slack := l.Free - keep - owed; r.keep == 0 || slack < r.slack {
			r.keep, r.slack = keep, slack
		}
	}
}

func (r *room) isFull() bool { return r.keep > 0 && r.slack <= r.since }

func (r *room) noteWritten(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since += int64(n)
}

// check refuses new calls when only the reserved part is left.
func (r *room) check(ctx context.Context) error {
	r.mu.Lock()
	fresh := time.Since(r.read) < roomMaxAge && (r.keep == 0 || r.since <= r.keep/roomFraction)
	full := r.isFull()
	if !fresh {
		r.read = time.Now() // one caller reads; meanwhile the others use the last reading
	}
	r.mu.Unlock()
	if fresh && !full {
		return nil
	}
	ask, cancel := context.WithTimeout(ctx, jsapi.AttemptTimeout) // during an election no server answers
	defer cancel()
	st, err := r.store.js.Stream(ask, r.store.stream)
	if err != nil {
		return nil // unknown; the write decides
	}
	r.observe(st.CachedInfo())
	limits := r.readLimits(ctx, st.CachedInfo())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.update(limits)
	if r.isFull() {
		return errHeadRoom
	}
	return nil
}

// checkBeside refuses a file next to an embedded store that would use reserved space.
func (r *room) checkBeside(size int) error {
	if r.server == nil {
		return nil // the servers have other disks
	}
	now := r.server()
	r.mu.Lock()
	defer r.mu.Unlock()
	reserved := now.HeadRoom(r.want)
	if r.owed != nil {
		reserved += r.owed()
	}
	if now.Disk > 0 && now.Disk-int64(size) < min(reserved, now.Free) {
		return errHeadRoom
	}
	return nil
}

// readLimits returns the limits of the stream, and of the embedded server or the account.
func (r *room) readLimits(ctx context.Context, info *jetstream.StreamInfo) []Room {
	out := []Room{{Free: info.Config.MaxBytes - int64(info.State.Bytes), Bound: info.Config.MaxBytes}}
	if r.server != nil {
		return append(out, r.server())
	}
	ask, cancel := context.WithTimeout(ctx, jsapi.AttemptTimeout) // the answer can be lost with a connection
	defer cancel()
	a, err := r.store.js.AccountInfo(ask)
	if err != nil {
		return out // unknown; the write decides
	}
	tier := a.Tier
	if t, ok := a.Tiers[fmt.Sprintf("R%d", max(1, info.Config.Replicas))]; ok {
		tier = t
	}
	return append(out, Room{Free: tier.Limits.MaxStore - int64(tier.Store), Bound: tier.Limits.MaxStore})
}
