package journal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/archive"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// summed is a writer that also computes the hash and the size of its input.
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
func (l archiver) writeArchive(ctx context.Context, a *proof.Archive) error {
	progress, n := l.r.reportOn(fmt.Sprintf("write archive %d", a.Number)), uint64(0)
	files := l.j.guard.archives.store
	signed := signedEntries{l: l.Ledger}
	var w *archive.Writer
	err := files.Put(ctx, a.Name+archive.FileSuffix, func(out io.Writer) (err error) {
		n = 0
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
			n++
			progress(n, a.Records)
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
	switch {
	case s.Kind == bus.KindSessionRecord:
		return []uint64{archive.HashOf(string(s.Entity()))}
	case !ok:
		return nil
	}
	whole := bus.Subject{Space: space, Kind: bus.KindReplyRecord, Session: reply[0], Reply: reply[1]}.Entity()
	out := []uint64{archive.HashOf(string(whole))}
	if s.IsRecord() && s.Entity() != whole {
		out = append(out, archive.HashOf(string(s.Entity())))
	}
	return out
}

// rebuildIndexes makes lost indexes again, each from the signed file with its records.
func (l archiver) rebuildIndexes(ctx context.Context) error {
	files := l.j.guard.archives.store
	for _, x := range l.j.guard.archives.allArchives() {
		if files == nil || !errors.Is(x.unread, fs.ErrNotExist) && !errors.Is(x.unread, errChanged) {
			continue
		}
		index, err := l.rebuildIndex(ctx, files, x)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errChanged) {
			continue // what needs the index says so
		}
		if err == nil {
			err = files.Put(ctx, x.Name+archive.IndexSuffix, func(out io.Writer) error {
				_, err := out.Write(index)
				return err
			})
		}
		if err == nil {
			_, err = l.j.guard.examineWhole(ctx) // reads it
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l archiver) rebuildIndex(ctx context.Context, files ArchiveStore, x *archived) ([]byte, error) {
	f, err := files.Open(ctx, x.Name+archive.FileSuffix)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if err := checkSum(f, x.File); err != nil {
		return nil, err
	}
	var index bytes.Buffer
	sum := &summed{w: &index, sum: sha256.New()}
	err = archive.RebuildIndex(sum, f, x.File.Bytes, l.j.space, func(subject string) []uint64 { return hashesOf(l.j.space, subject) })
	if err == nil && sum.result() != x.Index {
		err = errChanged
	}
	return index.Bytes(), err
}

// eachOf visits exactly the records of some ranges, in order.
func (l archiver) eachOf(ctx context.Context, gone ranges, visit func(stored) error) error {
	following, stop := iter.Pull(gone.eachSequence())
	defer stop()
	for next, more := following(); more; {
		found, _, err := l.j.store.readPage(ctx, ">", next-1, maxPage)
		if err != nil {
			return jsapi.Error("archive", "read the journal", err)
		}
		began := next
		for _, m := range found {
			switch {
			case !more || m.seq < next: // it stays
				continue
			case m.seq > next:
				return errMoved
			}
			if err := visit(m); err != nil {
				return err
			}
			next, more = following()
		}
		if next == began {
			return errMoved
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
	if s.sealed == nil || !s.entries[r.Seq-s.sealed.Checkpoint.From].Signs(r.Subject, r.Content()) {
		return &message.Error{Code: message.CodeDamaged, Op: "archive", What: fmt.Sprintf("record %d is not the signed one", r.Seq), Hint: "look with askance audit verify; nothing was deleted"}
	}
	return nil
}

// checkArchive reads the files of an archive again and compares every record with its
// checkpoint.
func (l archiver) checkArchive(ctx context.Context, a *proof.Archive) error {
	progress, n := l.r.reportOn(fmt.Sprintf("check archive %d", a.Number)), uint64(0)
	x := &archived{Archive: *a}
	files := l.j.guard.archives
	var err error
	if x.index, err = files.readIndex(ctx, x); err != nil {
		return err
	}
	signed := signedEntries{l: l.Ledger}
	following, stop := iter.Pull(ranges(a.Gone).eachSequence())
	defer stop()
	for _, c := range x.index.Chunks {
		records, err := files.readChunk(ctx, x, c)
		if err != nil {
			return err
		}
		for i := range records {
			if seq, more := following(); !more || records[i].Seq != seq {
				return errMisread
			}
			n++
			progress(n, a.Records)
			if err := signed.compare(ctx, &records[i]); err != nil {
				return err
			}
			for _, h := range hashesOf(l.j.space, records[i].Subject) {
				if !x.index.Has(h) {
					return errMisread
				}
			}
		}
	}
	if _, more := following(); more {
		return errMisread
	}
	return nil
}
