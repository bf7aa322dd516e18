package proof

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Options are the inputs of a verification besides the journal.
type Options struct {
	Space toolcall.SpaceID
	// Keys are the public keys of the space's engines, including former ones. Required.
	Keys    toolcall.KeySet
	Retired Retired // when some of the keys were retired
	// First is the first stored sequence and Last the last assigned one, according to the
	// store; Last 0 means unknown.
	First, Last   uint64
	PurgedThrough uint64 // the records up to here were purged intentionally
	Partial       bool   // the records are a selection
	Anchor        Anchor // a checkpoint that must be present
	// Earlier is the verification to continue: checkpoints and records are those after it. The
	// caller ensures that its checkpoint is in the ledger and its last record in the journal.
	Earlier  *Earlier
	Losses   []Loss    // from the checkpoints: see the function Losses
	Archives []Archive // from the checkpoints: see the function Archives
	// Name returns a subject as session/reply/call; may be nil.
	Name     func(subject string) string
	Progress func(seq uint64) // called from time to time; may be nil
	Workers  int              // goroutines that compute hashes and signatures; 0 means one per processor
}

// Verify compares a journal with its checkpoints and the chains of its calls. checkpoints and
// records yield both in order. The report contains the findings; an error comes from one of
// the iterators.
//
// It needs memory for a few thousand records and about 100 bytes per call. The iterators run
// in their own goroutines, which have ended when it returns.
func Verify(checkpoints iter.Seq2[[]byte, error], records iter.Seq2[Record, error], o Options) (*Report, error) {
	v := &verifier{o: o, rep: &Report{Space: o.Space, First: max(1, o.First), Partial: o.Partial, Losses: o.Losses, Findings: []Finding{}}, moved: map[Hash]slot{}, known: map[uint64]bool{}, missing: map[string]bool{}, archived: archivedBy(o.Archives)}
	if o.Earlier != nil {
		v.continueFrom(*o.Earlier)
	}
	v.rep.Archives = uint64(len(o.Archives))
	for _, a := range o.Archives {
		v.rep.Archived += a.Records
	}
	v.chain = newChains(v.rep.First, v.rep)
	var stop func()
	v.nextCheckpoint, stop = readAhead(checkpoints, o.Workers, func(raw []byte) int { return len(raw) }, v.openCheckpoint)
	defer stop()
	v.nextRecord, stop = readAhead(records, o.Workers, func(r Record) int { return len(r.Text) + len(r.Binary) }, checkAlone)
	defer stop()
	run := v.checkWhole
	if o.Partial {
		run = v.checkSelection
	}
	if err := run(); err != nil {
		return nil, err
	}
	v.addChainFindings()
	for i := range v.rep.Voids {
		v.nameCall(&v.rep.Voids[i])
	}
	return v.rep, nil
}

// continueFrom continues where an earlier verification ended.
func (v *verifier) continueFrom(e Earlier) {
	c := e.Checkpoint
	hash, _ := c.Hash() // it was signed, so it has a form
	v.last, v.rep.Earlier, v.rep.First, v.rep.Last = &c, &e, c.To+1, c.To
	v.rep.CoverTo, v.rep.LastAt, v.rep.Anchor = c.To, c.At, Anchor{c.Number, hash}
	v.anchored = v.o.Anchor == v.rep.Anchor
}

type verifier struct {
	o     Options
	rep   *Report
	chain *chains

	nextCheckpoint func() (*opened, error)
	nextRecord     func() (*checked, error)
	was, is        []slot // signed and current slots, read ahead
	wasEnd, isEnd  bool
	last           *Checkpoint
	signed         []slot    // of the last checkpoint
	rivals         []*opened // of the last checkpoint
	anchored       bool
	skip           [][2]uint64     // ranges whose checkpoint could not be opened
	moved          map[Hash]slot   // records far from their signed place
	known          map[uint64]bool // sequences with a difference
	doubts         []Finding
	archived       archived
	missing        map[string]bool // the archives whose records are not shown
}

// readSigned reads ahead until n signed slots are known, or all.
func (v *verifier) readSigned(n int) error {
	return readAtLeast(n, &v.was, &v.wasEnd, v.nextCheckpoint, v.addCheckpoint)
}

// readPresent reads ahead until n records are known, or all.
func (v *verifier) readPresent(n int) error {
	return readAtLeast(n, &v.is, &v.isEnd, v.nextRecord, v.addRecord)
}

