package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// examineJournal compares the journal, which may be missing, with its checkpoints and its
// anchor. An error means that the comparison failed. It compares again if an archive was
// announced meanwhile.
func (g *guard) examineJournal(ctx context.Context) (*Exam, error) {
	for {
		x, err := g.examineOnce(ctx)
		if err != nil || x.OK {
			return x, err
		}
		last, err := g.checkpoints.readNewest(ctx)
		if err != nil || last.archiveCount() <= uint64(x.archives) {
			return x, nil //nolint:nilerr // the flaws say more
		}
	}
}

// examineWhole examines the journal, and returns its flaws as an error.
func (g *guard) examineWhole(ctx context.Context) (*Exam, error) {
	x, err := g.examineJournal(ctx)
	if err == nil {
		err = x.Error()
	}
	return x, err
}

func (g *guard) examineOnce(ctx context.Context) (*Exam, error) {
	reconnects, now := g.store.nc.Stats().Reconnects, time.Now()
	x := &Exam{Space: g.codec.space, Flaws: []Flaw{}}
	// The known end is read first, so that a record written meanwhile does not look like a flaw.
	head, high := g.anchor.currentMarks()
	if seen := g.high.Load(); seen > high.seq {
		high = highMark{seq: seen}
	}
	if g.anchor != nil {
		x.Anchor = g.anchor.path
	}
	if err := g.readStreams(ctx, x, head); err != nil {
		return nil, err
	}
	if x.isExplained(high) {
		x.moved, high = true, highMark{}
	}
	x.Known = high.seq
	if high.at != 0 {
		x.KnownAt = high.storedAt()
	}
	x.Signed = max(x.Signed, x.last.lastSequence())
	if x.stream == nil {
		x.addMissingStream(g.anchor.foundState(), g.anchor != nil)
	} else if err := g.examineRecords(ctx, x, high); err != nil {
		return nil, err
	}
	x.OK = len(x.Flaws) == 0
	left := x.hasHoles()
	switch {
	case !x.OK:
		x.Lost = g.checkpoints.lostSubjects(ctx, x)
	case left:
		g.archives.markSettled(0)
	default:
		g.archives.markSettled(x.archives)
	}
	g.pending.Store(left || g.archives.isPending())
	g.missing.Store(x.missing.count())
	if x.OK {
		g.learned.Store(reconnects)
		g.looked.Store(&now)
	}
	return x, nil
}

// readStreams reads the state of both streams, and examines the checkpoints. It reads the
// warning before the checkpoints: it ends when its archive is announced there.
func (g *guard) readStreams(ctx context.Context, x *Exam, head anchorHead) error {
	look := g.archives.looks.Add(1)
	info, err := g.store.streamInfo(ctx)
	if err != nil {
		return err
	}
	g.archives.learnWarning(ctx, info, true)
	over := g.archives.endedWarnings(info, look)
	if x.proofs, err = g.checkpoints.store.streamInfo(ctx); err != nil {
		return err
	}
	if err := g.examineProof(ctx, x, head); err != nil {
		return err
	}
	if x.stream, err = g.store.streamInfo(ctx); err == nil && len(x.Flaws) == 0 {
		g.archives.forgetWarnings(over)
	}
	return err
}

// examineProof compares the checkpoints with the anchor and reads the accepted
// losses.
func (g *guard) examineProof(ctx context.Context, x *Exam, head anchorHead) error {
	x.Signed = head.To
	if x.proofs == nil {
		if head.Number > 0 {
			x.addFlaw(FlawProof, 0, 0, "the stream of checkpoints is gone, but the anchor knows of %d", head.Number)
		}
		return nil
	}
	st := x.proofs.State
	unsigned := g.anchor == nil || g.anchor.foundState() != anchorAbsent // a missing anchor explains nothing
	if unsigned && st.Msgs == 0 && st.LastSeq == 1 && head.Number == 0 {
		return nil // a full disk stopped the server after it had counted its first record
	}
	if st.Msgs != st.LastSeq {
		x.addFlaw(FlawProof, 0, 0, "%d of %d stored checkpoints are gone", st.LastSeq-st.Msgs, st.LastSeq)
	}
	var err error
	x.last, err = g.checkpoints.readNewest(ctx)
	if errors.Is(err, errNone) || err == nil && st.LastSeq > 0 && x.last.seq < st.LastSeq {
		x.addFlaw(FlawProof, 0, 0, "the last stored checkpoint is unreadable")
		return nil
	}
	if c := x.last.checkpoint; err == nil && c != nil {
		err = g.readAnnounced(ctx, x, c)
	}
	if err == nil {
		x.compareAnchor(head)
	}
	return err
}

