package proof

import "slices"

// A replicated ledger can store two checkpoints behind the same one, and a journal two records: a
// server whose disk is full loses the first. The next checkpoint continues one; the other is void.

// isRival reports whether a checkpoint is behind the same one as the last, and signs the same
// records: the same range, or the same records and later ones.
func (v *verifier) isRival(o *opened) bool {
	a, c := v.last, &o.Checkpoint
	switch {
	case a == nil, o.hash == v.rep.Anchor.Hash: // the latter is a copy, which no engine stores
		return false
	case c.Number != a.Number || c.Space != a.Space || c.Prev != a.Prev || c.From != a.From || c.Losses != a.Losses || c.Archives != a.Archives || c.ArchiveAt != a.ArchiveAt,
		a.Loss != nil, c.Loss != nil, a.Archive != nil, c.Archive != nil, o.entriesErr != nil:
		return false
	case c.To == a.To:
		return c.Root == a.Root
	}
	n := int(a.Size())
	return len(v.signed) == n && len(o.slots) > n && slices.Equal(v.signed, o.slots[:n])
}

// addRival keeps a rival of the last checkpoint. One of the two is void.
func (v *verifier) addRival(o *opened) {
	c := o.Checkpoint
	v.rivals = append(v.rivals, o)
	v.anchored = v.anchored || v.o.Anchor == Anchor{c.Number, o.hash}
	if len(v.rep.Voids) < MaxFindings {
		v.rep.Voids = append(v.rep.Voids, Finding{Kind: Void, Checkpoint: c.Number, Seq: c.From, Through: c.To, What: "it is stored twice, with the same records: the next checkpoint continues one, and the other has no effect"})
	}
}

// chooseRival makes the rival that c follows the last checkpoint. It reports whether there is
// one.
func (v *verifier) chooseRival(c Checkpoint) bool {
	i := slices.IndexFunc(v.rivals, func(r *opened) bool { return c.Follows(&r.Checkpoint) == nil })
	if i < 0 {
		return false
	}
	r, n := *v.rivals[i], int(v.last.Size())
	r.slots = r.slots[min(n, len(r.slots)):] // the others have been added
	v.rep.Checkpoints--
	v.addEntries(&r)
	return true
}
