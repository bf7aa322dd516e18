package proof

import (
	"fmt"
	"iter"
	"time"

	"github.com/askance-dev/askance/message"
)

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
func Losses(checkpoints iter.Seq2[[]byte, error], keys message.KeySet) ([]Loss, error) {
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
