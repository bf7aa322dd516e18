package node

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/message"
)

// Archiving is what an engine archives while it runs.
type Archiving struct {
	// Retention says which calls; none if its OlderThan is 0.
	bus.Retention
	// Every is how often. Default: a day. Of several engines, one archives.
	Every time.Duration
}

const (
	archiveEvery = 24 * time.Hour
	// firstArchive is the latest time of the first archive after a start. It is random, so that
	// engines that start together do not archive together.
	firstArchive = time.Hour
)

// archiver archives while the engine runs.
type archiver struct {
	cfg    Archiving
	ledger *bus.Ledger
	log    *slog.Logger
}

// run completes archives that were interrupted, and archives what the settings say. alone
// means that this is the only engine of the space, which then completes them in any case.
func (a archiver) run(ctx context.Context, alone bool) {
	every := cmp.Or(a.cfg.Every, archiveEvery)
	if alone || a.cfg.OlderThan > 0 {
		a.resume(ctx)
	}
	for pause := rand.N(min(firstArchive, every)); a.cfg.OlderThan > 0; pause = every + rand.N(every/8+1) { //nolint:gosec // G404: spreading load needs no secret
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if age := time.Since(a.ledger.LastArchive()); age < 0 || age > every*3/4 { // else another engine archives
			a.archive(ctx)
		}
	}
}

func (a archiver) archive(ctx context.Context) {
	began := time.Now()
	done, err := a.ledger.Archive(ctx, a.cfg.Retention)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, message.ErrConflict): // probably another engine archives
		a.log.Info("finished calls were not archived; will try again later", "error", err)
	case err != nil:
		a.log.Error("finished calls could not be archived; will try again later", "error", err)
	default:
		a.log.Info("archived finished calls", "calls", done.Calls, "records", done.Records, "bytes", done.Bytes, "archives", done.Archives, "took", time.Since(began).Round(time.Millisecond).String())
	}
}

func (a archiver) resume(ctx context.Context) {
	done, err := a.ledger.ResumeArchives(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		a.log.Error("the records of an archive could not be deleted from the journal: run askance journal archive", "err", err)
	case done > 0:
		a.log.Info("an interrupted archive was completed", "records", done)
	}
}

// Archive moves finished calls into files: of a data folder that no engine uses, or of an
// object store of an existing server, whose engines may be running.
func (d Damaged) Archive(ctx context.Context, r bus.Retention) (bus.Archiving, error) {
	if d.NATS == nil {
		if err := d.Dir.Exists(); err != nil {
			return bus.Archiving{}, err
		}
	}
	s, err := d.open(ctx, false)
	if err != nil {
		return bus.Archiving{}, err
	}
	defer s.close()
	if s.bad != nil {
		return bus.Archiving{}, s.bad
	}
	if err := checkSpaceExists(ctx, s.nc, d.Space); err != nil {
		return bus.Archiving{}, err
	}
	o := bus.JournalOptions{Archives: s.archives(d)}
	if s.server == nil { // an engine may be writing to the anchor
		x, err := bus.ExamineJournal(ctx, s.nc, d.Space, s.keys, s.anchor)
		if err == nil {
			err = x.Error()
		}
		if err != nil {
			return bus.Archiving{}, err
		}
	} else {
		o.Anchor = s.anchor
		o.Durability, o.Health, o.Room = s.server.Durability(), s.server.Health, s.server.Room
	}
	j, err := bus.OpenJournal(ctx, s.nc, d.Space, s.keys, o)
	if err != nil {
		return bus.Archiving{}, err
	}
	l, err := bus.OpenLedger(ctx, j, bus.LedgerOptions{Engine: creds.EngineName, Alone: s.server != nil})
	if err != nil {
		return bus.Archiving{}, err
	}
	return l.Archive(ctx, r)
}
