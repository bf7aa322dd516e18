package bus

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/askance-dev/askance/bus/internal/errtext"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// chainSize is how many leaves of last event records a journal keeps at hand: some
// megabytes. What is not among them is read again.
const chainSize = 1 << 16

// chain keeps the leaves of event records that others may follow, so that the next event record
// of a call can name the one before without reading it again.
type chain struct {
	mu     sync.Mutex // guards all below
	leaves map[uint64]proof.Hash
	oldest []uint64 // ring of the sequences in leaves, some of which are dropped
	next   int
}

// put keeps the leaf of the event record at seq, and drops that of the event record before it:
// nothing follows that any more.
func (c *chain) put(seq uint64, leaf proof.Hash, before uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaves == nil {
		c.leaves = map[uint64]proof.Hash{}
	}
	delete(c.leaves, before)
	if len(c.oldest) < chainSize {
		c.oldest = append(c.oldest, seq)
	} else {
		delete(c.leaves, c.oldest[c.next])
		c.oldest[c.next] = seq
		c.next = (c.next + 1) % chainSize
	}
	c.leaves[seq] = leaf
}

func (c *chain) get(seq uint64) (proof.Hash, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	leaf, ok := c.leaves[seq]
	return leaf, ok
}

// link puts into the event record the leaf of the event record at prev, which it follows. If
// there is no such event record of its entity the caller's view is wrong: a conflict.
func (j *Journal) link(ctx context.Context, f *toolcall.EventRecord, prev uint64) error {
	if prev == 0 {
		f.Prev = &toolcall.Link{}
		return nil
	}
	leaf, ok := j.chain.get(prev)
	if !ok {
		var err error
		if leaf, err = j.leafAt(ctx, f.Key(), prev); err != nil {
			return err
		}
	}
	f.Prev = proof.LinkTo(prev, leaf)
	return nil
}

// leafAt reads the leaf of the event record at seq of an entity.
func (j *Journal) leafAt(ctx context.Context, key toolcall.Key, seq uint64) (proof.Hash, error) {
	fail := func(code message.Code, what, hint string, err error) (proof.Hash, error) {
		return proof.Hash{}, &message.Error{Code: code, Op: "append to " + errtext.Quote(key.String()), What: what, Hint: hint, Err: err}
	}
	m, err := j.getSeq(ctx, seq)
	if err == nil {
		if entity, terr := EntityOf(key); terr != nil || EntityIn(m.subject) != string(entity) {
			err = errNone
		}
	}
	switch {
	case errors.Is(err, errNone):
		return fail(message.CodeConflict, "the entity has no event record at the sequence that the new one should follow", "read the last event record and decide again", err)
	case err != nil:
		return fail(message.CodeUnavailable, "the event record before could not be read, nothing was written", "check that NATS runs with JetStream", err)
	}
	return leafOf(m), nil
}

// leafOf is the leaf of a stored message.
func leafOf(m stored) proof.Hash {
	return proof.Leaf(m.subject, proof.Content(provedHeader(m.header), m.data))
}

// provedHeader are the headers that mean something to a reader: ours, and those
// of NATS by which the server checked what the message follows. The others are
// the server's own and differ with the way in which a message is read.
func provedHeader(h nats.Header) map[string][]string {
	out := make(map[string][]string, len(h))
	for name, values := range h {
		switch {
		case name == headerID, name == headerPrev, name == headerFilter, !strings.HasPrefix(name, "Nats-"):
			out[name] = values
		}
	}
	return out
}

// EntityIn is the entity that the subject of an event record belongs to, or "" for another
// subject.
func EntityIn(subject string) string {
	s, err := ParseSubject(subject)
	if err != nil || !s.isRecord() {
		return ""
	}
	return string(s.entity())
}

// NameOf gives a subject of the journal as people read it: session, reply and
// call, as far as it has them. Over-long names stay hashes.
func NameOf(subject string) string {
	s, err := ParseSubject(subject)
	if err != nil {
		return ""
	}
	var parts []string
	for _, t := range []Token{s.Session, s.Reply, s.Call} {
		if t == "" {
			break
		}
		id, ok := t.ID()
		if !ok {
			id = string(t)
		}
		parts = append(parts, id)
	}
	return strings.Join(parts, "/")
}
