package bus

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus/internal/archive"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// Retention says which finished replies go into archives. A reply that has an open call,
// an unfinished interrupt or a standing approval in force never does.
type Retention struct {
	// OlderThan is how long nothing was recorded of a reply.
	OlderThan time.Duration
	// Keep is how many of these calls stay in the journal, the newest.
	Keep int
	// MaxBytes ends the archiving when the journal is at most so large. 0: it goes on.
	MaxBytes uint64
	// By and Reason are signed.
	By, Reason string
	// DryRun: nothing is written or deleted.
	DryRun bool
}

// Archiving is what was archived.
type Archiving struct {
	Archives []string `json:"archives"` // the names of the files
	Replies  int      `json:"replies"`
	Calls    int      `json:"calls"`
	Records  uint64   `json:"records"`
	Bytes    uint64   `json:"bytes"`    // that the journal had of them
	Stored   int64    `json:"stored"`   // bytes of the files
	Resumed  uint64   `json:"resumed"`  // records of earlier archives that were deleted now
	LeftOver uint64   `json:"leftover"` // bytes of the journal afterwards
	// Removed are files of archives that were interrupted before they were announced.
	// Unknown are others that no checkpoint announces.
	Removed []string `json:"removed_files,omitzero"`
	Unknown []string `json:"unknown_files,omitzero"`
}

const (
	// archiveRecords and archiveRanges bound an archive: its announcement is one message.
	archiveRecords = 250_000
	archiveRanges  = 8192
	deleters       = 32
	archiveTries   = 3
)

// errMoved: the journal or the ledger changed while an archive was written.
var errMoved = errors.New("the journal changed meanwhile")

// Archive moves finished replies into files: it writes and checks a file, announces it
// in a signed checkpoint, and only then deletes the records. After an interruption the
// next call continues. No other process may use the server meanwhile.
func (l *Ledger) Archive(ctx context.Context, r Retention) (Archiving, error) {
	out := Archiving{Archives: []string{}}
	if l.j.guard.archives.store == nil {
		return out, &message.Error{Code: message.CodeInvalid, Op: "archive", What: "no folder for archives is configured", Err: errNoStore}
	}
	var err error
	if !r.DryRun {
		if out.Resumed, err = l.ResumeArchives(ctx); err != nil {
			return out, err
		}
	}
	for try := 1; ; try++ {
		err = l.archiveOnce(ctx, r, &out)
		if !errors.Is(err, errMoved) || try == archiveTries {
			break
		}
	}
	if errors.Is(err, errMoved) {
		err = &message.Error{Code: message.CodeConflict, Op: "archive", What: "the journal changed while the archive was written", Hint: "try again; nothing was deleted", Err: err}
	}
	if err == nil && !r.DryRun {
		err = l.removeLeftFiles(ctx, &out)
	}
	if err == nil {
		var state jetstream.StreamState
		if state, err = l.j.streamState(ctx); err == nil {
			out.LeftOver = state.Bytes
		}
	}
	return out, err
}

func (l *Ledger) archiveOnce(ctx context.Context, r Retention, out *Archiving) error {
	if !r.DryRun {
		if _, err := l.Checkpoint(ctx); err != nil {
			return err
		}
	}
	s, err := l.scanReplies(ctx)
	if err != nil {
		return err
	}
	if r.DryRun { // the rest would be signed first
		s.head = s.end
	}
	chosen := s.chooseReplies(r, time.Now())
	for len(chosen) > 0 {
		part := firstPart(chosen)
		chosen = chosen[len(part):]
		if !r.DryRun {
			a, err := l.moveToArchive(ctx, s, part, r)
			if err != nil {
				return err
			}
			out.Archives, out.Stored = append(out.Archives, a.Name), out.Stored+a.File.Bytes+a.Index.Bytes
		}
		for _, x := range part {
			out.Replies, out.Calls, out.Records, out.Bytes = out.Replies+1, out.Calls+len(x.calls), out.Records+uint64(len(x.seqs)), out.Bytes+x.bytes
		}
	}
	return nil
}

// firstPart is as many of the replies as one archive can have.
func firstPart(chosen []*replyRecords) []*replyRecords {
	records := 0
	for i, x := range chosen {
		if records += len(x.seqs); records > archiveRecords && i > 0 {
			chosen = chosen[:i]
			break
		}
	}
	for len(chosen) > 1 && len(rangesOf(chosen)) > archiveRanges {
		chosen = chosen[:len(chosen)/2]
	}
	return chosen
}