// readAnnounced reads the losses and archives that checkpoints announce, through the last one.
func (g *guard) readAnnounced(ctx context.Context, x *Exam, c *proof.Checkpoint) (err error) {
	x.Checkpoint = c.Number
	if c.Losses > 0 {
		if x.Losses, err = g.acceptedLosses(ctx, c.Losses, x.last.seq); err != nil {
			return err
		}
	}
	if err := g.archives.update(ctx, g.checkpoints, x.last); errors.Is(err, message.ErrDamaged) {
		x.addFlaw(FlawProof, 0, 0, "%s", message.AsError("", err).What)
	} else if err != nil {
		return err
	}
	x.missing = g.archives.missingSequences(x.Losses)
	for _, a := range g.archives.allArchives() {
		x.archives, x.Archived = x.archives+1, x.Archived+a.Records
	}
	return nil
}

// compareAnchor compares the last checkpoint with the one that the anchor names.
func (x *Exam) compareAnchor(head anchorHead) {
	c := cmp.Or(x.last.checkpoint, &proof.Checkpoint{})
	switch {
	case head.Number == 0:
	case slices.ContainsFunc(x.Losses, func(l proof.Loss) bool { return l.Checkpoints >= head.Number && l.At.After(head.At) }):
		x.Signed, x.moved = 0, true // an operator accepted the loss of the anchor's checkpoint
	case c.Number == 0:
		x.addFlaw(FlawProof, 0, 0, "there is no checkpoint, but the anchor knows of %d", head.Number)
	case c.Number < head.Number:
		x.addFlaw(FlawProof, 0, 0, "the last checkpoint is %d, but the anchor knows of %d", c.Number, head.Number)
	case c.Number == head.Number:
		if hash, err := c.Hash(); err != nil || hash != head.Hash && !slices.Contains(x.last.rivals, head.Hash) {
			x.addFlaw(FlawProof, 0, 0, "checkpoint %d differs from the one that the anchor names", c.Number)
		}
	}
}

// acceptedLosses returns the n accepted losses. It reads them again only if n has changed.
func (g *guard) acceptedLosses(ctx context.Context, n, through uint64) ([]proof.Loss, error) {
	g.lossMu.Lock()
	defer g.lossMu.Unlock()
	if uint64(len(g.losses)) == n {
		return g.losses, nil
	}
	found, err := g.checkpoints.readLosses(ctx, through)
	if err == nil {
		g.losses = found
	}
	return found, err
}

// examineRecords compares the stream with what is known of it.
func (g *guard) examineRecords(ctx context.Context, x *Exam, high highMark) error {
	x.First, x.Last, x.Records = x.stream.State.FirstSeq, x.stream.State.LastSeq, x.stream.State.Msgs
	x.findRestored()
	x.compareCounts(max(high.seq, x.Signed))
	name := x.hasHoles()
	if !name && g.archives.isPending() { // equal counts can hide a missing record behind an archived one that is still there
		var err error
		if name, err = g.store.hasRecordsIn(ctx, x.missing); err != nil {
			return err
		}
	}
	if name {
		if err := g.nameHoles(ctx, x); err != nil {
			return err
		}
	}
	if x.Records == 0 {
		return nil
	}
	signed := x.last.lastEntry()
	for _, look := range []struct {
		seq    uint64
		isThat func(m stored) bool
		what   string
	}{
		{x.last.lastSequence(), func(m stored) bool {
			return signed.Subject == "" || signed.Signs(m.subject, entryOf(m).Content)
		}, "that the last checkpoint signed"},
		{high.seq, func(m stored) bool { return high.leaf.IsZero() || leafOf(m) == high.leaf }, "that was acknowledged"},
		{x.Last, func(stored) bool { return true }, "at the end"},
	} {
		if look.seq == 0 || look.seq > x.Last || look.seq < x.First || x.missing.has(look.seq, look.seq) {
			continue
		}
		m, err := g.store.getSeq(ctx, look.seq)
		switch {
		case errors.Is(err, errNone):
			if !x.isInHole(look.seq) {
				x.addFlaw(FlawUnreadable, look.seq, look.seq, "record %d is unreadable", look.seq)
			}
		case err != nil:
			return jsapi.Error("check journal", fmt.Sprintf("record %d", look.seq), err)
		case !look.isThat(m):
			x.addFlaw(FlawChanged, look.seq, look.seq, "record %d differs from the one %s", look.seq, look.what)
		case look.seq == x.Last:
			x.LastAt = m.time
		}
	}
	return nil
}

