package journal

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/archive"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// Retention selects the finished replies to archive. A reply with an open call, an
// unfinished interrupt, a standing approval in force or a delivery that is due is never archived.
type Retention struct {
	// OlderThan is the minimum time since the last record of a reply.
	OlderThan time.Duration
	// Keep is how many of the newest of these calls stay in the journal.
	Keep int
	// MaxBytes stops the archiving when the journal is not larger than that. 0: no limit.
	MaxBytes uint64
	// By and Reason are signed.
	By, Reason string
	// DryRun means that nothing is written or deleted.
	DryRun bool
	// Progress, if set, is told how far long work is, by one goroutine at a time.
	Progress func(what string, done, all uint64)
}

func (r Retention) reportOn(what string) func(done, all uint64) {
	return func(done, all uint64) {
		if r.Progress != nil {
			r.Progress(what, done, all)
		}
	}
}

// Archiving reports what was archived.
type Archiving struct {
	Archives []string `json:"archives"` // the names of the files
	Replies  int      `json:"replies"`
	Calls    int      `json:"calls"`
	Records  uint64   `json:"records"`
	Bytes    uint64   `json:"bytes"`    // size of these records in the journal
	Stored   int64    `json:"stored"`   // size of the files
	Resumed  uint64   `json:"resumed"`  // records of earlier archives that were deleted now
	LeftOver uint64   `json:"leftover"` // size of the journal afterwards
	// HeldBack are the destinations of webhooks that keep replies in the journal.
	HeldBack []HeldBack `json:"held_back,omitzero"`
	// Removed are files of archives that were interrupted before they were announced.
	// Unknown are other files that no checkpoint announces.
	Removed []string `json:"removed_files,omitzero"`
	Unknown []string `json:"unknown_files,omitzero"`
}

const (
	// archiveRecords and archiveRanges bound an archive: its announcement is one message.
	archiveRecords = 250_000
	archiveRanges  = 8192
	archiveTries   = 3
	// deleters is how many requests delete at the same time if no engine runs. Else there is
	// one, which pauses for deletePause times as long as the last one took.
	deleters    = 8
	deletePause = 3
	// purgeSpan is how many sequences NATS passes in the time of one request.
	purgeSpan = 4096
)

// errMoved: the journal or the ledger changed while an archive was written.
var errMoved = errors.New("the journal changed meanwhile")

// Archive moves finished replies into files: it writes and checks a file, announces it
// in a signed checkpoint, and only then deletes the records. After an interruption the
// next call continues. Engines of the space may be running; see warnEngines.
func (l *Ledger) Archive(ctx context.Context, r Retention) (Archiving, error) {
	return archiver{l, r}.archiveAll(ctx)
}

// archiver is one run of Archive or ResumeArchives.
type archiver struct {
	*Ledger
	r Retention
}