// replyRecords is what the journal has of a reply.
type replyRecords struct {
	entity  Entity
	seqs    []uint64 // in order
	bytes   uint64
	last    time.Time
	calls   map[Token]bool // whether each is open
	phase   toolcall.ReplyPhase
	granted []toolcall.StandingID
	keep    bool // something of it cannot be read, or something open refers to it
}

// replyScan is what the journal has of all replies.
type replyScan struct {
	head    uint64 // what is behind is not signed
	end     uint64
	bytes   uint64 // of the journal
	replies map[[2]Token]*replyRecords
	parents map[[2]Token]map[toolcall.Key]bool // open calls that were made within a call of the reply
	granted map[toolcall.StandingID]toolcall.StandingApproval
}

// scanReplies reads the whole journal up to its last signed record.
func (l *Ledger) scanReplies(ctx context.Context) (*replyScan, error) {
	state, err := l.j.streamState(ctx)
	if err != nil {
		return nil, err
	}
	last, err := l.kept.readNewest(ctx)
	if err != nil {
		return nil, err
	}
	s := &replyScan{
		head: last.lastSequence(), end: state.LastSeq, bytes: state.Bytes, replies: map[[2]Token]*replyRecords{},
		parents: map[[2]Token]map[toolcall.Key]bool{}, granted: map[toolcall.StandingID]toolcall.StandingApproval{},
	}
	in := l.j.voids.newOrder(0)
	err = l.j.store.visitRecords(ctx, "archive", 0, state.LastSeq, func(m stored) error {
		r, err := in.decode(ctx, m)
		if err == nil {
			s.noteRecord(l.j.space, m, r)
		}
		return err
	})
	return s, err
}

// visitRecords reads what the stream has behind after and up to through.
func (rd reader) visitRecords(ctx context.Context, op string, after, through uint64, visit func(stored) error) error {
	for after < through {
		found, seen, err := rd.readPage(ctx, ">", after, maxPage)
		if err != nil {
			return apiError(op, "read the journal", err)
		}
		for _, m := range found {
			if m.seq > through {
				return nil
			}
			if err := visit(m); err != nil {
				return err
			}
		}
		after = seen
	}
	return nil
}

// replyIn is the reply that a message belongs to.
func replyIn(subject string) (s Subject, reply [2]Token, ok bool) {
	s, err := ParseSubject(subject)
	if err != nil {
		return s, reply, false
	}
	switch s.Kind {
	case KindEvent, KindRecord, KindWork, KindReplyRecord:
		return s, [2]Token{s.Session, s.Reply}, s.Reply != ""
	}
	return s, reply, false
}

// ownToken copies a token out of the headers of a message, which would stay in memory.
func ownToken(t Token) Token { return Token(strings.Clone(string(t))) }

func (s *replyScan) noteRecord(space toolcall.SpaceID, m stored, r toolcall.JournalEntry) {
	if f := r.Record; f != nil && f.Standing != nil {
		s.granted[f.Standing.ID] = *f.Standing
	}
	subject, reply, ok := replyIn(m.subject)
	if !ok {
		return
	}
	x := s.replies[reply]
	if x == nil {
		reply = [2]Token{ownToken(reply[0]), ownToken(reply[1])}
		x = &replyRecords{entity: Subject{Space: space, Kind: KindReplyRecord, Session: subject.Session, Reply: subject.Reply}.entity(), calls: map[Token]bool{}}
		s.replies[reply] = x
	}
	x.seqs, x.bytes = append(x.seqs, m.seq), x.bytes+uint64(len(m.data)+len(m.subject))
	if m.time.After(x.last) {
		x.last = m.time
	}
	switch f := r.Record; {
	case subject.Kind == KindEvent && r.Invalid == nil:
	case f == nil:
		x.keep = true
	case f.Reply != nil:
		x.phase = f.Reply.Phase
	case f.Call != nil:
		if _, known := x.calls[subject.Call]; !known {
			subject.Call = ownToken(subject.Call)
		}
		x.calls[subject.Call] = f.Call.Open()
		for _, g := range f.Call.Granted() {
			if _, known := s.granted[g.ID]; !known {
				s.granted[g.ID] = g
			}
			x.granted = append(x.granted, g.ID)
		}
		if p := f.Call.Parent; p != nil {
			at := [2]Token{Encode(string(p.Session)), Encode(string(p.Reply))}
			if s.parents[at] == nil {
				s.parents[at] = map[toolcall.Key]bool{}
			}
			if delete(s.parents[at], f.Call.Key); f.Call.Open() {
				s.parents[at][f.Call.Key] = true
			}
		}
	}
}

