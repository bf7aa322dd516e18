package bus

import (
	"slices"

	"github.com/askance-dev/askance/message/proof"
)

// ranges are runs of sequences without records that an operator accepted, sorted
// and apart.
type ranges []proof.Range

// count is how many sequences there are.
func (r ranges) count() uint64 {
	n := uint64(0)
	for _, x := range r {
		n += x.Through - x.From + 1
	}
	return n
}

// has reports whether every sequence from … through is in one of them.
func (r ranges) has(from, through uint64) bool {
	for _, x := range r {
		if x.Has(from) {
			if through <= x.Through {
				return true
			}
			from = x.Through + 1
		}
	}
	return false
}

// with gives the union of r and more.
func (r ranges) with(more ...proof.Range) ranges {
	all := append(slices.Clone(r), more...)
	slices.SortFunc(all, func(a, b proof.Range) int { return int(int64(a.From) - int64(b.From)) })
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

// without gives those of the sequences of list that r does not have.
func (r ranges) without(list ...proof.Range) ranges {
	var out ranges
	for _, x := range list {
		for _, known := range r {
			if known.Through < x.From || known.From > x.Through {
				continue
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