// readAtLeast calls next and add until the list has n slots, or ends.
func readAtLeast[T any](n int, list *[]slot, ends *bool, next func() (*T, error), add func(*T)) error {
	for len(*list) < n && !*ends {
		item, err := next()
		switch {
		case err != nil:
			return err
		case item == nil:
			*ends = true
		default:
			add(item)
		}
	}
	return nil
}

// opened is a stored checkpoint with the results of checking it alone.
type opened struct {
	Checkpoint
	err        error // set if it is not a checkpoint of the keys
	hash       Hash
	slots      []slot
	entriesErr error // set if its entries are not the signed ones
}

func (v *verifier) openCheckpoint(raw []byte) (o opened) {
	var s Sealed
	if s, o.err = DecodeSealed(raw); o.err != nil {
		return o
	}
	o.Checkpoint = s.Checkpoint
	if o.err = o.Verify(v.o.Keys); o.err != nil {
		return o
	}
	o.hash, _ = o.Hash() // it was signed, so it has a form
	entries, leaves, err := s.open()
	o.entriesErr = err
	for i, e := range entries {
		o.slots = append(o.slots, slot{seq: o.From + uint64(i), leaf: leaves[i], subject: e.Subject, number: o.Number})
	}
	return o
}

// addCheckpoint adds a checkpoint if it follows the one before.
func (v *verifier) addCheckpoint(o *opened) {
	c, err := o.Checkpoint, o.err
	if err == nil {
		err = v.o.Retired.Check(c, v.last)
	}
	if err == nil && v.o.Space != "" && c.Space != v.o.Space {
		err = fmt.Errorf("it belongs to the space %q", c.Space)
	}
	if err != nil {
		v.rep.addCheckpoint(BadCheckpoint, c, err.Error())
		return
	}
	if err := c.Follows(v.last); err != nil && !v.chooseRival(c) {
		if v.isRival(o) {
			v.addRival(o)
			return
		}
		v.rep.addCheckpoint(LostCheckpoint, c, message.AsError("", err).What)
		next := uint64(1)
		if v.last != nil {
			next = v.last.To + 1
		}
		if c.From < next { // an older checkpoint
			return
		}
		v.skipRange(next, c.From-1) // signed by the lost checkpoints
	}
	v.addEntries(o)
}

func (v *verifier) addEntries(o *opened) {
	c := o.Checkpoint
	v.last, v.signed, v.rivals = &c, o.slots, nil
	v.rep.Checkpoints++
	v.rep.CoverFrom = cmp.Or(v.rep.CoverFrom, c.From)
	v.rep.CoverTo, v.rep.LastAt, v.rep.Anchor = c.To, c.At, Anchor{c.Number, o.hash}
	v.anchored = v.anchored || v.o.Anchor == v.rep.Anchor
	if err := o.entriesErr; err != nil {
		v.rep.addCheckpoint(BadCheckpoint, c, err.Error())
		v.skipRange(c.From, c.To)
		return
	}
	for _, at := range o.slots {
		if at.subject == "" {
			v.reportGone(at)
			continue
		}
		v.was = append(v.was, at)
	}
}

// skipRange leaves out the records of a range whose checkpoint cannot be used.
func (v *verifier) skipRange(from, to uint64) {
	v.skip = append(v.skip, [2]uint64{from, to})
	n := len(v.is)
	v.is = slices.DeleteFunc(v.is, func(s slot) bool { return from <= s.seq && s.seq <= to })
	v.rep.Uncovered += uint64(n - len(v.is))
}

// reportGone reports a record that was not there when its range was signed.
func (v *verifier) reportGone(at slot) {
	v.add(Finding{Kind: Removed, Seq: at.seq, Checkpoint: at.number, What: "it was already gone when its range was signed"})
}

func (v *verifier) addRecord(r *checked) {
	if v.rep.Records > 0 && r.Seq <= v.rep.Last {
		v.addDoubt(Finding{Kind: Reordered, Seq: r.Seq, Subject: r.Subject, What: fmt.Sprintf("it comes after the record at %d", v.rep.Last)})
	}
	v.rep.Records++
	v.rep.Last = max(v.rep.Last, r.Seq)
	if !r.BodyHash.IsZero() {
		v.rep.Redacted++
	}
	if v.o.Progress != nil && v.rep.Records%1024 == 0 {
		v.o.Progress(r.Seq)
	}
	if r.Invalid != "" {
		kind := Inserted
		if r.Altered {
			kind = Changed
		}
		v.addDoubt(Finding{Kind: kind, Seq: r.Seq, Subject: r.Subject, What: r.Invalid})
	}
	v.chain.add(r, v.add)
	for _, s := range v.skip {
		if s[0] <= r.Seq && r.Seq <= s[1] {
			v.rep.Uncovered++
			return
		}
	}
	v.is = append(v.is, slot{seq: r.Seq, leaf: r.leaf, subject: r.Subject, content: r.content, invalid: r.Invalid})
}

