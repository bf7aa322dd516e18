package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/strictjson"
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
	return body, err
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

// eachAtOnce calls f for 0 to n-1 from several goroutines, and returns the first error.
func eachAtOnce(ctx context.Context, goroutines, n int, f func(ctx context.Context, i int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(goroutines, n) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(ctx, i); err != nil {
					stop(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// readSeqs reads the messages at these sorted sequences from any replica, without those that
// the stream lacks. Neighbours share a request.
func (rd reader) readSeqs(ctx context.Context, seqs []uint64) (map[uint64]stored, error) {
	runs := runsOf(seqs)
	out := make(map[uint64]stored, len(seqs))
	var mu sync.Mutex // guards out
	put := func(m stored) {
		mu.Lock()
		defer mu.Unlock()
		out[m.seq] = m
	}
	err := eachAtOnce(ctx, snapshotReaders, len(runs), func(ctx context.Context, i int) error {
		run := runs[i]
		if len(run) > 1 {
			all, err := rd.readBatch(ctx, ">", run[0], int(run[len(run)-1]-run[0])+1)
			if err != nil {
				return jsapi.Error("read records", fmt.Sprintf("records from %d", run[0]), err)
			}
			for _, m := range all {
				if _, wanted := slices.BinarySearch(run, m.seq); wanted {
					put(m)
				}
			}
		}
		for _, seq := range run { // read what the batch lacks: the replica was behind, or its answer was too long
			mu.Lock()
			_, have := out[seq]
			mu.Unlock()
			if have {
				continue
			}
			switch m, err := rd.getAny(ctx, seq); {
			case errors.Is(err, errNone):
			case err != nil:
				return jsapi.Error("read records", fmt.Sprintf("record %d", seq), err)
			default:
				put(m)
			}
		}
		return nil
	})
	return out, err
}

// runsOf divides sequences into runs of neighbours.
func runsOf(seqs []uint64) (runs [][]uint64) {
	for begin, i := 0, 0; i < len(seqs); i++ {
		if end := i + 1; end == len(seqs) || seqs[end]-seqs[i] > runGap || seqs[end]-seqs[begin] >= maxRun {
			runs, begin = append(runs, seqs[begin:end]), end
		}
	}
	return runs
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

// getAny reads one message from any replica, or from the leader if that replica lacks it.
func (rd reader) getAny(ctx context.Context, seq uint64) (stored, error) {
	if err := ctx.Err(); err != nil {
		return stored{}, err
	}
	if m := rd.askAny(ctx, getRequest{Seq: seq}); m.seq == seq {
		return m, nil
	}
	return rd.getSeq(ctx, seq)
}

// askAny asks any replica, which may be behind, for one message. The result has sequence 0
// if there is none.
func (rd reader) askAny(ctx context.Context, r getRequest) stored {
	ctx, cancel := context.WithTimeout(ctx, jsapi.AttemptTimeout)
	defer cancel()
	ask, err := strictjson.Marshal(r)
	if err != nil {
		return stored{}
	}
	m, err := rd.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+rd.stream, ask)
	if err != nil || lastHeader(m.Header, "Nats-Sequence") == "" {
		return stored{}
	}
	found, err := storedOf(m)
	if err != nil {
		return stored{}
	}
	return found
}
