package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/askance-dev/askance/engine/internal/activity"
	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/engine/reviewers"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const (
	// snapshotRecords is how many new records make another snapshot worthwhile. A start
	// reads about that many records after the last snapshot.
	snapshotRecords = 10_000
	// snapshotShare limits the time spent on snapshots to a twentieth.
	snapshotShare = 20
	snapshotLook  = time.Second
	// lastSnapshot bounds the last snapshot, because a stop must not take long.
	lastSnapshot    = 5 * time.Second
	snapshotVersion = 6 // version 1 may name void records, 2 stores forgotten replies differently, 3 does not tell which are closed, 4 counts one person under several names, 5 does not tell where standing approvals with uses were granted
	maxSnapshot     = 1 << 30
)

// snapshots lets an engine start where an earlier one stopped.
//
// Invariant: calls, replies, sessions and standing approvals are read from the journal. A
// snapshot says which records they are in, and contains the figures, which affect only
// the limits of reviewers.
type snapshots struct {
	*core
	at      uint64 // of the last snapshot
	began   uint64 // of the snapshot from which the engine started; 0 if it read the whole journal
	least   uint64 // snapshotRecords, or fewer in tests
	running bool   // whether Start began to keep snapshots
	last    sync.Once
}

// snapshot is the stored form. The latest events of the figures follow the JSON and a
// newline.
type snapshot struct {
	V         int             `json:"v"`
	View      *view.Snapshot  `json:"view"`
	Reviewers reviewers.State `json:"reviewers"`
	Activity  activity.State  `json:"activity"`
}

// restore restores an engine that has read nothing from its last snapshot. On any doubt it
// stays empty and reads the whole journal.
func (s *snapshots) restore(ctx context.Context) {
	if s.cfg.snapshots == nil {
		return
	}
	began := time.Now()
	err := s.load(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		s.log.Warn("cannot use the journal snapshot; reading the whole journal", "error", err)
	case err == nil && s.at > 0:
		s.began = s.at
		s.log.Info("starting from a journal snapshot", "seq", s.at, "calls", len(s.view.OpenCalls()), "took", time.Since(began).Round(time.Millisecond).String())
	}
}

func (s *snapshots) load(ctx context.Context) error {
	stored, err := s.cfg.snapshots.Load(ctx)
	if err != nil || stored == nil {
		return err
	}
	text, events, _ := bytes.Cut(stored, []byte("\n"))
	var snap snapshot
	if err := strictjson.Unmarshal(text, &snap, strictjson.MaxBytes(maxSnapshot)); err != nil {
		return err
	}
	if snap.V != snapshotVersion || snap.View == nil {
		return fmt.Errorf("it has version %d, this engine reads version %d", snap.V, snapshotVersion)
	}
	seqs := snap.View.Sequences()
	found, err := s.cfg.snapshots.ReadRecords(ctx, seqs)
	if err != nil {
		return err
	}
	records := make(map[uint64]*toolcall.EventRecord, len(found))
	archived := map[uint64]bool{}
	for _, r := range found {
		if archived[r.Seq] = errors.Is(r.Invalid, message.ErrArchived); archived[r.Seq] {
			continue
		}
		if r.Invalid != nil {
			return r.Invalid
		}
		records[r.Seq] = r.Record
	}
	snap.View.Forget(archived)
	next := view.New(s.cfg.keep)
	if err := view.Restore(next, s.space, snap.View, records); err != nil {
		return err
	}
	figures := activity.New()
	if err := figures.Restore(snap.Activity, events); err != nil {
		return err
	}
	if err := s.view.Reviewers.Restore(snap.Reviewers, next.Call); err != nil {
		return err
	}
	view.Adopt(s.view, next)
	s.activity.Adopt(figures)
	s.at = snap.View.Seq
	return nil
}

// run takes snapshots as the journal grows, until the engine stops.
func (s *snapshots) run() {
	s.running = true
	pause := snapshotLook
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = snapshotLook
		if s.view.Sequence() < s.at+s.least {
			continue
		}
		began := time.Now()
		if err := s.save(s.ctx); err != nil && s.ctx.Err() == nil {
			s.log.Warn("cannot store a journal snapshot; will try again", "error", err)
			pause = time.Minute
		}
		pause = max(pause, snapshotShare*time.Since(began))
	}
}

// checkOlder checks the records that the start did not read, until it has checked all.
func (s *snapshots) checkOlder() {
	for {
		err := s.cfg.snapshots.Check(s.ctx, s.began)
		if err == nil || errors.Is(err, message.ErrDamaged) || s.ctx.Err() != nil { // a damaged journal ends the engine on its own
			return
		}
		s.log.Warn("cannot check older records of the journal; will try again", "error", err)
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(time.Minute):
		}
	}
}

// saveLast takes the snapshot of an engine that stopped in order. A short journal needs
// none: reading it whole finds every unreadable record at once.
func (s *snapshots) saveLast() {
	s.last.Do(func() {
		if !s.running || !errors.Is(context.Cause(s.store.Following()), ErrStopping) || s.view.Sequence() == s.at || s.view.Sequence() < s.least {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), lastSnapshot)
		defer cancel()
		if err := s.save(ctx); err != nil {
			s.log.Warn("cannot store the last journal snapshot; the next start reads more records", "error", err)
		}
	})
}

func (s *snapshots) save(ctx context.Context) error {
	snap := snapshot{V: snapshotVersion}
	var events []byte
	s.store.Pause(func() {
		snap.View = view.TakeSnapshot(s.view, func() { snap.Reviewers = s.view.Reviewers.State() })
		snap.Activity, events = s.activity.State()
	})
	if snap.View.Seq == 0 || s.store.HasSkipped() { // a later version can read what this one skipped
		return nil
	}
	text, err := strictjson.Marshal(snap)
	if err != nil {
		return err
	}
	if err := s.cfg.snapshots.Save(ctx, snap.View.Seq, append(append(text, '\n'), events...)); err != nil {
		return err
	}
	s.at = snap.View.Seq
	return nil
}
