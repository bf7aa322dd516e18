package journal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go/jetstream"
)

// FlawKind names a way in which a journal differs from its checkpoints and its
// anchor.
type FlawKind string

// The kinds of flaw.
const (
	FlawJournalGone FlawKind = "journal_gone" // the stream is missing, or was created again
	FlawTail        FlawKind = "tail_missing" // the journal ends before what is known
	FlawHole        FlawKind = "hole"         // records inside the journal are gone
	FlawChanged     FlawKind = "changed"      // another record is where a known one was
	FlawUnreadable  FlawKind = "unreadable"   // the server counts a record but cannot read it
	FlawProof       FlawKind = "proof_damaged"
	FlawAnchor      FlawKind = "anchor_missing" // keys that were used, but neither anchor nor journal
	FlawBadAnchor   FlawKind = "anchor_damaged" // the anchor file cannot be trusted
)

// Flaw is one difference between a journal and what is known of it.
type Flaw struct {
	Kind    FlawKind `json:"kind"`
	From    uint64   `json:"from_seq,omitzero"`
	Through uint64   `json:"through_seq,omitzero"`
	What    string   `json:"what"`
}

func (f Flaw) rangeOf() proof.Range { return proof.Range{From: f.From, Through: f.Through} }

// String describes the flaw in one line.
func (f Flaw) String() string { return f.What }

// Exam is the result of an examination of a journal.
type Exam struct {
	Space   toolcall.SpaceID `json:"space"`
	OK      bool             `json:"ok"`
	First   uint64           `json:"first_seq"` // of the journal as it is
	Last    uint64           `json:"last_seq"`
	Records uint64           `json:"records"`
	// Anchor is the path of the anchor, Known the highest record that it knows.
	Anchor  string    `json:"anchor,omitzero"`
	Known   uint64    `json:"known_seq,omitzero"`
	KnownAt time.Time `json:"known_at,omitzero"`
	// Checkpoint is the number of the last checkpoint. Signed is the last sequence
	// that it, or the anchor's checkpoint, covers.
	Checkpoint uint64 `json:"checkpoint,omitzero"`
	Signed     uint64 `json:"signed_seq,omitzero"`
	// LastAt is when the last remaining record was stored.
	LastAt time.Time `json:"last_at,omitzero"`
	// Losses are the losses that operators accepted.
	Losses []proof.Loss `json:"losses,omitzero"`
	Flaws  []Flaw       `json:"flaws"`
	// Lost has the subjects of missing signed records.
	Lost []string `json:"lost_subjects,omitzero"`

	// Archived is how many records were moved into archives.
	Archived uint64 `json:"archived,omitzero"`

	stream, proofs *jetstream.StreamInfo // nil: not there
	last           newest
	missing        ranges // accepted before, or archived
	archives       int    // how many are known
	moved          bool   // since the anchor was written, an operator accepted a loss that explains it
	restored       bool   // from a backup, and no operator has accepted the loss of what came after it
}

// Error returns why the journal must not be continued, or nil if it has no flaw.
func (x *Exam) Error() error {
	if len(x.Flaws) == 0 {
		return nil
	}
	const most = 3
	var parts []string
	for _, f := range x.Flaws[:min(most, len(x.Flaws))] {
		parts = append(parts, f.What)
	}
	if more := len(x.Flaws) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more faults", more))
	}
	if names := x.LostNames(); len(names) > 0 {
		const most = 5
		text := "signed records are missing for " + strings.Join(names[:min(most, len(names))], ", ")
		if more := len(names) - most; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, text)
	}
	e := &message.Error{Code: message.CodeDamaged, Op: "check journal", What: "the journal of the space " + string(x.Space) + " is damaged: " + strings.Join(parts, "; "),
		Hint: "nothing runs on it: restore a backup of the journal, or inspect it with askance journal check and then use askance journal accept-loss"}
	if x.restored {
		e.Hint = "accept the loss: askance journal accept-loss --by NAME --reason TEXT"
		if x.last.lastSequence() > x.Last || x.hasHoles() { // a backup has every record that its checkpoints sign
			e.Hint = "the restore was interrupted, or files were damaged after it: restore the backup again, into a new data folder or onto servers without streams of the space"
		}
		if len(parts) == 1 {
			e.What = "the journal of the space " + string(x.Space) + strings.TrimPrefix(parts[0], "it")
		}
	}
	return e
}

