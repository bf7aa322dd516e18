package proof

import (
	"fmt"
	"iter"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// Kind is what was done to a journal.
type Kind string

// The kinds of finding.
const (
	Changed        Kind = "changed"         // another record stands where the signed one stood
	Removed        Kind = "removed"         // a record is gone
	Inserted       Kind = "inserted"        // a record that no engine wrote there
	Reordered      Kind = "reordered"       // a genuine record in another place
	Truncated      Kind = "truncated"       // the last records are gone
	RolledBack     Kind = "rolled_back"     // the journal ends before what was signed
	Purged         Kind = "purged"          // the first records are gone, their proof is kept
	Unlinked       Kind = "unlinked"        // an event record without a link behind event records that have one
	Unreadable     Kind = "unreadable"      // an event record whose body is none
	Withheld       Kind = "withheld"        // a record that may be shown in part is not shown at all
	BadCheckpoint  Kind = "bad_checkpoint"  // not signed by an engine, or changed since
	LostCheckpoint Kind = "lost_checkpoint" // the checkpoints do not follow each other
	NoCheckpoint   Kind = "no_checkpoint"   // nothing of the journal was ever signed
)

// Finding is one thing that is not as it was.
type Finding struct {
	Kind Kind `json:"kind"`
	// Seq is where; Through the last sequence, if it is about several.
	Seq     uint64 `json:"seq,omitzero"`
	Through uint64 `json:"through_seq,omitzero"`
	// Call is the call (or reply, or session) that the record belongs to, as
	// session/reply/call; "" where only a range is known.
	Call    string `json:"call,omitzero"`
	Subject string `json:"subject,omitzero"`
	// Checkpoint is the one that says so; 0: the chain of the call does.
	Checkpoint uint64 `json:"checkpoint,omitzero"`
	What       string `json:"what"`
}

// String is the finding in one line.
func (f Finding) String() string {
	s := string(f.Kind)
	switch {
	case f.Through > f.Seq:
		s += fmt.Sprintf(" %d-%d", f.Seq, f.Through)
	case f.Seq > 0:
		s += fmt.Sprintf(" %d", f.Seq)
	}
	if f.Call != "" {
		s += " of " + f.Call
	}
	return s + ": " + f.What
}

// MaxFindings is how many findings a report lists; it counts all.
const MaxFindings = 1000

// Report is what an auditor found.
type Report struct {
	Space        toolcall.SpaceID `json:"space"`
	OK           bool             `json:"ok"`
	First        uint64           `json:"first_seq"` // the first sequence of the journal that was looked at
	Last         uint64           `json:"last_seq"`  // and the last
	Records      uint64           `json:"records"`
	EventRecords uint64           `json:"event_records"`
	Trees        uint64           `json:"entities"` // calls, and replies and sessions with event records of their own

	// Chained event records carry the hash of the event record before. Unchained ones were
	// written by a release that wrote none: they are held by checkpoints only.
	// ChainFrom is the first chained one.
	Chained   uint64 `json:"chained"`
	Unchained uint64 `json:"unchained"`
	ChainFrom uint64 `json:"chain_from_seq,omitzero"`

	// Checkpoints that were verified, what they cover, and how many records
	// stand after it, which nothing but the chains of their calls holds.
	Checkpoints uint64    `json:"checkpoints"`
	CoverFrom   uint64    `json:"covered_from_seq,omitzero"`
	CoverTo     uint64    `json:"covered_to_seq,omitzero"`
	Uncovered   uint64    `json:"uncovered"`
	LastAt      time.Time `json:"last_checkpoint_at,omitzero"`
	// Anchor names the last checkpoint. Keep it elsewhere and hand it to the next
	// verification: then not even the holder of the engine's key can go back
	// behind it unseen.
	Anchor Anchor `json:"anchor,omitzero"`
	// Partial: only a selection was there, so that nothing is said about what is
	// missing. Redacted records are proved by the hash of their true body.
	Partial  bool   `json:"partial,omitzero"`
	Redacted uint64 `json:"redacted,omitzero"`

	// Losses are those that operators accepted, by name and reason. What they
	// explain is no finding: Explained counts it.
	Losses    []Loss `json:"losses,omitzero"`
	Explained int    `json:"explained,omitzero"`

	Found    int       `json:"found"` // findings in all
	Findings []Finding `json:"findings"`
}

func (r *Report) add(f Finding) {
	r.Found++
	if len(r.Findings) < MaxFindings {
		r.Findings = append(r.Findings, f)
	}
}

// Anchor names a checkpoint that an auditor has seen.
type Anchor struct {
	Number uint64 `json:"number"`
	Hash   Hash   `json:"hash"`
}

// String is NUMBER:sha256:HEX.
func (a Anchor) String() string { return fmt.Sprintf("%d:%s", a.Number, a.Hash) }

// Range is a run of sequences, both ends included.
type Range struct {
	From    uint64 `json:"from_seq"`
	Through uint64 `json:"through_seq"`
}

// String is for people.
func (r Range) String() string {
	if r.From == r.Through {
		return fmt.Sprint(r.From)
	}
	return fmt.Sprintf("%d to %d", r.From, r.Through)
}

// Has reports whether a sequence is in the range.
func (r Range) Has(seq uint64) bool { return r.From <= seq && seq <= r.Through }

// Loss is what an operator accepted as lost. A signed checkpoint carries it.
type Loss struct {
	By     string    `json:"by"`     // the operator
	Reason string    `json:"reason"` // in the operator's words
	At     time.Time `json:"at"`     // the clock of the command, UTC
	// Missing are the sequences that have no record any more; there are none after
	// it but these and those of earlier losses.
	Missing []Range `json:"missing,omitzero"`
	// Changed are ranges with other records than those that were signed or known.
	Changed []Range `json:"changed,omitzero"`
	// Known is the highest sequence that was known before the loss.
	Known uint64 `json:"known_seq,omitzero"`
	// Checkpoints is how many checkpoints there were, if they were lost as well;
	// the one with this loss then begins a new chain.
	Checkpoints uint64 `json:"lost_checkpoints,omitzero"`
	// Closed is how many open calls were finished because of it, and how many lost
	// calls were closed for good.
	Closed uint64 `json:"closed_calls,omitzero"`
}

// Covers reports whether the loss is about a sequence.
func (l Loss) Covers(seq uint64) bool {
	for _, list := range [][]Range{l.Missing, l.Changed} {
		for _, r := range list {
			if r.Has(seq) {
				return true
			}
		}
	}
	return false
}

// Losses reads from stored checkpoints what operators accepted. One that no key
// signed is passed over: Verify reports it.
func Losses(checkpoints iter.Seq2[[]byte, error], keys toolcall.KeySet) ([]Loss, error) {
	var out []Loss
	for raw, err := range checkpoints {
		if err != nil {
			return nil, err
		}
		s, err := DecodeSealed(raw)
		if err == nil && s.Checkpoint.Loss != nil && s.Checkpoint.Verify(keys) == nil {
			out = append(out, *s.Checkpoint.Loss)
		}
	}
	return out, nil
}

// acceptedBy reports whether an operator accepted all that the finding is about.
func (f Finding) acceptedBy(losses []Loss) bool {
	if f.Seq == 0 || f.Kind == BadCheckpoint || f.Kind == LostCheckpoint {
		return false
	}
	for seq, end := f.Seq, max(f.Seq, f.Through); ; {
		next := seq
		for _, l := range losses {
			for _, list := range [][]Range{l.Missing, l.Changed} {
				for _, r := range list {
					if r.Has(next) {
						next = r.Through + 1
					}
				}
			}
		}
		switch {
		case next > end:
			return true
		case next == seq:
			return false
		}
		seq = next
	}
}
