package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/archive"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// archives has the archives that the ledger announced. It refuses the ids of archived
// calls and reads their records.
//
// Invariant: an archive is in list before the first of its records is deleted.
type archives struct {
	space toolcall.SpaceID
	store ArchiveStore // nil: none is configured

	loading  sync.Mutex    // one update at a time
	looks    atomic.Uint64 // how many examinations have begun
	mu       sync.RWMutex  // guards all below
	list     []*archived
	warned   []*archived // of warnings
	warning  string      // the current one
	warnedAt time.Time   // when it was first read
	missing  ranges      // sequences of archives and losses
	losses   int         // how many losses missing includes
	within   int         // how many archives missing includes
	settled  int         // how many archives have no record left in the journal
}

// archived is one announced archive.
type archived struct {
	proof.Archive
	index  *archive.Index // nil: unread says why
	unread error
	look   uint64 // of a warning: how many examinations had begun when it was learned

	mu     sync.Mutex // guards all below
	proved bool       // the file was found to have the signed hash
	chunk  archive.Chunk
	last   []proof.Record // of chunk
}

var errNoStore = errors.New("no folder for archives is configured")

// update adds new archives, and reads indexes that could not be read before.
func (a *archives) update(ctx context.Context, k checkpoints, last newest) error {
	a.loading.Lock()
	defer a.loading.Unlock()
	known := a.allArchives()
	var more []*archived
	for n, at := last.archiveCount(), last.lastArchive(); n > uint64(len(known)); n-- {
		found, err := k.readArchive(ctx, at, n)
		if err != nil {
			return err
		}
		more, at = append(more, &archived{Archive: *found, unread: errNoStore}), found.Before
	}
	slices.Reverse(more)
	list := append(slices.Clip(known), more...)
	for i, x := range list {
		if x.index != nil || a.store == nil {
			continue
		}
		if i < len(known) { // others may be reading the old one
			x = &archived{Archive: x.Archive}
			list[i] = x
		}
		x.index, x.unread = a.readIndex(ctx, x)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = list
	return nil
}

// hasAny reports whether an archive was announced, or the store has finished files.
func (a *archives) hasAny(ctx context.Context) (bool, error) {
	if len(a.allArchives()) > 0 || a.store == nil {
		return len(a.allArchives()) > 0, nil
	}
	files, err := a.store.Files(ctx)
	return slices.ContainsFunc(files, func(f StoredFile) bool { return !f.isUnfinished() }), err
}

func (a *archives) allArchives() []*archived {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.Clone(a.list)
}

// missingSequences returns the sequences that may have no record, because of archives or losses.
func (a *archives) missingSequences(losses []proof.Loss) ranges {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.losses != len(losses) || a.within != len(a.list) {
		a.missing = nil
	}
	if a.missing == nil {
		var all []proof.Range
		for _, x := range a.list {
			all = append(all, x.Gone...)
		}
		for _, l := range losses {
			all = append(all, l.Missing...)
		}
		a.missing, a.losses, a.within = ranges(nil).withRanges(all...), len(losses), len(a.list)
	}
	return a.missing
}

// isPending reports whether the journal may still have records of archives.
func (a *archives) isPending() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.settled < len(a.list)
}

func (a *archives) markSettled(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settled = n
}

// readIndex reads the index of an archive and compares it with the signed hash.
func (a *archives) readIndex(ctx context.Context, x *archived) (*archive.Index, error) {
	b, err := a.readAll(ctx, x.Name+archive.IndexSuffix, x.Index)
	if err != nil {
		return nil, err
	}
	return archive.ReadIndex(b, a.space)
}

var errChanged = errors.New("it differs from the signed file")

func (a *archives) readAll(ctx context.Context, name string, want proof.Sum) ([]byte, error) {
	f, err := a.store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.NewSectionReader(f, 0, want.Bytes+1))
	if err == nil && (int64(len(b)) != want.Bytes || sha256.Sum256(b) != want.Hash) {
		err = errChanged
	}
	return b, err
}