// addDoubt stores a finding that a checkpoint may still explain.
func (v *verifier) addDoubt(f Finding) {
	v.doubts = append(v.doubts[:min(len(v.doubts), MaxFindings)], f)
}

// checkWhole compares a complete journal.
func (v *verifier) checkWhole() error {
	for {
		if err := v.readSigned(1); err != nil {
			return err
		}
		if err := v.readPresent(1); err != nil {
			return err
		}
		switch {
		case len(v.was) == 0: // the rest was not signed
			v.rep.Uncovered += uint64(len(v.is))
			v.is = v.is[:0]
			if v.isEnd {
				return nil
			}
		case v.was[0].seq < v.rep.First:
			v.skipPurged()
		case len(v.is) > 0 && v.isSigned(&v.is[0], func(leaf Hash) bool { return leaf == v.was[0].leaf }):
			v.was, v.is = v.was[1:], v.is[1:]
		default:
			if err := v.findDifferences(); err != nil {
				return err
			}
		}
	}
}

// findDifferences reads ahead and resolves the differences.
func (v *verifier) findDifferences() error {
	if err := v.readPresent(window); err != nil {
		return err
	}
	signed, err := v.dropAbsent(v.is[:min(len(v.is), window)])
	if err != nil {
		return err
	}
	was, is := v.was[:min(len(v.was), window)], v.is[:min(len(v.is), window)]
	leaves := make(map[Hash]bool, len(was))
	for i := range was {
		leaves[was[i].leaf] = true
	}
	for i := range is {
		v.isSigned(&is[i], func(leaf Hash) bool { return leaves[leaf] })
	}
	if v.wasEnd && len(is) > len(was) && len(was) < window { // records after the last checkpoint are not insertions
		is = is[:countCandidates(was, is, signed)]
	}
	a := align(was, is, v.wasEnd && len(was) == len(v.was) || v.isEnd && len(is) == len(v.is), v.moved)
	for _, d := range a.diffs {
		v.report(d)
	}
	v.was, v.is = v.was[a.was:], v.is[a.is:]
	return nil
}

// dropAbsent reads signed slots ahead, and reports those whose sequence and content are both
// absent: a hole that is longer than the window could not be aligned. It returns the last signed
// sequence that it read.
func (v *verifier) dropAbsent(is []slot) (signed uint64, err error) {
	seqs, leaves, last := make(map[uint64]bool, len(is)), make(map[Hash]bool, len(is)), uint64(0)
	for _, s := range is {
		seqs[s.seq], leaves[s.leaf], last = true, true, max(last, s.seq)
	}
	if v.isEnd && len(is) == len(v.is) {
		last = math.MaxUint64
	}
	for {
		if err := v.readSigned(window); err != nil {
			return 0, err
		}
		n := len(v.was)
		if n > 0 {
			signed = max(signed, v.was[n-1].seq)
		}
		v.was = slices.DeleteFunc(v.was, func(s slot) bool {
			_, met := v.moved[s.leaf]
			absent := s.seq < last && !seqs[s.seq] && !leaves[s.leaf] && !met
			if absent {
				v.report(difference{kind: Removed, was: s})
			}
			return absent
		})
		if len(v.was) == n {
			return signed, nil
		}
	}
}

func (v *verifier) report(d difference) {
	v.known[max(d.is.seq, d.was.seq)] = true
	if d.kind == Removed && v.isEnd && d.was.seq > v.rep.Last {
		v.reportLostEnd(d.was)
		return
	}
	v.add(d.finding())
}

// countCandidates counts the current records up to the last signed one, or up to the last
// signed sequence.
func countCandidates(was, is []slot, signed uint64) int {
	leaves := make(map[Hash]bool, len(was))
	for _, w := range was {
		leaves[w.leaf] = true
	}
	n := 0
	for j, s := range is {
		if leaves[s.leaf] || s.seq <= signed {
			n = j + 1
		}
	}
	return n
}

// reportLostEnd reports that the journal ends before what was signed.
func (v *verifier) reportLostEnd(at slot) {
	kind, what := RolledBack, fmt.Sprintf("the journal ends at %d, before this signed record", v.rep.Last)
	if v.o.Last >= at.seq {
		kind, what = Removed, "it was signed there, but is gone"
	}
	if n := len(v.rep.Findings); n > 0 && kind == RolledBack {
		if f := &v.rep.Findings[n-1]; f.Kind == kind && max(f.Seq, f.Through)+1 == at.seq {
			f.Through = at.seq
			return
		}
	}
	v.add(Finding{Kind: kind, Seq: at.seq, Subject: at.subject, Checkpoint: at.number, What: what})
}

