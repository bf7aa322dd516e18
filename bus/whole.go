package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go/jetstream"
)

// FlawKind names a way in which a journal is not what its proof and its anchor
// say.
type FlawKind string

// The kinds of flaw.
const (
	FlawJournalGone FlawKind = "journal_gone" // the stream is not there, or was made again
	FlawTail        FlawKind = "tail_missing" // the journal ends before what is known
	FlawHole        FlawKind = "hole"         // records inside the journal are gone
	FlawChanged     FlawKind = "changed"      // another record stands where a known one stood
	FlawUnreadable  FlawKind = "unreadable"   // the server counts a record and cannot read it
	FlawProof       FlawKind = "proof_damaged"
	FlawAnchor      FlawKind = "anchor_missing" // used keys, and neither anchor nor journal
	FlawBadAnchor   FlawKind = "anchor_damaged" // the anchor file cannot be believed
)

// Flaw is one thing that a journal lacks.
type Flaw struct {
	Kind    FlawKind `json:"kind"`
	From    uint64   `json:"from_seq,omitzero"`
	Through uint64   `json:"through_seq,omitzero"`
	What    string   `json:"what"`
}

// rangeOf is the flaw's range of sequences.
func (f Flaw) rangeOf() proof.Range { return proof.Range{From: f.From, Through: f.Through} }

// String is the flaw in one line.
func (f Flaw) String() string { return f.What }

// Exam is the outcome of an examination of a journal.
type Exam struct {
	Space   toolcall.SpaceID `json:"space"`
	OK      bool             `json:"ok"`
	First   uint64           `json:"first_seq"` // of the journal as it is
	Last    uint64           `json:"last_seq"`
	Records uint64           `json:"records"`
	// Anchor is the anchor's path, Known the highest record that it knows.
	Anchor  string    `json:"anchor,omitzero"`
	Known   uint64    `json:"known_seq,omitzero"`
	KnownAt time.Time `json:"known_at,omitzero"`
	// Checkpoint is the last one that is there, Signed the last sequence that it
	// or the anchor's checkpoint covers.
	Checkpoint uint64 `json:"checkpoint,omitzero"`
	Signed     uint64 `json:"signed_seq,omitzero"`
	// LastAt is when the last record that is left was stored.
	LastAt time.Time `json:"last_at,omitzero"`
	// Losses are those that operators accepted before.
	Losses []proof.Loss `json:"losses,omitzero"`
	Flaws  []Flaw       `json:"flaws"`
	// Lost are the subjects of signed records that are missing, each once.
	Lost []string `json:"lost_subjects,omitzero"`

	stream, proofs *jetstream.StreamInfo // nil: not there
	last           newest
	missing        ranges // accepted before
	moved          bool   // the anchor knows less than an operator has accepted since
}

// Error is the refusal to go on with the journal; nil if nothing is wrong.
func (x *Exam) Error() error {
	if len(x.Flaws) == 0 {
		return nil
	}
	const most = 3
	var parts []string
	for _, f := range x.Flaws[:min(most, len(x.Flaws))] {
		parts = append(parts, f.What)
	}
	if more := len(x.Flaws) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more faults", more))
	}
	if names := x.LostNames(); len(names) > 0 {
		const most = 5
		text := "signed records are missing of " + strings.Join(names[:min(most, len(names))], ", ")
		if more := len(names) - most; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, text)
	}
	return &message.Error{Code: message.CodeDamaged, Op: "check journal", What: "the journal of the space " + string(x.Space) + " is damaged: " + strings.Join(parts, "; "),
		Hint: "nothing runs on it: restore a backup of the journal, or look with askance journal check and decide with askance journal accept-loss"}
}

