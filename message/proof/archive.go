package proof

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Archive is a part of the journal that was moved into files. A signed checkpoint
// announces it before the first of its records is deleted.
type Archive struct {
	Number uint64 `json:"number"` // 1, 2, … without a gap
	// Before is the place in the ledger of the checkpoint with the archive before, or 0.
	Before uint64    `json:"before_seq,omitzero"`
	By     string    `json:"by"`     // the operator
	Reason string    `json:"reason"` // the setting that chose the records
	At     time.Time `json:"at"`
	// Gone lists exactly the sequences of the archive, in order.
	Gone    []Range `json:"gone"`
	Records uint64  `json:"records"`
	// Name is the name of the files, without their extensions.
	Name  string `json:"name"`
	File  Sum    `json:"file"`  // the records
	Index Sum    `json:"index"` // the calls and replies of the records
}

// Sum is the size and the hash of a file.
type Sum struct {
	Bytes int64 `json:"bytes"`
	Hash  Hash  `json:"hash"`
}

// check returns what is wrong with an archive announced by a checkpoint that begins at from,
// or "".
func (a *Archive) check(from uint64) string {
	n, last := uint64(0), uint64(0)
	for _, r := range a.Gone {
		if r.From <= last || r.Through < r.From {
			return "the sequences of its archive are not in order"
		}
		n, last = n+r.Through-r.From+1, r.Through
	}
	switch {
	case n == 0 || n != a.Records:
		return "its count of archived records is wrong"
	case last >= from:
		return "its archive has records that no earlier checkpoint covers"
	}
	return ""
}

// LastArchive returns the place in the ledger of the last announced archive, if c is at place.
func (c Checkpoint) LastArchive(place uint64) uint64 {
	if c.Archive != nil {
		return place
	}
	return c.ArchiveAt
}

// followsArchive checks what c says about archives against the checkpoint before, whose
// place it need not know.
func (c Checkpoint) followsArchive(prev *Checkpoint) error {
	want, before := prev.Archives, c.ArchiveAt
	if c.Archive != nil {
		want, before = want+1, c.Archive.Before
	}
	isKnown := prev.Archive == nil && before == prev.ArchiveAt || prev.Archive != nil && before > 0
	if c.Archives == want && isKnown && (c.Archive == nil || c.Archive.Number == want) {
		return nil
	}
	return &message.Error{Code: message.CodeConflict, Op: "follow checkpoints", What: fmt.Sprintf("the archives of checkpoint %d do not follow from the one before", c.Number)}
}

// Archives reads the announced archives from stored checkpoints. It skips unverified
// checkpoints, which Verify reports.
func Archives(checkpoints iter.Seq2[[]byte, error], keys toolcall.KeySet, retired Retired) ([]Archive, error) {
	return readAnnounced(checkpoints, keys, retired, `"archive"`, func(c Checkpoint) *Archive { return c.Archive })
}

// archived are the sequences of archives, in order, with the archive's name.
type archived []archivedRange

type archivedRange struct {
	Range
	name string
}

func archivedBy(list []Archive) archived {
	var out archived
	for _, a := range list {
		for _, r := range a.Gone {
			out = append(out, archivedRange{r, a.Name})
		}
	}
	slices.SortFunc(out, func(a, b archivedRange) int { return cmp.Compare(a.From, b.From) })
	return out
}

// explain returns the archives without which a finding is only that their records are not
// shown, or nil if it is more.
func (a archived) explain(f Finding) []string {
	if len(a) == 0 || f.Kind != Removed && f.Kind != Purged && f.Kind != RolledBack {
		return nil
	}
	var names []string
	for seq, end := f.Seq, max(f.Seq, f.Through); seq <= end; {
		i, found := slices.BinarySearchFunc(a, seq, func(r archivedRange, seq uint64) int {
			switch {
			case r.Has(seq):
				return 0
			case r.Through < seq:
				return -1
			}
			return 1
		})
		if !found {
			return nil
		}
		seq = a[i].Through + 1
		names = append(names, a[i].name)
	}
	return names
}