// maxProbes is the number of requests up to which they cost less than the list of all
// deleted sequences.
const maxProbes = 1000

// hasRecordsIn reports whether the stream may have a record in some ranges.
func (rd reader) hasRecordsIn(ctx context.Context, all ranges) (bool, error) {
	if len(all) > maxProbes {
		return true, nil
	}
	for _, r := range all {
		switch m, err := rd.next(ctx, ">", r.From-1); {
		case errors.Is(err, errNone): // nor in a later range
			return false, nil
		case err != nil:
			return false, jsapi.Error("check journal", fmt.Sprintf("records from %d", r.From), err)
		case m.seq <= r.Through:
			return true, nil
		}
	}
	return false, nil
}

// nameHoles replaces the count of missing records with their sequences.
func (g *guard) nameHoles(ctx context.Context, x *Exam) error {
	gone, err := g.findHoles(ctx, x.missing)
	if err != nil || len(gone) == 0 {
		return err
	}
	x.Flaws = slices.DeleteFunc(x.Flaws, func(f Flaw) bool { return f.Kind == FlawHole })
	for _, r := range gone[:min(len(gone), proof.MaxFindings)] {
		x.addFlaw(FlawHole, r.From, r.Through, "%s", missingText(r))
	}
	return nil
}

// findHoles returns the sequences without a record, except those that are accepted.
func (g *guard) findHoles(ctx context.Context, accepted ranges) (ranges, error) {
	ctx, cancel := jsapi.WithDefaultTimeout(ctx, jsapi.GiveUpAfter)
	defer cancel()
	st, err := g.store.js.Stream(ctx, g.store.stream)
	if err != nil {
		return nil, jsapi.Error("check journal", "stream "+g.store.stream, err)
	}
	info, err := st.Info(ctx, jetstream.WithDeletedDetails(true))
	if err != nil {
		return nil, jsapi.Error("check journal", "stream "+g.store.stream, err)
	}
	var gone ranges
	if first := info.State.FirstSeq; first > 1 {
		gone = append(gone, proof.Range{From: 1, Through: first - 1})
	}
	for _, seq := range info.State.Deleted {
		gone = append(gone, proof.Range{From: seq, Through: seq})
	}
	return accepted.missingFrom(gone.withRanges()...), nil
}

// maxLost limits the subjects in an Exam.
const maxLost = 10000

// lostSubjects reads from the checkpoints which signed records are missing. It
// skips unreadable checkpoints: the list is for people.
func (k checkpoints) lostSubjects(ctx context.Context, x *Exam) []string {
	if x.proofs == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, jsapi.GiveUpAfter)
	defer cancel()
	first := uint64(1 << 63)
	var gone ranges
	for _, f := range x.Flaws {
		if f.From > 0 && f.Kind != FlawChanged {
			gone = append(gone, f.rangeOf())
			first = min(first, f.From)
		}
	}
	seen := map[string]bool{}
	for at := x.proofs.State.LastSeq; at > 0 && len(seen) < maxLost && len(gone) > 0; at-- {
		m, err := k.store.getSeq(ctx, at)
		if err != nil {
			continue
		}
		s, err := k.verify(m)
		if err != nil || s == nil {
			continue
		}
		entries, err := s.Entries()
		if err != nil {
			continue
		}
		for i, e := range entries {
			seq := s.Checkpoint.From + uint64(i)
			if e.Subject != "" && slices.ContainsFunc(gone, func(r proof.Range) bool { return r.Has(seq) }) {
				seen[e.Subject] = true
			}
		}
		if s.Checkpoint.From <= first {
			break
		}
	}
	out := slices.AppendSeq(make([]string, 0, len(seen)), maps.Keys(seen))
	slices.Sort(out)
	return out
}