// check returns an error if the call or reply was archived.
func (a *archives) check(op func() string, key toolcall.Key) error {
	if key.Reply == "" {
		return nil
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	if len(a.list)+len(a.warned) == 0 {
		return nil
	}
	reply, err := bus.EntityOf(key.ReplyKey())
	if err != nil {
		return err
	}
	hash := archive.HashOf(string(reply))
	var unread *archived
	for _, x := range append(slices.Clip(a.list), a.warned...) {
		switch {
		case x.index == nil:
			unread = x
		case x.index.Has(hash):
			return &message.Error{Code: message.CodeArchived, Op: op(), What: fmt.Sprintf("the reply of %s was archived on %s", errtext.Quote(key.String()), x.At.UTC().Format("2006-01-02")),
				Hint: "read it with askance show SESSION/REPLY/CALL, and give new calls a new reply id"}
		}
	}
	if unread != nil {
		return a.unreadError(op(), unread)
	}
	return nil
}

func (a *archives) unreadError(op string, x *archived) error {
	if x.Number == 0 { // of a warning
		return &message.Error{Code: message.CodeUnavailable, Op: op, What: "an archive is being made whose index is not readable, so it is not known whether it includes the call", Hint: "wait until it is made; if its archiver was killed, run askance journal archive", Err: x.unread}
	}
	return &message.Error{Code: message.CodeUnavailable, Op: op, What: fmt.Sprintf("the index %s of archive %d is not readable, so it is not known which calls were archived, and new ones are refused", x.Name+archive.IndexSuffix, x.Number),
		Hint: "put that file back into the folder of archives, or run askance journal archive, which makes it again from " + x.Name + archive.FileSuffix, Err: x.unread}
}

// checkReadable returns an error if an archive makes [archives.check] refuse every new call.
func (a *archives) checkReadable(op string) error {
	for _, x := range a.allArchives() {
		if x.index == nil {
			return a.unreadError(op, x)
		}
	}
	return nil
}

// recordsOf reads the archived records of an entity, oldest first.
func (a *archives) recordsOf(ctx context.Context, entity string) ([]stored, error) {
	var out []stored
	hash := archive.HashOf(entity)
	for _, x := range a.allArchives() {
		if x.index == nil {
			return nil, a.unreadError(opReadArchive, x)
		}
		for _, c := range x.index.Of(hash) {
			records, err := a.readChunk(ctx, x, c)
			if isAbsent(err) {
				return nil, &message.Error{Code: message.CodeNotFound, Op: opReadArchive, What: "the records are in the archive " + x.Name + ", whose file is missing", Hint: "put the file back into the folder of archives", Err: err}
			}
			if err != nil {
				return nil, err
			}
			for _, r := range records {
				if bus.EntityIn(r.Subject) == entity {
					out = append(out, storedRecord(r))
				}
			}
		}
	}
	slices.SortFunc(out, bySeq)
	return out, nil
}

func bySeq(a, b stored) int { return cmp.Compare(a.seq, b.seq) }

func storedRecord(r proof.Record) stored {
	return stored{subject: r.Subject, seq: r.Seq, time: r.Time, header: nats.Header(r.Header), data: r.Body()}
}

// get reads one archived record. It returns errNone if no readable archive has the record.
func (a *archives) get(ctx context.Context, seq uint64) (stored, error) {
	found, err := a.recordsBetween(ctx, seq-1, seq, 1)
	if err == nil && len(found) == 0 {
		err = errNone
	}
	if err != nil {
		return stored{}, err
	}
	return found[0], nil
}

// recordsBetween reads up to limit archived records after a sequence and up to another, in
// order. It skips archives whose files are missing.
func (a *archives) recordsBetween(ctx context.Context, after, through uint64, limit int) ([]stored, error) {
	var out []stored
	for _, x := range a.allArchives() {
		if n := len(x.Gone); x.Gone[0].From > through || x.Gone[n-1].Through <= after || isAbsent(x.unread) {
			continue
		}
		if x.index == nil {
			return nil, a.unreadError(opReadArchive, x)
		}
		n := 0
		for i := x.index.From(after + 1); i < len(x.index.Chunks) && n < limit && x.index.Chunks[i].First <= through; i++ {
			records, err := a.readChunk(ctx, x, x.index.Chunks[i])
			if isAbsent(err) {
				break
			}
			if err != nil {
				return nil, err
			}
			for _, r := range records {
				if r.Seq > after && r.Seq <= through && n < limit {
					out = append(out, storedRecord(r))
					n++
				}
			}
		}
	}
	slices.SortFunc(out, bySeq)
	return out[:min(len(out), limit)], nil
}

// isAbsent reports whether an archive cannot be read because its file is stored elsewhere.
func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoStore) }