// isOver reports whether nothing can happen in a reply any more without a new record.
func (s *replyScan) isOver(reply [2]Token, x *replyRecords, now time.Time) bool {
	if x.keep || x.phase == toolcall.ReplyInterrupted || len(s.parents[reply]) > 0 || x.seqs[len(x.seqs)-1] >= s.head {
		return false // the last record stays: it shows that the journal is this one
	}
	for _, open := range x.calls {
		if open {
			return false
		}
	}
	return !slices.ContainsFunc(x.granted, func(id toolcall.StandingID) bool {
		l := s.granted[id]
		state := l.State(now)
		return state != toolcall.StandingRevoked && state != toolcall.StandingExpired
	})
}

// chooseReplies returns the replies to archive, the oldest first.
func (s *replyScan) chooseReplies(r Retention, now time.Time) []*replyRecords {
	var out []*replyRecords
	calls := 0
	for reply, x := range s.replies {
		if now.Sub(x.last) >= r.OlderThan && s.isOver(reply, x, now) {
			out = append(out, x)
			calls += len(x.calls)
		}
	}
	slices.SortFunc(out, func(a, b *replyRecords) int { return cmp.Compare(a.seqs[len(a.seqs)-1], b.seqs[len(b.seqs)-1]) })
	left := s.bytes
	for i, x := range out {
		if calls -= len(x.calls); calls < r.Keep || r.MaxBytes > 0 && left <= r.MaxBytes {
			return out[:i]
		}
		left -= min(left, x.bytes)
	}
	return out
}

func rangesOf(replies []*replyRecords) []proof.Range {
	var seqs []uint64
	for _, x := range replies {
		seqs = append(seqs, x.seqs...)
	}
	slices.Sort(seqs)
	var out []proof.Range
	for _, seq := range seqs {
		if n := len(out); n > 0 && out[n-1].Through+1 == seq {
			out[n-1].Through = seq
			continue
		}
		out = append(out, proof.Range{From: seq, Through: seq})
	}
	return out
}

// moveToArchive takes replies from the journal into one archive.
func (l *Ledger) moveToArchive(ctx context.Context, s *replyScan, replies []*replyRecords, r Retention) (*proof.Archive, error) {
	a, err := l.makeArchive(ctx, s, replies, r)
	if err != nil {
		return nil, err
	}
	x, err := l.j.guard.examineJournal(ctx) // from here on their ids are refused
	if err == nil {
		err = x.Error()
	}
	if err != nil {
		return nil, err
	}
	return a, l.deleteRecords(ctx, a.Gone)
}

// makeArchive writes, checks and announces an archive.
func (l *Ledger) makeArchive(ctx context.Context, s *replyScan, replies []*replyRecords, r Retention) (*proof.Archive, error) {
	known := l.j.guard.archives.allArchives()
	a := &proof.Archive{Number: uint64(len(known)) + 1, By: r.By, Reason: r.Reason, Gone: rangesOf(replies)}
	var salt [4]byte
	_, _ = rand.Read(salt[:]) // never fails (crypto/rand)
	a.Name = fmt.Sprintf("%s-%06d-%s", l.j.space, a.Number, hex.EncodeToString(salt[:]))
	for _, x := range replies {
		a.Records += uint64(len(x.seqs))
	}
	if err := l.writeArchive(ctx, a); err != nil {
		return nil, err
	}
	if err := l.checkArchive(ctx, a); err != nil {
		return nil, err
	}
	if err := l.checkUnmoved(ctx, s.head, replies); err != nil {
		return nil, err
	}
	return a, l.announceArchive(ctx, a)
}

// summed writes on and adds up what was written.
type summed struct {
	w   io.Writer
	sum hash.Hash
	n   int64
}

func (s *summed) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.sum.Write(b[:n])
	s.n += int64(n)
	return n, err
}

