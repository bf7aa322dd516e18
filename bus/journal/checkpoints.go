package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go/jetstream"
)

// checkpoints reads the signed checkpoints of a journal.
type checkpoints struct {
	store    reader // of the ledger's stream
	space    toolcall.SpaceID
	signing  func() *keyfile.Keys
	optional bool // a missing stream counts as one without checkpoints
	anchor   *Anchor
	before   *atomic.Pointer[proof.Hash] // of the last checkpoint that readNewest found
	ends     *retirements
}

// retirements has the first checkpoint that shows that a key was retired by then. It stays the first
// one: the ledger only grows.
type retirements struct {
	mu    sync.Mutex // guards found
	found map[retirement]ending
}

type retirement struct {
	keyID string
	at    time.Time
}

// ending is where a checkpoint first shows a retirement, and up to where the ledger was searched.
type ending struct{ place, through uint64 }

// isLate reports whether a checkpoint came after its key was retired: by its own time, or by that of
// a checkpoint of another key at an earlier place. m is its message.
func (k checkpoints) isLate(ctx context.Context, c *proof.Checkpoint, m stored) (bool, error) {
	retired := k.signing().RetirementTimes()
	end, is := retired[c.KeyID]
	if !is || retired.Check(*c, nil) != nil {
		return is, nil
	}
	if m.time.Before(end.Add(-clockDifference)) {
		return false, nil
	}
	k.ends.mu.Lock()
	defer k.ends.mu.Unlock()
	key := retirement{c.KeyID, end}
	e := k.ends.found[key]
	if e.place == 0 && e.through < m.seq {
		var err error
		if e, err = k.findEnd(ctx, c, retired, e.through); err != nil {
			return false, err
		}
		k.ends.found[key] = e
	}
	return e.place > 0 && m.seq > e.place, nil
}

// clockDifference is how much the clock of the server may differ from those of engines.
const clockDifference = time.Hour

