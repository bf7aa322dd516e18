package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/nats-io/nats.go/jetstream"
)

// guard prevents a journal that lost records from being continued: it compares the
// stream with its checkpoints and its anchor, and ends a damaged journal.
type guard struct {
	store       reader
	codec       codec
	checkpoints checkpoints
	anchor      *Anchor
	newAnchor   bool // of a journal that already had records; set by Open
	inspect     bool
	health      func() error
	asks        bool // health asks the server; otherwise its health is unknown

	high    atomic.Uint64           // the highest sequence that was acknowledged or delivered
	missing atomic.Uint64           // how many sequences have no record because of accepted losses or archives
	ended   context.Context         //nolint:containedctx // the life of the journal: it ends when records are lost
	finish  context.CancelCauseFunc // ends the journal

	archives *archives
	pending  atomic.Bool               // archived records may still be there: a count proves nothing
	learned  atomic.Uint64             // number of reconnects before the last examination
	looked   atomic.Pointer[time.Time] // when the last examination began; nil: too long ago
	alone    bool                      // nothing else uses the journal

	lossMu sync.Mutex // guards losses
	losses []proof.Loss
}

func newGuard(store reader, c codec, o Options) *guard {
	kept := reader{nc: store.nc, js: store.js, stream: LedgerName(c.space)}
	g := &guard{store: store, codec: c, checkpoints: checkpoints{store: kept, space: c.space, signing: o.Keys, optional: true, anchor: o.Anchor, before: &atomic.Pointer[proof.Hash]{}, ends: &retirements{found: map[retirement]ending{}}}, anchor: o.Anchor, inspect: o.Inspect, health: o.Health, asks: o.asksHealth, archives: &archives{space: c.space, store: o.Archives}}
	g.ended, g.finish = context.WithCancelCause(context.Background())
	return g
}

// settleAnchor creates or updates the anchor of an undamaged journal.
func (g *guard) settleAnchor(x *Exam, log *slog.Logger) error {
	g.high.Store(max(x.Known, x.Last))
	if g.anchor == nil || g.inspect {
		return nil
	}
	found := g.anchor.foundState()
	if found == anchorMade && !x.moved {
		return g.anchor.noteCheckpoint(x.last.checkpoint)
	}
	if g.newAnchor = x.Last > 0 && found != anchorMade; x.Last > 0 && log != nil {
		log.Warn("an anchor was created for a journal that already has records: only its checkpoints can show an earlier loss", "anchor", g.anchor.path, "records", x.Records, "signed", x.Signed)
	}
	return g.anchor.create(x.last.checkpoint, highMark{seq: x.Last, at: time.Now().UnixNano()})
}

// endCause returns why the journal ended, or nil while it is open.
func (g *guard) endCause() error {
	if g.ended.Err() == nil {
		return nil
	}
	return context.Cause(g.ended)
}

// endAt ends the journal because of an acknowledgement that only a damaged journal
// can give. before is the highest sequence known when the write began.
func (g *guard) endAt(seq, before uint64) error {
	err := &message.Error{Code: message.CodeDamaged, Op: "check journal", What: fmt.Sprintf("the journal of the space %s lost records: the last known record was %d, but the next one became %d", g.codec.space, before, seq),
		Hint: "nothing runs on it: restore a backup of the journal, or inspect it with askance journal check and then use askance journal accept-loss"}
	g.finish(err)
	return err
}

// noteStored notes an acknowledged sequence. It ends the journal unless seq is higher than
// before, the highest sequence known when the write began.
func (g *guard) noteStored(seq, before uint64, leaf proof.Hash) error {
	if seq <= before {
		return g.endAt(seq, before)
	}
	g.raiseMark(seq, leaf)
	return nil
}

// raiseMark notes the highest known record.
func (g *guard) raiseMark(seq uint64, leaf proof.Hash) {
	for {
		high := g.high.Load()
		if seq <= high {
			return
		}
		if g.high.CompareAndSwap(high, seq) {
			g.anchor.raiseMark(seq, leaf)
			return
		}
	}
}

// check examines the journal of a running engine, and ends a damaged journal unless an
// election can explain the damage.
func (g *guard) check(ctx context.Context) (*Exam, error) {
	if err := g.anchor.writeFailure(); err != nil {
		g.finish(err)
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, watchLook) // for several requests to a server that may be busy
	defer cancel()
	x, err := g.examineJournal(ctx)
	if err == nil && !x.OK {
		err = g.ignoreBroken(x)
	}
	if err != nil || x.OK || g.inspect {
		return x, err
	}
	return x, g.refuseFlaws(x)
}