func (s *summed) result() proof.Sum {
	return proof.Sum{Bytes: s.n, Hash: proof.Hash(s.sum.Sum(nil))}
}

// writeArchive writes the files of an archive. Each record is compared with its
// checkpoint.
func (l *Ledger) writeArchive(ctx context.Context, a *proof.Archive) error {
	files := l.j.guard.archives.store
	signed := signedEntries{l: l}
	var w *archive.Writer
	err := files.Put(ctx, a.Name+archive.FileSuffix, func(out io.Writer) (err error) {
		sum := &summed{w: out, sum: sha256.New()}
		if w, err = archive.NewWriter(sum, l.j.space); err != nil {
			return err
		}
		err = l.eachOf(ctx, a.Gone, func(m stored) error {
			r := proof.Record{Seq: m.seq, Time: m.time, Subject: m.subject, Header: provedHeader(m.header)}
			r.SetBody(m.data)
			if err := signed.compare(ctx, &r); err != nil {
				return err
			}
			return w.Add(&r, hashesOf(l.j.space, m.subject)...)
		})
		err = errors.Join(err, w.Close())
		a.File = sum.result()
		return err
	})
	if err != nil {
		return err
	}
	var index bytes.Buffer
	sum := &summed{w: &index, sum: sha256.New()}
	if err := w.WriteIndex(sum); err != nil {
		return err
	}
	a.Index = sum.result()
	return files.Put(ctx, a.Name+archive.IndexSuffix, func(out io.Writer) error {
		_, err := out.Write(index.Bytes())
		return err
	})
}

// hashesOf are what a record is found by in the index: its reply, and its own entity.
func hashesOf(space toolcall.SpaceID, subject string) []uint64 {
	s, reply, ok := replyIn(subject)
	if !ok {
		return nil
	}
	whole := Subject{Space: space, Kind: KindReplyRecord, Session: reply[0], Reply: reply[1]}.entity()
	out := []uint64{archive.HashOf(string(whole))}
	if s.isRecord() && s.entity() != whole {
		out = append(out, archive.HashOf(string(s.entity())))
	}
	return out
}

// eachOf reads exactly the records of some ranges, in order.
func (l *Ledger) eachOf(ctx context.Context, gone []proof.Range, visit func(stored) error) error {
	next := gone[0].From
	for len(gone) > 0 {
		found, _, err := l.j.store.readPage(ctx, ">", next-1, maxPage)
		if err != nil {
			return apiError("archive", "read the journal", err)
		}
		began := next
		for _, m := range found {
			for len(gone) > 0 && gone[0].Through < next {
				gone = gone[1:]
			}
			if len(gone) == 0 {
				return nil
			}
			next = max(next, gone[0].From)
			if m.seq < next {
				continue
			}
			if m.seq != next {
				return errMoved
			}
			if err := visit(m); err != nil {
				return err
			}
			next++
		}
		if next == began {
			return errMoved
		}
		for len(gone) > 0 && gone[0].Through < next {
			gone = gone[1:]
		}
		if len(gone) > 0 {
			next = max(next, gone[0].From)
		}
	}
	return nil
}

// signedEntries compares records with the checkpoints that sign them.
type signedEntries struct {
	l       *Ledger
	sealed  *proof.Sealed
	entries []proof.Entry
}

func (s *signedEntries) compare(ctx context.Context, r *proof.Record) error {
	if s.sealed == nil || !s.sealed.Checkpoint.Covers(r.Seq) {
		found, err := Covering(ctx, s.l, []uint64{r.Seq})
		if err != nil {
			return err
		}
		s.sealed = nil
		if len(found) == 1 && found[0].Checkpoint.Verify(s.l.kept.signing().VerificationKeys()) == nil {
			s.sealed = &found[0]
			if s.entries, err = s.sealed.Entries(); err != nil {
				return err
			}
		}
	}
	if s.sealed == nil || s.entries[r.Seq-s.sealed.Checkpoint.From].Leaf() != r.Leaf() {
		return &message.Error{Code: message.CodeDamaged, Op: "archive", What: fmt.Sprintf("record %d is not the signed one", r.Seq), Hint: "look with askance audit verify; nothing was deleted"}
	}
	return nil
}