// admitJournal examines the journal while it is opened, and again while the servers of a
// replicated stream may be electing a leader.
func (g *guard) admitJournal(ctx context.Context, want jetstream.StreamConfig) (*Exam, error) {
	const op = "open journal"
	for began := time.Now(); ; {
		info, err := g.store.streamInfo(ctx)
		if err == nil && info != nil {
			err = checkStream(op, info.Config, want)
		}
		if err != nil {
			return nil, err
		}
		x, err := g.examineJournal(ctx)
		if err != nil || x.OK || g.inspect {
			return x, err
		}
		if time.Since(began) > x.electionPatience() || sleep.For(ctx, time.Second) != nil {
			return nil, x.Error()
		}
	}
}

// Examine compares a space's journal, which may be missing, with its
// checkpoints and its anchor, and reads every record. It changes nothing.
func Examine(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, keys *keyfile.Keys, anchor *Anchor) (*Exam, error) {
	j, err := newJournal(nc, space, keys, Options{Anchor: anchor})
	if err != nil {
		return nil, err
	}
	x, err := j.guard.examineJournal(ctx)
	if err != nil || x.stream == nil {
		return x, err
	}
	if err := checkStream("check journal", x.stream.Config, streamConfig(space, keys.ID(), StreamOptions{})); err != nil {
		return nil, err
	}
	return x, j.guard.readAll(ctx, x)
}

// Compare is [Examine], but it reads only the records that checkpoints or the
// anchor name. A verification reads the rest.
func Compare(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, keys *keyfile.Keys, anchor *Anchor) (*Exam, error) {
	j, err := newJournal(nc, space, keys, Options{Anchor: anchor})
	if err != nil {
		return nil, err
	}
	return j.guard.examineJournal(ctx)
}

// readAll reads every record, because the server can count records that it cannot
// read.
func (g *guard) readAll(ctx context.Context, x *Exam) error {
	bad, err := g.findUnreadable(ctx, x, x.Last, 0)
	if err == nil && x.addUnreadable(bad) {
		x.Lost = g.checkpoints.lostSubjects(ctx, x)
	}
	return err
}

// findUnreadable reads the records up to through, with a pause after each page, and
// returns those that the server counts but does not deliver.
func (g *guard) findUnreadable(ctx context.Context, x *Exam, through uint64, pause time.Duration) (bad ranges, err error) {
	single := 0 // records to read one by one, because an unreadable record fails its page
	for at := uint64(0); at < through; {
		if single == 0 {
			page, end := context.WithTimeout(ctx, jsapi.AttemptTimeout)
			found, last, err := g.store.readPage(page, ">", at, maxPage)
			end()
			if ctx.Err() != nil || pause > 0 && sleep.For(ctx, pause) != nil {
				return nil, context.Cause(ctx)
			}
			if err == nil && len(found) > 0 && x.missing.coversWith(at, found) {
				at = min(last, found[len(found)-1].seq)
				continue
			}
			single = maxPage
		}
		single--
		if next := x.missing.endOfRun(at); next > at {
			at = next
			continue
		}
		at++
		switch _, err := g.store.getSeq(ctx, at); {
		case err == nil:
		case !errors.Is(err, errNone):
			return nil, jsapi.Error("check journal", "read the journal", err)
		case !x.missing.has(at, at) && !x.isInHole(at):
			more, err := g.examineNewer(ctx, x)
			if err != nil {
				return nil, err
			}
			if more { // it may have been archived meanwhile
				single, at = 0, at-1
				continue
			}
			bad = bad.withRanges(proof.Range{From: at, Through: at})
		}
	}
	return bad, nil
}

// examineNewer adds to x what archives have removed that were announced since, and reports
// whether there are any.
func (g *guard) examineNewer(ctx context.Context, x *Exam) (bool, error) {
	last, err := g.checkpoints.readNewest(ctx)
	if errors.Is(err, errNone) || err == nil && last.archiveCount() <= uint64(x.archives) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	fresh, err := g.examineOnce(ctx)
	if err != nil {
		return false, err
	}
	if fresh.archives <= x.archives { // the checkpoints could not be read now
		return false, jsapi.Error("check journal", "read the checkpoints", errGarbled)
	}
	x.archives, x.missing = fresh.archives, fresh.missing
	return true, nil
}

// addUnreadable adds a flaw for each range, and reports whether there is one.
func (x *Exam) addUnreadable(bad ranges) bool {
	for _, r := range bad {
		x.OK = false
		what := "record %s is unreadable"
		if r.From != r.Through {
			what = "records %s are unreadable"
		}
		x.addFlaw(FlawUnreadable, r.From, r.Through, what, r)
	}
	return len(bad) > 0
}