// findEnd finds the first checkpoint after a place that shows that the key of c was retired.
func (k checkpoints) findEnd(ctx context.Context, c *proof.Checkpoint, retired proof.Retired, after uint64) (found ending, err error) {
	if found.through, err = k.store.readEnd(ctx); err != nil {
		return found, err
	}
	for high := found.through; after < high; { // the server's times only grow
		middle := after + (high-after)/2
		m, err := k.store.next(ctx, checkpointSubject(k.space), middle)
		if err != nil {
			return found, err
		}
		if m.time.Before(retired[c.KeyID].Add(-clockDifference)) {
			after = m.seq
		} else {
			high = middle
		}
	}
	err = k.store.visitRecords(ctx, "read ledger", after, found.through, func(m stored) error {
		s, err := k.verify(m)
		if s != nil && s.Checkpoint.KeyID != c.KeyID && retired.Check(s.Checkpoint, nil) == nil && retired.Check(*c, &s.Checkpoint) != nil {
			found.place = m.seq
			return io.EOF
		}
		return err
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return found, err
}

// isKnown reports whether the checkpoint was the last one before.
func (k checkpoints) isKnown(c *proof.Checkpoint) bool {
	head, _ := k.anchor.currentMarks()
	before := cmp.Or(k.before.Load(), &head.Hash)
	hash, err := c.Hash()
	return err == nil && (hash == *before || hash == head.Hash)
}

// newest is the last checkpoint of the ledger.
type newest struct {
	checkpoint *proof.Checkpoint // nil: there is none
	sealed     *proof.Sealed     // the checkpoint with its entries
	place      uint64            // sequence of the checkpoint in the ledger's stream
	seq        uint64            // sequence of the last message in that stream
	rivals     []proof.Hash      // of checkpoints with its number; see message/proof
	read       time.Time         // when this engine first read the checkpoint
}

// lastArchive returns the place of the last announced archive in the ledger, or 0.
func (n newest) lastArchive() uint64 {
	return cmp.Or(n.checkpoint, &proof.Checkpoint{}).LastArchive(n.place)
}

// archiveCount returns how many archives were announced.
func (n newest) archiveCount() uint64 { return cmp.Or(n.checkpoint, &proof.Checkpoint{}).Archives }

func (n newest) lastSequence() uint64 { return cmp.Or(n.checkpoint, &proof.Checkpoint{}).To }

// lastEntry returns the entry of the last signed record, or one without a subject.
func (n newest) lastEntry() proof.Entry {
	if n.sealed == nil {
		return proof.Entry{}
	}
	entries, err := n.sealed.Entries()
	if err != nil || len(entries) == 0 {
		return proof.Entry{}
	}
	return entries[len(entries)-1]
}

// takeCheckpoint takes a checkpoint that is at an earlier place, if its number is larger.
func (n *newest) takeCheckpoint(from newest) {
	switch c, best := from.checkpoint, n.checkpoint; {
	case best == nil || c.Number > best.Number:
		n.checkpoint, n.sealed, n.place, n.rivals = c, from.sealed, from.place, from.rivals
	case c.Number == best.Number && c.Prev == best.Prev:
		hash, _ := c.Hash() // it was signed, so it has a form
		n.rivals = append(append(n.rivals, hash), from.rivals...)
	}
}

// newestSearch finds the last checkpoint, from the last message to earlier ones.
type newestSearch struct {
	newest
	retired proof.Retired
	isKnown func(*proof.Checkpoint) bool
	// doubted are the last checkpoints of retired keys, which can have false times. An earlier one
	// of another key can show that it was retired by then. One of the same key does not count for that.
	doubted map[doubt]*newest
}

// doubt is why a checkpoint is doubted.
type doubt struct {
	keyID string
	late  bool // stored after the key was retired: behind the known last one, it is forged or a copy
}

func (n *newestSearch) add(s *proof.Sealed, m stored) {
	c := &s.Checkpoint
	if n.retired.Check(*c, nil) != nil {
		return
	}
	_, retired := n.retired[c.KeyID]
	known := n.isKnown(c)
	maps.DeleteFunc(n.doubted, func(why doubt, d *newest) bool {
		return known && why.late || n.retired.Check(*d.checkpoint, c) != nil
	})
	found := newest{checkpoint: c, sealed: s, place: m.seq}
	if !retired || known {
		n.acceptDoubted()
		n.takeCheckpoint(found)
		return
	}
	why := doubt{c.KeyID, n.retired.Check(*c, &proof.Checkpoint{At: m.time}) != nil}
	if n.doubted[why] == nil {
		n.doubted[why] = &newest{}
	}
	n.doubted[why].takeCheckpoint(found)
}

// acceptDoubted takes the checkpoints of retired keys that no other one refutes.
func (n *newestSearch) acceptDoubted() {
	for _, why := range slices.SortedFunc(maps.Keys(n.doubted), func(a, b doubt) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		n.takeCheckpoint(*n.doubted[why])
	}
	clear(n.doubted)
}

// readNewest reads the last checkpoint from the leader and skips what no engine wrote.
// Only earlier messages whose sequence is at least the best number so far can have a newer
// checkpoint, or another one with that number.
func (k checkpoints) readNewest(ctx context.Context) (newest, error) {
	m, err := k.store.get(ctx, getRequest{LastFor: checkpointSubject(k.space)})
	if errors.Is(err, errNone) || k.optional && errors.Is(err, jetstream.ErrStreamNotFound) {
		return newest{}, nil
	}
	found := newestSearch{newest: newest{seq: m.seq}, retired: k.signing().RetirementTimes(), isKnown: k.isKnown, doubted: map[doubt]*newest{}}
	for ; err == nil; m, err = k.store.getSeq(ctx, m.seq-1) {
		s, err := k.verify(m)
		if err != nil {
			return newest{}, err
		}
		if s != nil {
			found.add(s, m)
		}
		if m.seq <= 1 || found.checkpoint != nil && m.seq <= found.checkpoint.Number && len(found.doubted) == 0 {
			found.acceptDoubted()
			if c := found.checkpoint; c != nil {
				hash, _ := c.Hash() // it was signed, so it has a form
				k.before.Store(&hash)
			}
			return found.newest, nil
		}
	}
	return newest{}, jsapi.Error("read ledger", "stream "+k.store.stream, err)
}

// verify returns the checkpoint in a message, or nil if there is none. An unknown key is
// an error: signing after its checkpoints would begin a second history.
func (k checkpoints) verify(m stored) (*proof.Sealed, error) {
	s, err := proof.DecodeSealed(m.data)
	if err != nil {
		return nil, nil //nolint:nilerr // verification reports it
	}
	c := s.Checkpoint
	keys := k.signing().VerificationKeys()
	if _, known := keys[c.KeyID]; !known {
		return nil, &message.Error{Code: message.CodeForeignStream, Op: "read ledger", What: fmt.Sprintf("the last checkpoints are signed by the engine key %s, which is unknown here", errtext.Quote(c.KeyID)), Hint: "all engines of a space need the same key file: copy the one that has this key, or name it with --keys"}
	}
	if c.Space == k.space && c.Verify(keys) == nil {
		return &s, nil
	}
	return nil, nil
}

func (k checkpoints) readLosses(ctx context.Context, through uint64) (out []proof.Loss, err error) {
	var last *proof.Checkpoint
	retired := k.signing().RetirementTimes()
	err = k.store.visitRecords(ctx, "read ledger", 0, through, func(m stored) error {
		s, err := k.verify(m)
		if s == nil || retired.Check(s.Checkpoint, last) != nil {
			return err
		}
		if last = &s.Checkpoint; last.Loss != nil {
			out = append(out, *last.Loss)
		}
		return err
	})
	return out, err
}

// readArchive reads the announcement of an archive at a place of the ledger.
func (k checkpoints) readArchive(ctx context.Context, place, number uint64) (*proof.Archive, error) {
	m, err := k.store.getSeq(ctx, place)
	if err != nil && !errors.Is(err, errNone) {
		return nil, jsapi.Error("read ledger", "stream "+k.store.stream, err)
	}
	if err == nil {
		s, err := k.verify(m)
		if err != nil {
			return nil, err
		}
		if s != nil && s.Checkpoint.Archive != nil && s.Checkpoint.Archive.Number == number {
			return s.Checkpoint.Archive, nil
		}
	}
	return nil, &message.Error{Code: message.CodeDamaged, Op: "read ledger", What: fmt.Sprintf("the checkpoint that announces archive %d is not readable", number), Hint: "restore a backup of the journal with its checkpoints"}
}
