package proof

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// Kind is the kind of a finding.
type Kind string

// The kinds of finding.
const (
	Changed        Kind = "changed"         // another record is in the place of the signed one
	Removed        Kind = "removed"         // a record is missing
	Inserted       Kind = "inserted"        // a record is in a place where no engine wrote it
	Reordered      Kind = "reordered"       // a genuine record is in another place
	Truncated      Kind = "truncated"       // the last records are missing, or an export is incomplete
	RolledBack     Kind = "rolled_back"     // the journal ends before the last signed record
	Purged         Kind = "purged"          // the first records are missing; pass --purged-through if that was intended
	Unlinked       Kind = "unlinked"        // an event record has no link
	Unreadable     Kind = "unreadable"      // an event record has a malformed body
	Void           Kind = "void"            // not a finding: the record has no effect, because an earlier one follows the same record, or it follows a void one; or a checkpoint is stored twice
	Withheld       Kind = "withheld"        // a record that may be shown in part is not shown at all
	BadCheckpoint  Kind = "bad_checkpoint"  // no engine signed it, it was changed, or its key was retired before
	LostCheckpoint Kind = "lost_checkpoint" // the checkpoints do not follow each other
	NoCheckpoint   Kind = "no_checkpoint"   // nothing was signed yet
)

// Finding is one deviation of a journal from what was signed.
type Finding struct {
	Kind Kind `json:"kind"`
	// Seq is the place; Through the last one of several.
	Seq     uint64 `json:"seq,omitzero"`
	Through uint64 `json:"through_seq,omitzero"`
	// Call is the record's call (or reply, or session), as session/reply/call; "" if only
	// a range is known.
	Call    string `json:"call,omitzero"`
	Subject string `json:"subject,omitzero"`
	// Checkpoint is the one that shows it, or 0 if the chain of the call does.
	Checkpoint uint64 `json:"checkpoint,omitzero"`
	What       string `json:"what"`
}

// String returns the finding in one line.
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

// Report is the result of Verify.
type Report struct {
	Space        toolcall.SpaceID `json:"space"`
	OK           bool             `json:"ok"`
	First        uint64           `json:"first_seq"` // the first verified sequence
	Last         uint64           `json:"last_seq"`  // the last one
	Records      uint64           `json:"records"`
	EventRecords uint64           `json:"event_records"`
	Trees        uint64           `json:"entities"` // calls, and replies and sessions with event records of their own

	Chained uint64 `json:"chained"` // event records that link to the one before

	// Checkpoints counts the verified ones. Only the chains of their calls protect the
	// Uncovered records after the last one.
	Checkpoints uint64    `json:"checkpoints"`
	CoverFrom   uint64    `json:"covered_from_seq,omitzero"`
	CoverTo     uint64    `json:"covered_to_seq,omitzero"`
	Uncovered   uint64    `json:"uncovered"`
	LastAt      time.Time `json:"last_checkpoint_at,omitzero"`
	// Anchor names the last checkpoint. Keep it elsewhere and pass it to the next
	// verification: then not even the holder of the engine's key can change earlier
	// records undetected.
	Anchor Anchor `json:"anchor,omitzero"`
	// Earlier is the verification of the records before First, which were not read now.
	Earlier *Earlier `json:"earlier,omitzero"`
	// Partial is set if the records were a selection, so missing ones are not reported.
	// Redacted records are proved by the hash of their original body.
	Partial  bool   `json:"partial,omitzero"`
	Redacted uint64 `json:"redacted,omitzero"`

	// Losses are the accepted losses. Explained counts what they explain, which is not
	// a finding.
	Losses    []Loss `json:"losses,omitzero"`
	Explained int    `json:"explained,omitzero"`

	// Archives counts the announced archives, and Archived their records. NotShown are signed
	// records that could not be read, because files of the archives in Missing are missing.
	Archives uint64   `json:"archives,omitzero"`
	Archived uint64   `json:"archived,omitzero"`
	NotShown uint64   `json:"archived_not_shown,omitzero"`
	Missing  []string `json:"missing_archives,omitzero"`

	// Void counts the records without effect, which are not findings: a server stored each after
	// the same record as an earlier one of its call. Voids lists them, and checkpoints like that.
	Void  uint64    `json:"void,omitzero"`
	Voids []Finding `json:"void_records,omitzero"`

	Found    int       `json:"found"` // total, including those beyond MaxFindings
	Findings []Finding `json:"findings"`
}