// checkArchive reads the files of an archive again and compares every record with its
// checkpoint.
func (l *Ledger) checkArchive(ctx context.Context, a *proof.Archive) error {
	x := &archived{Archive: *a}
	files := l.j.guard.archives
	var err error
	if x.index, err = files.readIndex(ctx, x); err != nil {
		return err
	}
	signed := signedEntries{l: l}
	gone, next := a.Gone, a.Gone[0].From
	for _, c := range x.index.Chunks {
		records, err := files.readChunk(ctx, x, c)
		if err != nil {
			return err
		}
		for i := range records {
			if len(gone) == 0 || records[i].Seq != next {
				return errMisread
			}
			if err := signed.compare(ctx, &records[i]); err != nil {
				return err
			}
			for _, h := range hashesOf(l.j.space, records[i].Subject) {
				if !x.index.Has(h) {
					return errMisread
				}
			}
			if next++; next > gone[0].Through {
				if gone = gone[1:]; len(gone) > 0 {
					next = gone[0].From
				}
			}
		}
	}
	if len(gone) > 0 {
		return errMisread
	}
	return nil
}

var errMisread = &message.Error{Code: message.CodeInternal, Op: "archive", What: "the written file does not have the records of the archive", Hint: "check the disk; nothing was deleted"}

// checkUnmoved fails if something was recorded of the replies behind a sequence.
func (l *Ledger) checkUnmoved(ctx context.Context, after uint64, replies []*replyRecords) error {
	state, err := l.j.streamState(ctx)
	if err != nil {
		return err
	}
	chosen := make(map[Entity]bool, len(replies))
	for _, x := range replies {
		chosen[x.entity] = true
	}
	return l.j.store.visitRecords(ctx, "archive", after, state.LastSeq, func(m stored) error {
		_, reply, ok := replyIn(m.subject)
		if ok && chosen[Subject{Space: l.j.space, Kind: KindReplyRecord, Session: reply[0], Reply: reply[1]}.entity()] {
			return errMoved
		}
		return nil
	})
}

// announceArchive signs an archive into the ledger.
func (l *Ledger) announceArchive(ctx context.Context, a *proof.Archive) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refreshCheckpoint(ctx); err != nil {
		return err
	}
	last := l.last.checkpoint
	if last == nil || last.Archives+1 != a.Number {
		return errMoved
	}
	hash, err := last.Hash()
	if err != nil {
		return err
	}
	now := time.Now().UTC().Round(0)
	if a.Before = l.last.lastArchive(); a.At.IsZero() {
		a.At = now
	}
	c := proof.Checkpoint{
		Space: l.j.space, Number: last.Number + 1, From: last.To + 1, To: last.To, Prev: hash, Losses: last.Losses,
		Archives: a.Number, ArchiveAt: a.Before, Archive: a, At: now, Engine: l.o.Engine,
	}
	sealed, err := proof.Seal(c, nil, l.kept.signing().Signer())
	if err != nil {
		return err
	}
	if err := l.put(ctx, sealed); err != nil {
		return err
	}
	if err := l.refreshCheckpoint(ctx); err != nil {
		return err
	}
	if now := l.last.checkpoint; now.Archives < a.Number || now.Archives == a.Number && (now.Archive == nil || now.Archive.Name != a.Name) {
		return errMoved
	}
	return nil
}

// deleteRecords deletes exactly these sequences. They are announced, and their ids are
// refused.
func (l *Ledger) deleteRecords(ctx context.Context, gone []proof.Range) error {
	st, err := l.j.store.lookUpStream(ctx)
	if err != nil {
		return apiError("archive", "stream "+l.j.store.stream, err)
	}
	if first := st.CachedInfo().State.FirstSeq; len(gone) > 0 && gone[0].Has(first) {
		if err := st.Purge(ctx, jetstream.WithPurgeSequence(gone[0].Through+1)); err != nil {
			return apiError("archive", "delete archived records", err)
		}
		gone = gone[1:]
	}
	var seqs []uint64
	for _, r := range gone {
		for seq := r.From; seq <= r.Through; seq++ {
			seqs = append(seqs, seq)
		}
	}
	return eachAtOnce(ctx, deleters, len(seqs), func(ctx context.Context, i int) error { return l.deleteRecord(ctx, st, seqs[i]) })
}

