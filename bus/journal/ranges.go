package journal

import (
	"cmp"
	"iter"
	"slices"

	"github.com/askance-dev/askance/message/proof"
)

// ranges are sorted, separate runs of sequences without records: of accepted losses or of
// archives.
type ranges []proof.Range

func (r ranges) count() uint64 {
	n := uint64(0)
	for _, x := range r {
		n += x.Through - x.From + 1
	}
	return n
}

// has reports whether r covers every sequence from … through.
func (r ranges) has(from, through uint64) bool {
	i, found := slices.BinarySearchFunc(r, from, func(x proof.Range, seq uint64) int {
		switch {
		case x.Has(seq):
			return 0
		case x.Through < seq:
			return -1
		}
		return 1
	})
	return found && through <= r[i].Through // runs never touch each other
}

// endOfRun returns the last sequence of the run that begins right after seq, or seq.
func (r ranges) endOfRun(seq uint64) uint64 {
	i, _ := slices.BinarySearchFunc(r, seq+1, func(x proof.Range, seq uint64) int { return cmp.Compare(x.Through, seq) })
	if i < len(r) && r[i].Has(seq+1) {
		return r[i].Through
	}
	return seq
}

// eachSequence yields every sequence of the ranges.
func (r ranges) eachSequence() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, x := range r {
			for seq := x.From; seq <= x.Through; seq++ {
				if !yield(seq) {
					return
				}
			}
		}
	}
}

func (r ranges) withRanges(more ...proof.Range) ranges {
	all := append(slices.Clone(r), more...)
	slices.SortFunc(all, func(a, b proof.Range) int { return cmp.Compare(a.From, b.From) })
	var out ranges
	for _, x := range all {
		if n := len(out); n > 0 && x.From <= out[n-1].Through+1 {
			out[n-1].Through = max(out[n-1].Through, x.Through)
			continue
		}
		out = append(out, x)
	}
	return out
}

// missingFrom returns the sequences of list that r does not cover.
func (r ranges) missingFrom(list ...proof.Range) ranges {
	var out ranges
	for _, x := range list {
		i, _ := slices.BinarySearchFunc(r, x.From, func(known proof.Range, seq uint64) int { return cmp.Compare(known.Through, seq) })
		for _, known := range r[i:] {
			if known.From > x.Through {
				break
			}
			if known.From > x.From {
				out = append(out, proof.Range{From: x.From, Through: known.From - 1})
			}
			x.From = known.Through + 1
			if x.From > x.Through {
				break
			}
		}
		if x.From <= x.Through {
			out = append(out, x)
		}
	}
	return out
}

// coversWith reports whether the found records and r together have every sequence after
// after, up to the last found one.
func (r ranges) coversWith(after uint64, found []stored) bool {
	for _, m := range found {
		if m.seq != after+1 && !r.has(after+1, m.seq-1) {
			return false
		}
		after = m.seq
	}
	return true
}