// Earlier is a verification without findings that another one continues.
type Earlier struct {
	At         time.Time  `json:"at"`
	ReadAt     time.Time  `json:"read_at"`    // when a verification last read everything
	First      uint64     `json:"first_seq"`  // the first verified sequence
	Checkpoint Checkpoint `json:"checkpoint"` // the last verified one; all before it were verified too
	Place      uint64     `json:"-"`          // of that checkpoint in the ledger
}

func (r *Report) add(f Finding) {
	r.Found++
	if len(r.Findings) < MaxFindings {
		r.Findings = append(r.Findings, f)
	}
}

// addCheckpoint adds a finding about a checkpoint.
func (r *Report) addCheckpoint(kind Kind, c Checkpoint, what string) {
	r.add(Finding{Kind: kind, Checkpoint: c.Number, Seq: c.From, Through: c.To, What: what})
}

// Anchor names a checkpoint that an auditor saw.
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

// Loss is a loss that an operator accepted. A signed checkpoint contains it.
type Loss struct {
	By     string    `json:"by"`     // the operator
	Reason string    `json:"reason"` // in the operator's words
	At     time.Time `json:"at"`     // the clock of the command, UTC
	// Missing are the sequences without a record, except those in earlier losses.
	Missing []Range `json:"missing,omitzero"`
	// Changed are ranges with other records than the signed or known ones.
	Changed []Range `json:"changed,omitzero"`
	// Known is the highest sequence that was known before the loss.
	Known uint64 `json:"known_seq,omitzero"`
	// Checkpoints is how many checkpoints were lost. If any, the one with this loss begins
	// a new chain.
	Checkpoints uint64 `json:"lost_checkpoints,omitzero"`
	// Closed counts the open and the lost calls that were finished because of it.
	Closed uint64 `json:"closed_calls,omitzero"`
}

// Covers reports whether the loss contains a sequence.
func (l Loss) Covers(seq uint64) bool {
	has := func(r Range) bool { return r.Has(seq) }
	return slices.ContainsFunc(l.Missing, has) || slices.ContainsFunc(l.Changed, has)
}

// Losses reads the accepted losses from stored checkpoints. It skips unverified
// checkpoints, which Verify reports.
func Losses(checkpoints iter.Seq2[[]byte, error], keys toolcall.KeySet, retired Retired) ([]Loss, error) {
	return readAnnounced(checkpoints, keys, retired, `"loss"`, func(c Checkpoint) *Loss { return c.Loss })
}

// readAnnounced reads what verified checkpoints announce in a member.
func readAnnounced[T any](checkpoints iter.Seq2[[]byte, error], keys toolcall.KeySet, retired Retired, member string, of func(Checkpoint) *T) ([]T, error) {
	var out []T
	var last *Checkpoint
	for raw, err := range checkpoints {
		if err != nil {
			return nil, err
		}
		if len(retired) == 0 && !bytes.Contains(raw, []byte(member)) {
			continue
		}
		s, err := DecodeSealed(raw)
		c := s.Checkpoint
		if err != nil || c.Verify(keys) != nil || retired.Check(c, last) != nil {
			continue
		}
		if last = &c; of(c) != nil {
			out = append(out, *of(c))
		}
	}
	return out, nil
}

// isAccepted reports whether operators accepted all sequences of the finding.
func (f Finding) isAccepted(losses []Loss) bool {
	if f.Seq == 0 || f.Kind == BadCheckpoint || f.Kind == LostCheckpoint {
		return false
	}
	for seq, end := f.Seq, max(f.Seq, f.Through); ; {
		next := seq
		for _, l := range losses {
			for _, r := range slices.Concat(l.Missing, l.Changed) {
				if r.Has(next) {
					next = r.Through + 1
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
