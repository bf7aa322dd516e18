package node

import (
	"context"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/message"
)

// Archive moves finished calls of a journal that no engine uses into files of the data
// folder.
func (d Damaged) Archive(ctx context.Context, r bus.Retention) (bus.Archiving, error) {
	if d.NATS != nil {
		return bus.Archiving{}, &message.Error{Code: message.CodeInvalid, Op: "archive", What: "the journal is not in a data folder", Hint: "leave --nats out: only the journal of an embedded server can be archived"}
	}
	if err := d.Dir.Exists(); err != nil {
		return bus.Archiving{}, err
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
	j, err := bus.OpenJournal(ctx, s.nc, d.Space, s.keys, bus.JournalOptions{Durability: s.server.Durability(), Health: s.server.Health, Room: s.server.Room, Anchor: s.anchor, Archives: bus.ArchiveFolder(d.Dir.Files(d.Space).Archives())})
	if err != nil {
		return bus.Archiving{}, err
	}
	l, err := bus.OpenLedger(ctx, j, bus.LedgerOptions{Engine: creds.EngineName})
	if err != nil {
		return bus.Archiving{}, err
	}
	return l.Archive(ctx, r)
}

// resumeArchives completes archives that were interrupted.
func (n *Node) resumeArchives(ctx context.Context) {
	done, err := n.ledger.ResumeArchives(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		n.cfg.Log.Error("the records of an archive could not be deleted from the journal: run askance journal archive", "err", err)
	case done > 0:
		n.cfg.Log.Info("an interrupted archive was completed", "records", done)
	}
}