// LostNames returns the calls, replies and sessions of the lost subjects.
func (x *Exam) LostNames() []string {
	var names []string
	for _, s := range x.Lost {
		names = append(names, bus.NameOf(s))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (x *Exam) addFlaw(kind FlawKind, from, through uint64, format string, args ...any) {
	x.Flaws = append(x.Flaws, Flaw{Kind: kind, From: from, Through: through, What: fmt.Sprintf(format, args...)})
}

// isExplained reports whether a later accepted loss covers the anchor's mark.
func (x *Exam) isExplained(high highMark) bool {
	return high.at != 0 && slices.ContainsFunc(x.Losses, func(l proof.Loss) bool {
		return l.At.After(high.storedAt()) && (l.Covers(high.seq) || l.Known >= high.seq)
	})
}

// findRestored adds the flaw of a journal that was restored from a backup: calls that began
// after the backup would begin again.
func (x *Exam) findRestored() {
	text := x.stream.Config.Metadata[metaRestored]
	if text == "" {
		return
	}
	at, _ := time.Parse(time.RFC3339Nano, text) // for people: the clocks of a restore and of an earlier loss can differ
	x.restored = true
	x.addFlaw(FlawTail, 0, 0, "it was restored from a backup on %s, so later records may be missing", at.UTC().Format("2006-01-02 15:04 MST"))
}

// addMissingStream adds the flaw of a journal without a stream.
func (x *Exam) addMissingStream(found anchorState, anchored bool) {
	known := max(x.Known, x.Signed)
	switch {
	case x.proofs != nil:
		x.addFlaw(FlawJournalGone, min(1, known), known, "its stream is gone, the checkpoints are still there (records 1 to %d were signed)", x.Signed)
	case found == anchorAbsent && anchored:
		x.addFlaw(FlawAnchor, 0, 0, "these engine keys were used before, but there is neither a journal nor an anchor at %s; for a new space with old keys, askance journal accept-loss starts the journal", x.Anchor)
	case found == anchorMade:
		x.addFlaw(FlawJournalGone, min(1, known), known, "its stream and its checkpoints are gone, but the anchor knows of records up to %d", known)
	}
}

// compareCounts compares the stream's own count with the known records.
func (x *Exam) compareCounts(known uint64) {
	if x.Last < known {
		signed := ""
		if x.Signed > x.Last {
			signed = fmt.Sprintf(", %d of them signed", x.Signed-x.Last)
		}
		when := ""
		if !x.KnownAt.IsZero() {
			when = ", the last one from " + x.KnownAt.Format(time.RFC3339)
		}
		x.addFlaw(FlawTail, x.Last+1, known, "%s at the end (%d in all%s%s)", missingText(proof.Range{From: x.Last + 1, Through: known}), known-x.Last, signed, when)
	}
	switch explained := x.Records + x.missing.count(); {
	case explained < x.Last:
		x.addFlaw(FlawHole, 0, 0, "%s missing inside the journal, which has %d of %d", recordsAre(x.Last-explained), x.Records, x.Last)
	case explained > x.Last && x.archives == 0:
		x.addFlaw(FlawHole, 0, 0, "%s in the journal whose loss was accepted", recordsAre(explained-x.Last))
	}
}

func recordsAre(n uint64) string {
	if n == 1 {
		return "1 record is"
	}
	return fmt.Sprintf("%d records are", n)
}

func missingText(r proof.Range) string {
	if r.From == r.Through {
		return "record " + r.String() + " is missing"
	}
	return "records " + r.String() + " are missing"
}

// hasHoles reports whether sequences are missing whose loss no operator accepted, or
// archived records are still there.
func (x *Exam) hasHoles() bool { return x.Records+x.missing.count() != x.Last }

// isInHole reports whether a flaw covers seq.
func (x *Exam) isInHole(seq uint64) bool {
	return slices.ContainsFunc(x.Flaws, func(f Flaw) bool { return f.From <= seq && seq <= f.Through })
}

// electionPatience is how long a journal may seem damaged while its servers elect a
// leader.
func (x *Exam) electionPatience() time.Duration {
	if x.restored {
		return 0
	}
	for _, info := range []*jetstream.StreamInfo{x.stream, x.proofs} {
		if info != nil && info.Config.Replicas > 1 {
			return goneAfter
		}
	}
	return 0
}

// AddFlaw adds a flaw that was found elsewhere, such as an unreadable anchor.
func (x *Exam) AddFlaw(kind FlawKind, what string) {
	x.OK = false
	x.addFlaw(kind, 0, 0, "%s", what)
}