// readChunk reads some records of an archive. It first compares the file with the signed
// hash.
func (a *archives) readChunk(ctx context.Context, x *archived, c archive.Chunk) ([]proof.Record, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.last != nil && x.chunk == c {
		return x.last, nil
	}
	f, err := a.store.Open(ctx, x.Name+archive.FileSuffix)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if !x.proved {
		if err := checkSum(f, x.File); err != nil {
			return nil, &message.Error{Code: message.CodeDamaged, Op: opReadArchive, What: "the file " + x.Name + archive.FileSuffix + " differs from what was signed", Hint: "put the original file back; without it, its records can still be proved but not shown", Err: err}
		}
		x.proved = true
	}
	records, err := c.Read(f)
	if err != nil {
		return nil, err
	}
	x.chunk, x.last = c, records
	return records, nil
}

func checkSum(f io.ReaderAt, want proof.Sum) error {
	sum := sha256.New()
	n, err := io.Copy(sum, io.NewSectionReader(f, 0, want.Bytes+1))
	if err == nil && (n != want.Bytes || proof.Hash(sum.Sum(nil)) != want.Hash) {
		err = errChanged
	}
	return err
}

// merge adds archived records to the records that the journal has after a sequence, in order.
// Both are complete up to through.
func (a *archives) merge(ctx context.Context, entity bus.Entity, found []stored, after, through uint64, limit int) ([]stored, uint64, error) {
	var more []stored
	var err error
	switch {
	case entity != "" && !a.hasMore(found):
	case entity != "":
		more, err = a.recordsOf(ctx, string(entity))
		more = slices.DeleteFunc(more, func(m stored) bool { return m.seq <= after || m.seq > through })
	default:
		more, err = a.recordsBetween(ctx, after, through, limit)
	}
	if err != nil || len(more) == 0 {
		return found, through, err
	}
	if entity == "" && len(more) == limit {
		through = more[limit-1].seq
	}
	all := append(slices.Clone(found), more...)
	slices.SortStableFunc(all, bySeq)
	all = slices.CompactFunc(all, func(a, b stored) bool { return a.seq == b.seq }) // keeps the journal's own record
	all = slices.DeleteFunc(all, func(m stored) bool { return m.seq > through })
	if len(all) > limit {
		all = all[:limit]
		through = all[limit-1].seq
	}
	return all, through, nil
}

func (a *archives) has(seq uint64) bool {
	return slices.ContainsFunc(a.allArchives(), func(x *archived) bool { return ranges(x.Gone).has(seq, seq) })
}

// isLeftOver reports whether the record at seq was archived but is still in the journal.
//
// Invariant: such a record never counts as its entity's state: later ones may be deleted.
func (a *archives) isLeftOver(seq uint64) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.settled >= len(a.list) {
		return false
	}
	return slices.ContainsFunc(a.list, func(x *archived) bool { return ranges(x.Gone).has(seq, seq) })
}

// hasMore reports whether an entity may have archived records in addition to those found.
func (a *archives) hasMore(found []stored) bool {
	if len(found) == 0 || a.isLeftOver(found[0].seq) {
		return true
	}
	_, prev, _ := basisOf(found[0])
	return prev > 0 || a.beginsAgain(found[0])
}

// firstSequence returns the first archived sequence, or 0.
func (a *archives) firstSequence() uint64 {
	a.mu.RLock()
	defer a.mu.RUnlock()
	out := uint64(0)
	for _, x := range a.list {
		if out == 0 || x.Gone[0].From < out {
			out = x.Gone[0].From
		}
	}
	return out
}