// skipPurged skips signed records that were purged from the start.
func (v *verifier) skipPurged() {
	from, n := v.was[0].seq, 0
	for n < len(v.was) && v.was[n].seq < v.rep.First {
		n++
	}
	through := v.was[n-1].seq
	v.was = v.was[n:]
	if through <= v.o.PurgedThrough {
		return
	}
	if k := len(v.rep.Findings); k > 0 && v.rep.Findings[k-1].Kind == Purged {
		v.rep.Findings[k-1].Through = through
		return
	}
	v.add(Finding{Kind: Purged, Seq: max(from, v.o.PurgedThrough+1), Through: through, What: "the records are gone, and only their proof is left; if you purged them, say so"})
}

// checkSelection compares each record of a filtered export with what was signed at its
// position.
func (v *verifier) checkSelection() error {
	for {
		if err := v.readPresent(1); err != nil || len(v.is) == 0 {
			for err == nil && !v.wasEnd { // the remaining checkpoints count
				v.was = v.was[:0]
				err = v.readSigned(1)
			}
			return err
		}
		s := v.is[0]
		v.is = v.is[1:]
		for {
			if err := v.readSigned(1); err != nil {
				return err
			}
			if len(v.was) == 0 || v.was[0].seq >= s.seq {
				break
			}
			v.was = v.was[1:]
		}
		switch {
		case len(v.was) == 0:
			v.rep.Uncovered++
		case v.was[0].seq != s.seq:
			v.known[s.seq] = true
			v.add(difference{kind: Inserted, is: s}.finding())
		case !v.isSigned(&s, func(leaf Hash) bool { return leaf == v.was[0].leaf }):
			v.known[s.seq] = true
			v.add(difference{kind: Changed, was: v.was[0], is: s}.finding())
		}
	}
}

// addChainFindings adds the findings of the chains that no checkpoint explains, and
// completes the report.
func (v *verifier) addChainFindings() {
	if v.o.Last > v.rep.Last {
		if v.o.Last > v.rep.CoverTo && !v.o.Partial {
			v.add(Finding{Kind: Truncated, Seq: max(v.rep.Last, v.rep.CoverTo) + 1, Through: v.o.Last, What: "these sequences were assigned, but their records are missing"})
		}
		v.rep.Last = max(v.rep.Last, v.o.Last)
	}
	explained := len(v.known) > 0
	if !v.o.Partial {
		for _, f := range v.chain.found {
			if f.Kind == Removed {
				f.Through = 0
			}
			if !explained || f.Seq > v.rep.CoverTo {
				v.known[f.Seq] = true
				v.add(f)
			}
		}
		if !explained && len(v.chain.found) == 0 {
			v.chain.explainShifts(v.add)
		}
	}
	for _, f := range v.doubts {
		if !v.known[f.Seq] {
			v.add(f)
		}
	}
	if v.rep.Checkpoints == 0 && v.rep.Records > 0 && v.o.Earlier == nil {
		v.add(Finding{Kind: NoCheckpoint, What: "no checkpoint covers this journal"})
	}
	if v.o.Anchor != (Anchor{}) && !v.anchored {
		v.add(Finding{Kind: LostCheckpoint, Checkpoint: v.o.Anchor.Number, What: "the checkpoint " + v.o.Anchor.String() + ", which an auditor saw, is missing"})
	}
	v.rep.Missing = slices.Sorted(maps.Keys(v.missing))
	slices.SortStableFunc(v.rep.Findings, func(a, b Finding) int { return cmp.Compare(a.Seq, b.Seq) })
	v.rep.OK = v.rep.Found == 0
}

// add adds a finding with its call, unless an archive or an accepted loss explains it.
func (v *verifier) add(f Finding) {
	if names := v.archived.explain(f); names != nil {
		v.rep.NotShown += max(f.Seq, f.Through) - f.Seq + 1
		for _, name := range names {
			v.missing[name] = true
		}
		return
	}
	if f.isAccepted(v.o.Losses) {
		v.rep.Explained++
		return
	}
	v.nameCall(&f)
	v.rep.add(f)
}

func (v *verifier) nameCall(f *Finding) {
	if f.Call == "" && f.Subject != "" && v.o.Name != nil {
		f.Call = v.o.Name(f.Subject)
	}
}