func (l archiver) archiveAll(ctx context.Context) (Archiving, error) {
	out := Archiving{Archives: []string{}}
	if l.j.guard.archives.store == nil {
		return out, &message.Error{Code: message.CodeInvalid, Op: "archive", What: "no folder for archives is configured", Err: errNoStore}
	}
	var err error
	for try := 1; ; try++ {
		err = l.archiveOnce(ctx, &out)
		if !errors.Is(err, errMoved) || try == archiveTries {
			break
		}
	}
	if errors.Is(err, errMoved) {
		err = &message.Error{Code: message.CodeConflict, Op: "archive", What: "the journal changed while the archive was written", Hint: "try again; what was not announced was not deleted", Err: err}
	}
	if err == nil && !l.r.DryRun {
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

func (l archiver) archiveOnce(ctx context.Context, out *Archiving) error {
	if !l.r.DryRun {
		if err := l.awaitArchivers(ctx); err != nil {
			return err
		}
		n, err := l.resumeArchives(ctx) // what another one has announced is not archived twice
		if out.Resumed += n; err != nil {
			return err
		}
	}
	chosen, head, err := l.planArchives(ctx, out)
	if err != nil {
		return err
	}
	for len(chosen) > 0 {
		part := firstPart(chosen)
		chosen = chosen[len(part):]
		if !l.r.DryRun {
			a, err := l.moveToArchive(ctx, head, part)
			if err != nil {
				return err
			}
			out.Archives, out.Stored = append(out.Archives, a.Name), out.Stored+a.File.Bytes+a.Index.Bytes
		}
		for _, x := range part {
			out.Calls, out.Records, out.Bytes = out.Calls+x.calls, out.Records+uint64(len(x.seqs)), out.Bytes+x.bytes
			if x.reply != "" {
				out.Replies++
			}
		}
	}
	return nil
}

// recordSessions records sessions again, as they are, at the end of the journal: their own
// records before go.
func (l archiver) recordSessions(ctx context.Context, sessions []*replyRecords) error {
	if len(sessions) == 0 {
		return nil
	}
	salt, now := newSalt(), time.Now().UTC().Round(0)
	err := eachAtOnce(ctx, deleters, len(sessions), func(ctx context.Context, i int) error {
		seq := sessions[i].lastSequence()
		m, err := l.j.store.getSeq(ctx, seq)
		if err != nil {
			return jsapi.Error("archive", fmt.Sprintf("record %d", seq), err)
		}
		last, err := l.j.voids.decode(ctx, m)
		if err != nil {
			return err
		}
		if last.Record == nil || last.Record.Session == nil {
			return errMoved
		}
		_, err = l.j.Append(ctx, &toolcall.EventRecord{
			V: toolcall.RecordVersion, ID: fmt.Sprintf("archive-%s-%d", salt, seq), At: now, Engine: l.o.Engine,
			By: toolcall.Principal{Role: toolcall.RoleOperator, Name: l.r.By, Auth: "in-process"}, Session: last.Record.Session,
		}, seq)
		if errors.Is(err, message.ErrConflict) {
			return errMoved
		}
		return err
	})
	if err != nil {
		return err
	}
	_, err = l.Checkpoint(ctx)
	return err
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

func (l archiver) moveToArchive(ctx context.Context, head uint64, replies []*replyRecords) (*proof.Archive, error) {
	a, err := l.makeArchive(ctx, head, replies)
	if err != nil {
		return nil, err
	}
	if _, err = l.j.guard.examineWhole(ctx); err == nil { // from here on their ids are refused
		err = l.waitForEngines(ctx)
	}
	if err == nil {
		err = l.checkListed(ctx, a)
	}
	if err != nil {
		return nil, err
	}
	return a, l.deleteRecords(ctx, a.Gone)
}

// checkListed fails if the files of an archive are gone: while this process did not run,
// another one may have removed them as not announced.
func (l archiver) checkListed(ctx context.Context, a *proof.Archive) error {
	all, err := l.j.guard.archives.store.Files(ctx)
	if err == nil && !hasArchive(all, a.Name) {
		err = unfinishedError(&archived{Archive: *a}, a.Records, fs.ErrNotExist)
	}
	return err
}

// hasArchive reports whether both files of an archive are among the files.
func hasArchive(all []StoredFile, name string) bool {
	has := func(end string) bool {
		return slices.ContainsFunc(all, func(f StoredFile) bool { return f.Name == name+end })
	}
	return has(archive.FileSuffix) && has(archive.IndexSuffix)
}

// makeArchive writes, checks and announces an archive, whose ids every engine then refuses.
func (l archiver) makeArchive(ctx context.Context, head uint64, replies []*replyRecords) (*proof.Archive, error) {
	known := l.j.guard.archives.allArchives()
	a := &proof.Archive{Number: uint64(len(known)) + 1, By: l.r.By, Reason: l.r.Reason, Gone: rangesOf(replies)}
	a.Name = fmt.Sprintf("%s-%06d-%s", l.j.space, a.Number, newSalt())
	for _, x := range replies {
		a.Records += uint64(len(x.seqs))
	}
	for _, x := range known { // another archiver was faster
		if ranges(x.Gone).missingFrom(a.Gone...).count() < a.Records {
			return nil, errMoved
		}
	}
	if err := l.writeArchive(ctx, a); err != nil {
		return nil, err
	}
	if err := l.checkArchive(ctx, a); errors.Is(err, fs.ErrNotExist) { // another archiver took it for one that was interrupted
		return nil, errMoved
	} else if err != nil {
		return nil, err
	}
	w, err := l.warnEngines(ctx, a)
	unsure := false
	defer func() {
		if !unsure {
			w.endWarning(ctx)
		}
	}()
	if err != nil {
		return nil, err
	}
	left := &unmoved{after: head, chosen: make(map[[2]bus.Token]bool, len(replies))}
	for _, x := range replies {
		left.chosen[[2]bus.Token{x.session.token, x.reply}] = x.reply != ""
	}
	unsure, err = l.announceArchive(ctx, a, func() error { return errors.Join(w.check(ctx), l.checkUnmoved(ctx, left)) })
	return a, err
}

func newSalt() string {
	var salt [4]byte
	_, _ = rand.Read(salt[:]) // never fails (crypto/rand)
	return hex.EncodeToString(salt[:])
}

// announceArchive signs an archive into the ledger, unless check fails. unsure means that an
// announcement got no answer and may still be stored.
func (l archiver) announceArchive(ctx context.Context, a *proof.Archive, check func() error) (unsure bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	began, sent := time.Now(), uint64(0) // sent is what the announcement without an answer followed
	for {                                // engines sign meanwhile
		if err := l.refreshCheckpoint(ctx); err != nil {
			return unsure, err
		}
		unsure = unsure && l.last.seq == sent // else the ledger refuses it
		last := l.last.checkpoint
		switch {
		case last == nil || last.Archives+1 < a.Number || last.Archives > a.Number:
			return false, errMoved
		case last.Archives == a.Number:
			found, err := l.kept.readArchive(ctx, l.last.lastArchive(), a.Number)
			if err == nil && found.Name != a.Name {
				err = errMoved
			}
			return err != nil && !errors.Is(err, errMoved), err
		}
		hash, err := last.Hash()
		if err == nil {
			err = check()
		}
		if err != nil {
			return unsure, err
		}
		now := time.Now().UTC().Round(0)
		a.Before, a.At = l.last.lastArchive(), now
		c := proof.Checkpoint{
			Space: l.j.space, Number: last.Number + 1, From: last.To + 1, To: last.To, Prev: hash, Losses: last.Losses,
			Archives: a.Number, ArchiveAt: a.Before, Archive: a, At: now, Engine: l.o.Engine,
		}
		sealed, err := proof.Seal(c, nil, l.kept.signing().Signer())
		if err != nil {
			return unsure, err
		}
		if err = l.put(ctx, sealed); err == nil {
			continue
		}
		if _, answered := errors.AsType[*jetstream.APIError](err); answered || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, message.ErrForeignStream) {
			return unsure, err // it is not stored
		}
		unsure, sent = true, l.last.seq
		if time.Since(began) > jsapi.GiveUpAfter || sleep.For(ctx, jsapi.RandomPause(jsapi.FirstPause)) != nil { // else it is sent again: the ledger takes only one
			return unsure, err
		}
	}
}

// LastArchive returns when the last known archive was announced, or the zero time.
func (l *Ledger) LastArchive() time.Time {
	all := l.j.guard.archives.allArchives()
	if len(all) == 0 {
		return time.Time{}
	}
	return all[len(all)-1].At
}

// ResumeArchives makes lost indexes again, and deletes what is left of announced archives, whose
// files it compares with the checkpoints again.
func (l *Ledger) ResumeArchives(ctx context.Context) (uint64, error) {
	return archiver{Ledger: l}.resumeArchives(ctx)
}

func (l archiver) resumeArchives(ctx context.Context) (uint64, error) {
	g := l.j.guard
	_, err := g.examineWhole(ctx)
	if err == nil {
		err = l.rebuildIndexes(ctx)
	}
	if err != nil || !g.pending.Load() {
		return 0, err
	}
	all := g.archives.allArchives()
	holes, err := g.findHoles(ctx, nil)
	if err != nil {
		return 0, err
	}
	if err := l.waitForEngines(ctx); err != nil { // one may have been announced just now
		return 0, err
	}
	n := uint64(0)
	for _, a := range all {
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

// unfinishedError returns why the records of an announced archive cannot be deleted.
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
func (l archiver) removeLeftFiles(ctx context.Context, out *Archiving) error {
	x, err := l.j.guard.examineWhole(ctx)
	if err != nil {
		return err
	}
	files := l.j.guard.archives.store
	all, err := files.Files(ctx)
	if err != nil {
		return err
	}
	announced, lacks := map[string]bool{}, false
	for _, a := range l.j.guard.archives.allArchives() {
		announced[a.Name] = true
		lacks = lacks || !hasArchive(all, a.Name)
	}
	isOurs := regexp.MustCompile("^" + regexp.QuoteMeta(string(l.j.space)) + `-\d{6,}-[0-9a-f]{8}$|^` + partsPrefix)
	left := map[string][]string{}
	for _, f := range all {
		file := f.Name
		name, _, _ := strings.Cut(file, ".")
		switch {
		case lacks && strings.HasPrefix(name, partsPrefix): // they may be of the missing file
		case f.Keep || !isOurs.MatchString(name) || announced[name] && !f.isUnfinished():
		case f.isUnfinished():
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

// isNeeded reports whether an unannounced file may have the only copy of a record.
func (l archiver) isNeeded(ctx context.Context, name string, losses []proof.Loss) bool {
	f, err := l.j.guard.archives.store.Open(ctx, name+archive.FileSuffix)
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }() // it was only read
	signed := signedEntries{l: l.Ledger}
	err = archive.ReadAll(io.NewSectionReader(f, 0, math.MaxInt64), func(r *proof.Record) error {
		if slices.ContainsFunc(losses, func(lost proof.Loss) bool { return lost.Covers(r.Seq) }) {
			return errNone
		}
		return signed.compare(ctx, r)
	})
	return err != nil
}