func (l *Ledger) deleteRecord(ctx context.Context, st jetstream.Stream, seq uint64) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := withDefault(ctx, giveUpAfter)
	defer cancel()
	err := st.DeleteMsg(ctx, seq)
	if err == nil {
		return nil
	}
	if _, gone := l.j.store.getSeq(ctx, seq); errors.Is(gone, errNone) {
		return nil
	}
	return apiError("archive", fmt.Sprintf("delete record %d", seq), err)
}

// ResumeArchives deletes what is left of announced archives, whose files it compares with
// the checkpoints again.
func (l *Ledger) ResumeArchives(ctx context.Context) (uint64, error) {
	g := l.j.guard
	x, err := g.examineJournal(ctx)
	if err != nil {
		return 0, err
	}
	if err := x.Error(); err != nil || !g.pending.Load() {
		return 0, err
	}
	holes, err := g.findHoles(ctx, &Exam{})
	if err != nil {
		return 0, err
	}
	n := uint64(0)
	for _, a := range g.archives.allArchives() {
		left := holes.missingFrom(a.Gone...)
		if len(left) == 0 {
			continue
		}
		if err := l.checkArchive(ctx, &a.Archive); err != nil {
			return n, unfinishedError(a, left.count(), err)
		}
		if err := l.deleteRecords(ctx, left); err != nil {
			return n, err
		}
		n += left.count()
	}
	_, err = g.examineJournal(ctx)
	return n, err
}

// unfinishedError says why the deletion of an announced archive does not go on.
func unfinishedError(a *archived, left uint64, err error) error {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errChanged) {
		return err
	}
	code, why := message.CodeDamaged, "differ from what was signed"
	if errors.Is(err, fs.ErrNotExist) {
		code, why = message.CodeNotFound, "are missing"
	}
	return &message.Error{Code: code, Op: "archive", What: fmt.Sprintf("files of the archive %s %s, and %d of its records are still in the journal", a.Name, why, left),
		Hint: fmt.Sprintf("put %s%s and %s%s back into the folder of archives and run askance journal archive again; without them nothing is deleted, and the journal stays as it is", a.Name, archive.FileSuffix, a.Name, archive.IndexSuffix), Err: err}
}

// removeLeftFiles removes the files of archives that were interrupted before a checkpoint
// announced them, if checkpoints sign all of their records and none is lost.
func (l *Ledger) removeLeftFiles(ctx context.Context, out *Archiving) error {
	x, err := l.j.guard.examineJournal(ctx)
	if err == nil {
		err = x.Error()
	}
	if err != nil {
		return err
	}
	files := l.j.guard.archives.store
	all, err := files.Files(ctx)
	if err != nil {
		return err
	}
	announced := map[string]bool{}
	for _, a := range l.j.guard.archives.allArchives() {
		announced[a.Name] = true
	}
	isOurs := regexp.MustCompile("^" + regexp.QuoteMeta(string(l.j.space)) + `-\d{6,}-[0-9a-f]{8}$`)
	left := map[string][]string{}
	for _, file := range all {
		name, end, _ := strings.Cut(file, ".")
		switch {
		case !isOurs.MatchString(name) || announced[name] && !strings.HasSuffix(end, secretfile.Unfinished):
		case strings.HasSuffix(end, secretfile.Unfinished):
			left[file] = []string{file}
		default:
			left[name] = append(left[name], file)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if !strings.HasSuffix(name, secretfile.Unfinished) && l.isNeeded(ctx, name, x.Losses) {
			out.Unknown = append(out.Unknown, left[name]...)
			continue
		}
		for _, file := range left[name] {
			if err := files.Remove(ctx, file); err != nil {
				return err
			}
			out.Removed = append(out.Removed, file)
		}
	}
	return nil
}

// isNeeded reports whether an unannounced file may have a record that is nowhere else.
func (l *Ledger) isNeeded(ctx context.Context, name string, losses []proof.Loss) bool {
	f, err := l.j.guard.archives.store.Open(ctx, name+archive.FileSuffix)
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }() // it was only read
	signed := signedEntries{l: l}
	err = archive.ReadAll(io.NewSectionReader(f, 0, math.MaxInt64), func(r *proof.Record) error {
		for _, lost := range losses {
			if lost.Covers(r.Seq) {
				return errNone
			}
		}
		return signed.compare(ctx, r)
	})
	return err != nil
}