// refuseFlaws ends the guard, unless an election can explain the flaws: then requests can be
// sent again.
func (g *guard) refuseFlaws(x *Exam) error {
	err := x.Error()
	if x.electionPatience() > 0 {
		return &message.Error{Code: message.CodeUnavailable, Op: "check journal", What: "records seem to be missing, as while NATS elects a leader", Hint: "try again while the engine runs", Err: err}
	}
	g.finish(err)
	return err
}

// ignoreBroken removes the flaws of streams that the server could not write: it
// counts a record before it writes it.
func (g *guard) ignoreBroken(x *Exam) error {
	h, ok := errors.AsType[*HealthError](g.health())
	if !ok {
		return nil
	}
	if slices.Contains(h.Broken, LedgerName(g.codec.space)) {
		x.Flaws = slices.DeleteFunc(x.Flaws, func(f Flaw) bool { return f.Kind == FlawProof })
		x.OK = len(x.Flaws) == 0
	}
	if !x.OK && slices.Contains(h.Broken, g.store.stream) {
		return &message.Error{Code: message.CodeUnavailable, Op: "check journal", What: "the server cannot write the journal, so its records cannot be counted", Hint: restartHint, Err: h}
	}
	return nil
}

// checkCount makes sure that the journal still has every record, because only then is
// a missing entity a new one. It usually costs one request.
func (g *guard) checkCount(ctx context.Context) error {
	if err := g.endCause(); err != nil || g.inspect {
		return err
	}
	high := g.high.Load()
	info, err := g.store.streamInfo(ctx)
	if err != nil {
		return err
	}
	return g.compareCount(ctx, info, high)
}

// checkReachable is checkCount that also checks whether a write could be acknowledged,
// and a new call could be told from an archived one.
func (g *guard) checkReachable(ctx context.Context, observe func(*jetstream.StreamInfo)) error {
	high := g.high.Load()
	info, err := g.store.streamInfo(ctx)
	if err == nil && info != nil {
		observe(info)
		err = checkQuorum(info)
	}
	switch {
	case errors.Is(err, message.ErrDamaged):
		return err
	case err != nil:
		return &message.Error{Code: message.CodeUnavailable, Op: "ready", What: "NATS does not serve the journal: its stream " + g.store.stream + " has no leader or no quorum", Hint: "start the NATS servers that hold it; the engine then continues automatically", Err: err}
	}
	if err := g.compareCount(ctx, info, high); err != nil {
		return err
	}
	if info != nil { // the stream may have been edited
		if err := checkStream("ready", info.Config, streamConfig(g.codec.space, g.codec.keys.ID(), StreamOptions{})); err != nil {
			return err
		}
	}
	return g.learnArchives(ctx)
}

// maxUnlooked is how long ago the last examination may be when a call is said to be new. A
// running engine examines every watchLook.
const maxUnlooked = 10 * time.Second

// learnArchives examines the journal again if the connection was lost since the last
// examination, or if that was long ago: an archive may have been missed.
func (g *guard) learnArchives(ctx context.Context) error {
	if g.alone {
		return nil
	}
	if at := g.looked.Load(); at != nil && g.store.nc.Stats().Reconnects == g.learned.Load() && elapsedSince(*at) < maxUnlooked {
		return nil
	}
	_, err := g.check(ctx)
	return err
}

// compareCount makes sure that the stream still has every record up to high.
func (g *guard) compareCount(ctx context.Context, info *jetstream.StreamInfo, high uint64) error {
	g.archives.learnWarning(ctx, info, false)
	if info != nil && info.State.LastSeq >= high && info.State.Msgs+g.missing.Load() == info.State.LastSeq && !g.pending.Load() {
		return nil
	}
	_, err := g.check(ctx)
	return err
}

func (g *guard) checkWritable() error {
	if g.inspect {
		return &message.Error{Code: message.CodeForbidden, Op: "write to journal", What: "the journal was opened only to inspect it", Hint: "start an engine"}
	}
	return g.endCause()
}

// isUnsynced reports whether a message without an answer may be in the file of the stream,
// which the server no longer writes.
func (g *guard) isUnsynced() bool {
	h, ok := errors.AsType[*HealthError](g.health())
	return ok && slices.Contains(h.Unsynced, g.store.stream)
}

// whyBroken returns why the server no longer writes the stream, or nil if nothing is known
// to be wrong.
func (g *guard) whyBroken() error {
	err := g.health()
	if h, ok := errors.AsType[*HealthError](err); ok && slices.Contains(h.Broken, g.store.stream) {
		return err
	}
	return nil
}
