package proof

import (
	"fmt"
	"slices"
)

// window is how far a moved record may be from its signed place to be recognized.
const window = 4096

// slot is one position of the journal, signed or current.
type slot struct {
	seq     uint64
	leaf    Hash
	subject string
	content Hash   // of a current record
	number  uint64 // of the checkpoint, for signed slots
	invalid string
}

// foreignLeaf is the leaf that a checkpoint has for a record that no engine wrote.
func (s slot) foreignLeaf() Hash { return Entry{s.subject, s.content}.Foreign().Leaf() }

// difference is one difference between the signed and the current journal.
type difference struct {
	kind    Kind
	was, is slot // the kind determines which are set
}

// aligned is the result of align.
type aligned struct {
	was, is int // number of resolved slots of each
	diffs   []difference
}

// align compares the signed with the current records, up to the last record that both have
// in the same order. all means that nothing follows the windows. The longest common
// subsequence is in order; other common records were moved. Of the rest between two records
// in order, pairs were changed, and what remains was removed or inserted.
func align(was, is []slot, all bool, moved map[Hash]slot) aligned {
	at := map[Hash][]int{}
	for i := range was {
		at[was[i].leaf] = append(at[was[i].leaf], i)
	}
	match := make([]int, len(is)) // index in was, or -1
	matched := make([]bool, len(was))
	for j := range is {
		match[j] = -1
		if list := at[is[j].leaf]; len(list) > 0 {
			match[j], matched[list[0]] = list[0], true
			at[is[j].leaf] = list[1:]
		}
	}
	inOrder := longestRun(match)
	a := aligned{was: len(was), is: len(is)}
	if last := len(inOrder) - 1; !all && last >= 0 {
		a.is, a.was = inOrder[last]+1, match[inOrder[last]]+1
	}
	i, j := 0, 0
	for _, next := range append(inOrder, -1) {
		endWas, endIs := a.was, a.is
		if next >= 0 {
			endWas, endIs = match[next], next
		}
		a.resolveSegment(was[i:endWas], is[j:endIs], matched[i:endWas], match[j:endIs], was, moved)
		i, j = endWas+1, endIs+1
		if next < 0 || i > a.was {
			break
		}
	}
	for k := a.is; k < len(is); k++ { // the next call handles these again
		if m := match[k]; m >= 0 && m < a.was {
			moved[is[k].leaf] = was[m]
		}
	}
	return a
}

// resolveSegment resolves the slots between two records that are in order.
func (a *aligned) resolveSegment(was, is []slot, matched []bool, match []int, all []slot, moved map[Hash]slot) {
	var lost, fresh []slot
	for i, w := range was {
		if matched[i] {
			continue
		}
		if _, met := moved[w.leaf]; met { // found at an earlier position
			delete(moved, w.leaf)
			continue
		}
		lost = append(lost, w)
	}
	for j, s := range is {
		switch m := match[j]; {
		case m >= 0:
			a.diffs = append(a.diffs, difference{kind: Reordered, was: all[m], is: s})
			if m >= a.was { // its old position comes later
				moved[s.leaf] = s
			}
		case moved[s.leaf].seq > 0: // its old position came before
			a.diffs = append(a.diffs, difference{kind: Reordered, was: moved[s.leaf], is: s})
			delete(moved, s.leaf)
		default:
			fresh = append(fresh, s)
		}
	}
	pairs := min(len(lost), len(fresh))
	for k := range pairs {
		a.diffs = append(a.diffs, difference{kind: Changed, was: lost[k], is: fresh[k]})
	}
	for _, w := range lost[pairs:] {
		a.diffs = append(a.diffs, difference{kind: Removed, was: w})
	}
	for _, s := range fresh[pairs:] {
		a.diffs = append(a.diffs, difference{kind: Inserted, is: s})
	}
}

// longestRun returns the indices of the longest increasing subsequence of match
// without -1.
func longestRun(match []int) []int {
	var tops []int // index of the smallest last element of a subsequence of each length
	prev := make([]int, len(match))
	for j, m := range match {
		if m < 0 {
			continue
		}
		k, _ := slices.BinarySearchFunc(tops, m, func(top, m int) int { return match[top] - m })
		prev[j] = -1
		if k > 0 {
			prev[j] = tops[k-1]
		}
		if k == len(tops) {
			tops = append(tops, j)
		} else {
			tops[k] = j
		}
	}
	out := make([]int, len(tops))
	if len(tops) == 0 {
		return out
	}
	for k, j := len(tops)-1, tops[len(tops)-1]; k >= 0; k, j = k-1, prev[j] {
		out[k] = j
	}
	return out
}

func (d difference) finding() Finding {
	switch d.kind {
	case Changed:
		f := Finding{Kind: Changed, Seq: d.is.seq, Subject: d.was.subject, Checkpoint: d.was.number, What: "it is not the signed record"}
		if d.is.subject != d.was.subject {
			f.What = "a record of " + d.is.subject + " is at its signed place"
		}
		if d.is.seq != d.was.seq {
			f.What += fmt.Sprintf("; its place was %d", d.was.seq)
		}
		return f
	case Removed:
		return Finding{Kind: Removed, Seq: d.was.seq, Subject: d.was.subject, Checkpoint: d.was.number, What: "it was signed there and is gone"}
	case Reordered:
		return Finding{Kind: Reordered, Seq: d.is.seq, Subject: d.was.subject, Checkpoint: d.was.number, What: fmt.Sprintf("it was signed at %d", d.was.seq)}
	default:
		f := Finding{Kind: Inserted, Seq: d.is.seq, Subject: d.is.subject, What: "nothing was signed there"}
		if d.is.invalid != "" {
			f.What += "; " + d.is.invalid
		}
		return f
	}
}

// isSigned reports whether a checkpoint signed a record, perhaps as one that no engine wrote. It
// then gives the record the signed leaf, and reports it unless its reader does.
func (v *verifier) isSigned(s *slot, signed func(Hash) bool) bool {
	if signed(s.leaf) {
		return true
	}
	foreign := s.foreignLeaf()
	if !signed(foreign) {
		return false
	}
	if s.leaf = foreign; s.invalid == "" {
		v.add(Finding{Kind: Inserted, Seq: s.seq, Subject: s.subject, What: "no engine wrote it, according to the checkpoint that covers it"})
	}
	return true
}
