package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Snapshots keeps an engine's snapshot of a journal in a file; it implements
// engine.Snapshots. A snapshot of another journal, or of one that was rolled back, is not
// used.
type Snapshots struct{ file boundFile }

// NewSnapshots keeps the snapshot of a ledger's journal at path. Nothing is read or
// written yet.
func NewSnapshots(l *Ledger, path string) *Snapshots {
	return &Snapshots{newBoundFile(l, path, "snapshot")}
}

const (
	// snapshotReaders is how many records are read at a time.
	snapshotReaders = 64
	// olderPause limits Check to about 10,000 records a second.
	olderPause = 50 * time.Millisecond
)

// Load implements engine.Snapshots.
func (s *Snapshots) Load(ctx context.Context) ([]byte, error) {
	body, _, err := s.file.load(ctx)
	return body, err
}

// Save implements engine.Snapshots. It signs the journal up to the snapshot first. The
// file is replaced whole, or not at all.
func (s *Snapshots) Save(ctx context.Context, seq uint64, snapshot []byte) error {
	if _, err := s.file.ledger.Checkpoint(ctx); err != nil {
		return err
	}
	return s.file.save(ctx, seq, snapshot)
}

// ReadRecords implements engine.Snapshots. It reads from any replica: what stands at a
// sequence never changes. Void records are invalid, but not those that follow one.
func (s *Snapshots) ReadRecords(ctx context.Context, seqs []uint64) ([]toolcall.JournalEntry, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := make([]toolcall.JournalEntry, len(seqs))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(snapshotReaders, len(seqs)) {
		wg.Go(func() {
			for i := range next {
				m, err := s.file.ledger.j.store.getAny(ctx, seqs[i])
				if (err == nil || errors.Is(err, errNone)) && s.file.ledger.j.guard.archives.has(seqs[i]) {
					out[i] = toolcall.JournalEntry{Seq: seqs[i], Invalid: message.ErrArchived}
					continue
				}
				if err != nil {
					stop(apiError("read records", fmt.Sprintf("record %d", seqs[i]), err))
					continue
				}
				if out[i], err = s.file.ledger.j.voids.decodeUpTo(ctx, m, 0); err != nil {
					stop(err)
				}
			}
		})
	}
	for i := range seqs {
		next <- i
	}
	close(next)
	wg.Wait()
	return out, context.Cause(ctx)
}

// Check implements engine.Snapshots. A record that the server counts and does not deliver
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
	if x.patience() == 0 {
		g.finish(x.Error())
	}
	return x.Error()
}

// getAny reads one message from any replica, or from the leader if that one lacks it.
func (rd reader) getAny(ctx context.Context, seq uint64) (stored, error) {
	if err := ctx.Err(); err != nil {
		return stored{}, err
	}
	if m := rd.askAny(ctx, getRequest{Seq: seq}); m.seq == seq {
		return m, nil
	}
	return rd.getSeq(ctx, seq)
}

// askAny asks any replica, which may be behind, for one message; 0 is the sequence of none.
func (rd reader) askAny(ctx context.Context, r getRequest) stored {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	ask, err := strictjson.Marshal(r)
	if err != nil {
		return stored{}
	}
	m, err := rd.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+rd.stream, ask)
	if err != nil || last(m.Header, "Nats-Sequence") == "" {
		return stored{}
	}
	found, err := storedOf(m)
	if err != nil {
		return stored{}
	}
	return found
}