// LostNames are the calls, replies and sessions of the lost subjects, each once.
func (x *Exam) LostNames() []string {
	var names []string
	for _, s := range x.Lost {
		names = append(names, NameOf(s))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// flaw adds what is wrong.
func (x *Exam) flaw(kind FlawKind, from, through uint64, format string, args ...any) {
	x.Flaws = append(x.Flaws, Flaw{Kind: kind, From: from, Through: through, What: fmt.Sprintf(format, args...)})
}

// examine compares the journal with its checkpoints and its anchor. A journal
// that is not there is examined, too. An error says that it could not be done.
func (j *Journal) examine(ctx context.Context) (*Exam, error) {
	x := &Exam{Space: j.space, Flaws: []Flaw{}}
	// What is known is read first: what is written meanwhile is no flaw.
	head, high := j.anchor.known()
	if seen := j.high.Load(); seen > high.seq {
		high = highMark{seq: seen}
	}
	if j.anchor != nil {
		x.Anchor = j.anchor.path
	}
	var err error
	if x.proofs, err = j.infoOf(ctx, LedgerName(j.space)); err != nil {
		return nil, err
	}
	if err := j.examineProof(ctx, x, head); err != nil {
		return nil, err
	}
	if x.stream, err = j.infoOf(ctx, j.stream); err != nil {
		return nil, err
	}
	if x.stream != nil {
		st := x.stream.State
		x.First, x.Last, x.Records = st.FirstSeq, st.LastSeq, st.Msgs
	}
	if x.explained(high) {
		x.moved, high = true, highMark{}
	}
	x.Known = high.seq
	if high.at != 0 {
		x.KnownAt = high.time()
	}
	x.Signed = max(x.Signed, x.last.to())
	if x.stream == nil {
		x.noStream(j.anchor.found(), j.anchor != nil)
	} else if err := j.examineRecords(ctx, x, high); err != nil {
		return nil, err
	}
	if len(x.Flaws) > 0 {
		x.Lost = j.lostSubjects(ctx, x)
	}
	x.OK = len(x.Flaws) == 0
	j.missing.Store(x.missing.count())
	return x, nil
}

// explained reports whether an operator accepted after the mark that records up
// to it were lost.
func (x *Exam) explained(high highMark) bool {
	for _, l := range x.Losses {
		if high.at != 0 && l.At.After(high.time()) && (l.Covers(high.seq) || l.Known >= high.seq) {
			return true
		}
	}
	return false
}

// noStream is about a journal that is not there.
func (x *Exam) noStream(found anchorState, anchored bool) {
	known := max(x.Known, x.Signed)
	switch {
	case x.proofs != nil:
		x.flaw(FlawJournalGone, min(1, known), known, "its stream is gone, the checkpoints are still there (records 1 to %d were signed)", x.Signed)
	case found == anchorAbsent && anchored:
		x.flaw(FlawAnchor, 0, 0, "these engine keys were used before, and there is neither a journal nor an anchor at %s; for a new space with old keys, askance journal accept-loss begins the journal", x.Anchor)
	case found == anchorMade:
		x.flaw(FlawJournalGone, min(1, known), known, "its stream and its checkpoints are gone, and the anchor knows of records up to %d", known)
	}
}

// infoOf is the state of a stream, nil if there is none.
func (j *Journal) infoOf(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	ctx, cancel := withDefault(ctx, giveUpAfter)
	defer cancel()
	st, err := j.js.Stream(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, nil
	case isOffline(err):
		return nil, &message.Error{Code: message.CodeDamaged, Op: "check journal", What: "the server does not serve the stream " + name + ", whose files it cannot read",
			Hint: "nothing runs on it: look with askance journal check, have its files repaired with askance journal accept-loss, or restore a backup", Err: err}
	case err != nil:
		return nil, apiError("check journal", "stream "+name, err)
	}
	return st.CachedInfo(), nil
}

// isOffline reports whether the server has stopped a stream whose files it does
// not understand.
func isOffline(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == streamOffline
}

// streamOffline is the server's error code of such a stream.
const streamOffline = 10194

// checkpoints reads the journal's checkpoints and writes none.
func (j *Journal) checkpoints() *Ledger {
	return &Ledger{j: j, o: LedgerOptions{Existing: true}, log: slog.New(slog.DiscardHandler),
		store: &Journal{nc: j.nc, js: j.js, space: j.space, stream: LedgerName(j.space), keys: j.keys, signing: j.signing}}
}

// examineProof looks at the checkpoints and at what operators accepted.
func (j *Journal) examineProof(ctx context.Context, x *Exam, head anchorHead) error {
	x.Signed = head.To
	if x.proofs == nil {
		if head.Number > 0 {
			x.flaw(FlawProof, 0, 0, "the stream of checkpoints is gone, and the anchor knows of %d", head.Number)
		}
		return nil
	}
	st := x.proofs.State
	unsigned := j.anchor == nil || j.anchor.found() != anchorAbsent // an anchor that is missing explains nothing
	if unsigned && st.Msgs == 0 && st.LastSeq == 1 && head.Number == 0 {
		return nil // the server counts its first record before it writes it, and a full disk kept it from that
	}
	if st.Msgs != st.LastSeq {
		x.flaw(FlawProof, 0, 0, "%d of %d stored checkpoints are gone", st.LastSeq-st.Msgs, st.LastSeq)
	}
	l := j.checkpoints()
	var err error
	x.last, err = l.newest(ctx)
	switch {
	case errors.Is(err, errNone) || err == nil && st.LastSeq > 0 && x.last.seq < st.LastSeq:
		x.flaw(FlawProof, 0, 0, "the last stored checkpoint cannot be read")
		return nil
	case err != nil:
		return err
	}
	c := x.last.checkpoint
	if c != nil {
		x.Checkpoint = c.Number
		if c.Losses > 0 {
			if x.Losses, err = j.accepted(ctx, l, c.Losses, x.last.seq); err != nil {
				return err
			}
			for _, loss := range x.Losses {
				x.missing = x.missing.with(loss.Missing...)
			}
		}
	}
	restarted := slices.ContainsFunc(x.Losses, func(l proof.Loss) bool { return head.Number > 0 && l.Checkpoints >= head.Number && l.At.After(head.At) })
	switch {
	case restarted:
		x.Signed, x.moved = 0, true
	case c == nil && head.Number > 0:
		x.flaw(FlawProof, 0, 0, "no checkpoint is there, and the anchor knows of %d", head.Number)
	case c != nil && c.Number < head.Number:
		x.flaw(FlawProof, 0, 0, "the last checkpoint is %d, and the anchor knows of %d", c.Number, head.Number)
	case c != nil && c.Number == head.Number:
		if hash, err := c.Hash(); err != nil || hash != head.Hash {
			x.flaw(FlawProof, 0, 0, "checkpoint %d is another one than the anchor knows", c.Number)
		}
	}
	return nil
}

// accepted gives the losses that operators accepted: they are read again when
// there is one more.
func (j *Journal) accepted(ctx context.Context, l *Ledger, n, through uint64) ([]proof.Loss, error) {
	j.lossMu.Lock()
	defer j.lossMu.Unlock()
	if uint64(len(j.losses)) == n {
		return j.losses, nil
	}
	found, err := l.losses(ctx, through)
	if err == nil {
		j.losses = found
	}
	return found, err
}

// losses reads from the checkpoints what operators accepted. A message that is
// none is passed over.
func (l *Ledger) losses(ctx context.Context, through uint64) ([]proof.Loss, error) {
	var out []proof.Loss
	for at := uint64(0); at < through; {
		found, seen, err := l.store.page(ctx, ">", at, maxPage)
		if err != nil {
			return nil, apiError("read ledger", "stream "+l.store.stream, err)
		}
		for _, m := range found {
			s, err := l.genuine(m)
			if err != nil {
				return nil, err
			}
			if s != nil && s.Checkpoint.Loss != nil {
				out = append(out, *s.Checkpoint.Loss)
			}
		}
		at = seen
	}
	return out, nil
}

// examineRecords compares the stream with what is known of it.
func (j *Journal) examineRecords(ctx context.Context, x *Exam, high highMark) error {
	known := max(high.seq, x.Signed)
	x.flawsOf(known)
	if x.holes() {
		if err := j.nameHoles(ctx, x); err != nil {
			return err
		}
	}
	if x.Records == 0 {
		return nil
	}
	for _, look := range []struct {
		seq  uint64
		leaf proof.Hash
		what string
	}{
		{x.last.to(), x.last.lastLeaf(), "that the last checkpoint signed"},
		{high.seq, high.leaf, "that was acknowledged"},
		{x.Last, proof.Hash{}, "at the end"},
	} {
		if look.seq == 0 || look.seq > x.Last || look.seq < x.First || x.missing.has(look.seq, look.seq) {
			continue
		}
		m, err := j.getSeq(ctx, look.seq)
		switch {
		case errors.Is(err, errNone):
			if !x.inHole(look.seq) {
				x.flaw(FlawUnreadable, look.seq, look.seq, "record %d cannot be read", look.seq)
			}
		case err != nil:
			return apiError("check journal", fmt.Sprintf("record %d", look.seq), err)
		case !look.leaf.IsZero() && leafOf(m) != look.leaf:
			x.flaw(FlawChanged, look.seq, look.seq, "record %d is another one than the one %s", look.seq, look.what)
		case look.seq == x.Last:
			x.LastAt = m.time
		}
	}
	return nil
}

// flawsOf compares the stream's own count with what is known.
func (x *Exam) flawsOf(known uint64) {
	if x.Last < known {
		signed := ""
		if x.Signed > x.Last {
			signed = fmt.Sprintf(", %d of them signed", x.Signed-x.Last)
		}
		when := ""
		if !x.KnownAt.IsZero() {
			when = ", the last one of " + x.KnownAt.Format(time.RFC3339)
		}
		x.flaw(FlawTail, x.Last+1, known, "%s at the end (%d in all%s%s)", missingText(proof.Range{From: x.Last + 1, Through: known}), known-x.Last, signed, when)
	}
	if x.holes() {
		x.flaw(FlawHole, 0, 0, "%d records are missing inside the journal, which has %d of %d", x.Last-x.Records-x.missing.count(), x.Records, x.Last)
	}
}

// missingText says that records are missing.
func missingText(r proof.Range) string {
	if r.From == r.Through {
		return "record " + r.String() + " is missing"
	}
	return "records " + r.String() + " are missing"
}

// holes reports whether the stream has not one record for each sequence, other
// than what was accepted.
func (x *Exam) holes() bool { return x.Records+x.missing.count() != x.Last }

// inHole reports whether a flaw is about a missing record at seq.
func (x *Exam) inHole(seq uint64) bool {
	return slices.ContainsFunc(x.Flaws, func(f Flaw) bool { return f.From <= seq && seq <= f.Through })
}

// nameHoles puts the missing sequences in the place of their count.
func (j *Journal) nameHoles(ctx context.Context, x *Exam) error {
	gone, err := j.holes(ctx, x)
	if err != nil || len(gone) == 0 {
		return err
	}
	x.Flaws = slices.DeleteFunc(x.Flaws, func(f Flaw) bool { return f.Kind == FlawHole })
	for i, r := range gone {
		if i == proof.MaxFindings {
			break
		}
		x.flaw(FlawHole, r.From, r.Through, "%s", missingText(r))
	}
	return nil
}

// holes are the sequences without a record that no operator has accepted.
func (j *Journal) holes(ctx context.Context, x *Exam) (ranges, error) {
	ctx, cancel := withDefault(ctx, giveUpAfter)
	defer cancel()
	st, err := j.js.Stream(ctx, j.stream)
	if err != nil {
		return nil, apiError("check journal", "stream "+j.stream, err)
	}
	info, err := st.Info(ctx, jetstream.WithDeletedDetails(true))
	if err != nil {
		return nil, apiError("check journal", "stream "+j.stream, err)
	}
	var gone ranges
	if first := info.State.FirstSeq; first > 1 {
		gone = append(gone, proof.Range{From: 1, Through: first - 1})
	}
	for _, seq := range info.State.Deleted {
		if n := len(gone); n > 0 && gone[n-1].Through+1 == seq {
			gone[n-1].Through = seq
			continue
		}
		gone = append(gone, proof.Range{From: seq, Through: seq})
	}
	return x.missing.without(gone.with()...), nil
}

// lastLeaf is the leaf of the last record that the checkpoint signed.
func (n newest) lastLeaf() proof.Hash {
	if n.sealed == nil {
		return proof.Hash{}
	}
	entries, err := n.sealed.Entries()
	if err != nil || len(entries) == 0 || entries[len(entries)-1].Subject == "" {
		return proof.Hash{}
	}
	return entries[len(entries)-1].Leaf()
}

// maxLost bounds the subjects in an Exam.
const maxLost = 10000

// lostSubjects reads from the checkpoints which signed records are missing. What
// cannot be read is left out: this is for people.
func (j *Journal) lostSubjects(ctx context.Context, x *Exam) []string {
	if x.proofs == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, giveUpAfter)
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
	l := j.checkpoints()
	for at := x.proofs.State.LastSeq; at > 0 && len(seen) < maxLost && len(gone) > 0; at-- {
		m, err := l.store.getSeq(ctx, at)
		if err != nil {
			continue
		}
		s, err := l.genuine(m)
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
	out := make([]string, 0, len(seen))
	for s := range seen {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// admit examines the journal as it is opened. A replicated stream may seem to
// lack records while its servers elect a leader: that is looked at again.
func (j *Journal) admit(ctx context.Context, want jetstream.StreamConfig) (*Exam, error) {
	const op = "open journal"
	for began := time.Now(); ; {
		info, err := j.infoOf(ctx, j.stream)
		if err == nil && info != nil {
			err = checkStream(op, info.Config, want)
		}
		if err != nil {
			return nil, err
		}
		x, err := j.examine(ctx)
		if err != nil || x.OK || j.inspect {
			return x, err
		}
		if time.Since(began) > x.patience() || !sleep(ctx, time.Second) {
			return nil, x.Error()
		}
	}
}

// patience is how long a journal may seem damaged without being so.
func (x *Exam) patience() time.Duration {
	for _, info := range []*jetstream.StreamInfo{x.stream, x.proofs} {
		if info != nil && info.Config.Replicas > 1 {
			return goneAfter
		}
	}
	return 0
}
