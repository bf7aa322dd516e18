package journal

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strings"
	"sync"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// chainSize limits the leaves in memory to a few megabytes.
const chainSize = 1 << 16

// chain caches the leaves of event records, so that the next event record of a
// call can name its predecessor without reading it.
type chain struct {
	store  reader
	isVoid func(context.Context, stored) (bool, error)

	mu     sync.Mutex // guards all below
	leaves map[uint64]proof.Hash
}

// put adds the leaf of the event record at seq and drops that of its predecessor, which
// no other record can follow.
func (c *chain) put(seq uint64, leaf proof.Hash, before uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaves == nil {
		c.leaves = map[uint64]proof.Hash{}
	}
	delete(c.leaves, before)
	if len(c.leaves) >= chainSize {
		for old := range c.leaves {
			delete(c.leaves, old)
			break
		}
	}
	c.leaves[seq] = leaf
}

func (c *chain) get(seq uint64) (proof.Hash, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	leaf, ok := c.leaves[seq]
	return leaf, ok
}

// linkRecord sets the record's link to the one at prev. A missing predecessor is a
// conflict: the caller's view is wrong.
func (c *chain) linkRecord(ctx context.Context, rec *toolcall.EventRecord, prev uint64) error {
	if prev == 0 {
		rec.Prev = &toolcall.Link{}
		return nil
	}
	leaf, ok := c.get(prev)
	if !ok {
		var err error
		if leaf, err = c.leafAt(ctx, rec.Key(), prev); err != nil {
			return err
		}
	}
	rec.Prev = proof.LinkTo(prev, leaf)
	return nil
}

func (c *chain) leafAt(ctx context.Context, key toolcall.Key, seq uint64) (proof.Hash, error) {
	fail := func(code message.Code, what, hint string, err error) (proof.Hash, error) {
		return proof.Hash{}, &message.Error{Code: code, Op: "append to " + errtext.Quote(key.String()), What: what, Hint: hint, Err: err}
	}
	m, err := c.store.getSeq(ctx, seq)
	if err == nil {
		if entity, terr := bus.EntityOf(key); terr != nil || bus.EntityIn(m.subject) != string(entity) {
			err = errNone
		}
	}
	if err == nil {
		if void, verr := c.isVoid(ctx, m); void || verr != nil {
			err = cmp.Or(verr, errVoid)
		}
	}
	switch {
	case errors.Is(err, errNone), errors.Is(err, errVoid):
		return fail(message.CodeConflict, "the entity has no event record at the sequence that the new one should follow", "read the last event record and decide again", err)
	case err != nil:
		return fail(message.CodeUnavailable, "nothing was written: the previous event record could not be read", "check that NATS runs with JetStream", err)
	}
	return leafOf(m), nil
}

func leafOf(m stored) proof.Hash {
	return entryOf(m).Leaf()
}

// provedHeader returns the headers that a reader checks; it may return h. The server adds
// others, which depend on how the record is read.
func provedHeader(h nats.Header) map[string][]string {
	for name := range h {
		if !isProved(name) {
			out := maps.Clone(h)
			maps.DeleteFunc(out, func(name string, _ []string) bool { return !isProved(name) })
			return out
		}
	}
	return h
}

func isProved(name string) bool {
	return name == headerID || name == headerPrev || name == headerFilter || !strings.HasPrefix(name, "Nats-")
}

// unsealed has the records that this engine wrote recently, so that its ledger need not
// read them. Each acknowledged sequence has one entry, which never changes.
type unsealed struct {
	mu   sync.Mutex // guards ring
	ring []sealable // indexed by sequence modulo length; nil: there is no ledger
}

type sealable struct {
	seq   uint64
	entry proof.Entry
}

// unsealedSize is more than a busy engine writes before its ledger signs again.
const unsealedSize = 1 << 15

func (u *unsealed) startKeeping() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ring == nil {
		u.ring = make([]sealable, unsealedSize)
	}
}

func (u *unsealed) put(seq uint64, e proof.Entry) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ring != nil {
		u.ring[seq%unsealedSize] = sealable{seq, e}
	}
}

func (u *unsealed) dropAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.ring)
}

func (u *unsealed) get(seq uint64) (proof.Entry, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ring == nil || u.ring[seq%unsealedSize].seq != seq {
		return proof.Entry{}, false
	}
	return u.ring[seq%unsealedSize].entry, true
}
