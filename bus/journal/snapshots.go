package journal

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Snapshots keeps an engine's snapshot of a journal in a file; it implements
// engine.Snapshots. A snapshot of another journal, or of one that was rolled back, is
// refused.
type Snapshots struct{ file boundFile }

// NewSnapshots keeps the snapshot of a ledger's journal in the file at path, which it does
// not read or write yet.
func NewSnapshots(l *Ledger, path string) *Snapshots {
	return &Snapshots{newBoundFile(l, path, "snapshot")}
}

const (
	// snapshotReaders is how many requests are in flight at the same time.
	snapshotReaders = 32
	// snapshotPart is how many undecoded records are in memory at once.
	snapshotPart = 4096
	// runGap is how many unwanted records between two wanted ones cost less than another
	// request. maxRun is how many records one request reads.
	runGap = 8
	maxRun = 256
	// olderPause limits Check to about 10,000 records per second.
	olderPause = 50 * time.Millisecond
)

// Load implements engine.Snapshots.
func (s *Snapshots) Load(ctx context.Context) ([]byte, error) {
	body, _, err := s.file.load(ctx)
	if err != nil {
		return nil, err
	}
	return body, nil
}

// Save implements engine.Snapshots. It first signs the journal up to the snapshot. The
// file is replaced atomically.
func (s *Snapshots) Save(ctx context.Context, seq uint64, snapshot []byte) error {
	if _, err := s.file.ledger.Checkpoint(ctx); err != nil {
		return err
	}
	return s.file.save(ctx, seq, snapshot)
}

// ReadRecords implements engine.Snapshots. It reads from any replica: the record at a
// sequence never changes. Void records get Invalid set, but records that link to one do not.
func (s *Snapshots) ReadRecords(ctx context.Context, seqs []uint64) ([]toolcall.JournalEntry, error) {
	out := make([]toolcall.JournalEntry, len(seqs))
	for at := 0; at < len(seqs); at += snapshotPart {
		end := min(at+snapshotPart, len(seqs))
		if err := s.readPart(ctx, seqs[at:end], out[at:end]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readPart reads some records, after the records on which they build.
func (s *Snapshots) readPart(ctx context.Context, seqs []uint64, out []toolcall.JournalEntry) error {
	j := s.file.ledger.j
	found, err := j.store.readSeqs(ctx, seqs)
	if err != nil {
		return err
	}
	var below []uint64
	for _, m := range found {
		if jsapi.OnlyHeader(m.header, headerPrev) == "0" {
			continue
		}
		if r, err := toolcall.DecodeStored(m.data); err == nil && r.BaseSeq() > 0 && r.BaseSeq() < m.seq {
			below = append(below, r.BaseSeq())
		}
	}
	slices.Sort(below)
	bases, err := j.store.readSeqs(ctx, slices.Compact(below))
	if err != nil {
		return err
	}
	for _, seq := range slices.Sorted(maps.Keys(bases)) {
		_ = j.codec.decode(ctx, bases[seq]) // caches the base; decoding the record on it reports errors
	}
	// An embedded server without replicas compares when it stores: no record is void.
	compares := j.guard.asks && j.replicas == 1
	return eachAtOnce(ctx, runtime.GOMAXPROCS(0), len(seqs), func(ctx context.Context, i int) error {
		m, ok := found[seqs[i]]
		var err error
		switch {
		case j.guard.archives.has(seqs[i]):
			out[i] = toolcall.JournalEntry{Seq: seqs[i], Invalid: message.ErrArchived}
		case !ok:
			return jsapi.Error("read records", fmt.Sprintf("record %d", seqs[i]), errNone)
		case !compares:
			out[i], err = j.voids.decodeUpTo(ctx, m, 0)
		default:
			if out[i] = j.codec.decode(ctx, m); isBaseUnread(out[i]) {
				err = out[i].Invalid
			}
		}
		return err
	})
}

// Check implements engine.Snapshots. A record that the server counts but does not deliver
// ends the journal.
func (s *Snapshots) Check(ctx context.Context, through uint64) error {
	g := s.file.ledger.j.guard
	if g.inspect {
		return nil
	}
	x, err := g.check(ctx)
	if err != nil {
		return err
	}
	bad, err := g.findUnreadable(ctx, x, through, olderPause)
	if err != nil || !x.addUnreadable(bad) {
		return err
	}
	return g.refuseFlaws(x)
}
