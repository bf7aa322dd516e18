// Package engine decides and orders tool calls: it stands between a runtime
// that proposes them, the policy that allows, denies or asks, the people who
// answer, and the workers that run what was allowed.
//
// An [Engine] works on a [Journal]. All its state is derived from the journal's event
// records, so any number of engines may work on one journal and each may die at any
// moment: the others, or its successor, continue. A call changes only by compare-and-swap
// on its own last event record; the loser of a race sees the winner's outcome.
//
//	eng, err := engine.New("default", engine.NewMemory(), policy, tools, engine.WithExecutor(registry))
//	if err != nil { … }
//	if err := eng.Start(ctx); err != nil { … }
//	defer eng.Close()
//	runtime := eng.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
//	reply, err := runtime.Propose(ctx, toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: calls})
//
// Options change the defaults, such as [WithSigningKey], [WithGrace], [WithKeep]
// and [WithDrain]. [NewMemory] and [StaticDirectory] are a journal and a directory
// for programs that need nothing more.
//
// # The life of a call
//
// Propose writes one event record: proposed, decided and, if allowed, begun. A call
// that waits for approval is one entry of a timer heap, without a goroutine. A response
// writes one event record: approved and begun. A local call runs on a goroutine of the
// engine that started it; for a remote call the event record is the task, offered to the
// tool's workers with a signed grant. Start and result are one event record each.
//
// # Guarantees
//
//   - Nothing begins before the event record that allows it is durable.
//   - The arguments that run are, byte for byte, those that were decided: the response
//     and the grant carry the digest of the approval request.
//   - A call that needs approval begins only after all required approvers have approved
//     exactly these arguments; APPROVALS.md has the rules. What rules redact is
//     shown only to the call's runtime and its worker.
//   - An attempt is started once. If its owner is silent for longer than the lease, an
//     idempotent call is retried under the same key; any other call is blocked
//     until an operator resolves it.
//   - An interrupt closes every call of its reply, including those that are being
//     proposed at that moment.
//   - Methods of [Port] may be called from many goroutines; errors are
//     *message.Error.
//
// # What it does not do
//
// It opens no sockets and knows no wire format except AgentScope's events: package
// bus serves it over NATS, and package gateway over HTTP.
package engine

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/askance-dev/askance/engine/internal/approve"
	"github.com/askance-dev/askance/engine/internal/standing"
	"github.com/askance-dev/askance/toolcall"
)

// ErrStopping is the cause with which a closing engine cancels its work.
var ErrStopping = errors.New("the engine is stopping")

// Engine decides and orders the calls of one space. Any number of engines may
// work on one journal. Make one with New, begin with Start, end with Close, and
// send requests through As. It only connects the parts that do the work.
type Engine struct {
	*core
	runs      *runs
	responses *approve.Responses
	keeper    *keeper
	proposer  *proposer
	replies   *replies
	workers   *workers
	operators *operators
	reader    *reader
	streams   *streams
	sessions  *sessions
	snapshots *snapshots
	failed    chan error // why the watch ended; has room for one
}

// New makes an engine for a space. Start begins its work.
func New(space toolcall.SpaceID, journal Journal, policy Policy, tools []Tool, opts ...Option) (*Engine, error) {
	c, err := newCore(space, journal, policy, tools, opts)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	e := &Engine{core: c, failed: make(chan error, 1)}
	e.sessions = &sessions{c}
	e.replies = &replies{c}
	c.standing = standing.New(standing.Parts{
		Space: space, Self: c.selfPrincipal(), Policy: c.policy, Judge: c.judge, Journal: journal, Store: c.store, View: c.view, Log: c.log,
		Snapshot: c.snapshotWith, Update: c.update,
	})
	attempts := &attempts{core: c, replies: e.replies}
	e.responses = &approve.Responses{Parts: approve.Parts{
		Space: space, Self: c.selfPrincipal(), View: c.view, Judge: c.judge, Standing: c.standing,
		Snapshot: c.snapshotWith, Update: c.updateSeen, Begin: attempts.beginAllowed, Groups: c.groupsOf, Keys: c.currentKeys,
	}}
	decider := &decider{core: c, attempts: attempts}
	batches := &batches{core: c, decider: decider}
	e.runs = &runs{core: c, running: map[localRun]context.CancelCauseFunc{}}
	e.keeper = &keeper{core: c, runs: e.runs, attempts: attempts, batches: batches, replies: e.replies, responses: e.responses}
	e.proposer = &proposer{core: c, sessions: e.sessions, replies: e.replies, decider: decider, batches: batches, responses: e.responses, keeper: e.keeper}
	e.workers = &workers{core: c, attempts: attempts, keeper: e.keeper}
	e.runs.storeResult = e.workers.storeResult
	e.operators = &operators{core: c, attempts: attempts, responses: e.responses}
	e.reader = &reader{core: c, batches: batches, responses: e.responses, folding: make(chan struct{}, 1)}
	e.streams = &streams{core: c, sessions: e.sessions, replies: e.replies}
	e.snapshots = &snapshots{core: c, least: snapshotRecords}
	c.hooks.News, c.hooks.Written = e.keeper.followRecord, e.keeper.performEffects
	return e, nil
}

// ID is the replica's name.
func (e *Engine) ID() string { return e.cfg.id }

// PublicKey is the key with which workers verify the grants that this engine signs now.
func (e *Engine) PublicKey() ed25519.PublicKey {
	return e.cfg.signer.SigningKey().Public().(ed25519.PublicKey)
}

// Start reads the journal up to its present end, starting at its last snapshot if there is
// one, then resumes every open call and returns. It fails if the journal cannot be read
// or ctx ends first; the engine is then closed.
func (e *Engine) Start(ctx context.Context) error {
	if err := e.catchUp(ctx); err != nil {
		return err
	}
	e.wg.Go(func() { e.timers.Run(e.store.Following(), e.liveness, e.keeper.fireTimer) })
	e.wg.Go(func() { e.keeper.watchClock(e.store.Following()) })
	e.keeper.recoverCalls()
	e.wg.Go(func() { e.view.PrepareSearch(e.ctx, e.lineOf) })
	if e.cfg.snapshots != nil {
		e.wg.Go(e.snapshots.run)
	}
	if e.snapshots.began > 0 {
		e.wg.Go(e.snapshots.checkOlder)
	}
	return nil
}

// Observe is Start for an engine that only reads: it follows the journal, but decides,
// resumes and times out nothing.
func (e *Engine) Observe(ctx context.Context) error {
	e.hooks.News = func(*toolcall.EventRecord) {}
	return e.catchUp(ctx)
}

// catchUp reads the journal into the view up to its present end.
func (e *Engine) catchUp(ctx context.Context) error {
	e.snapshots.restore(ctx)
	e.wg.Go(func() { e.failed <- e.store.Follow(e.ctx) })
	select {
	case <-e.store.CaughtUp():
	case err := <-e.failed:
		_ = e.Close()
		return fmt.Errorf("engine: read the journal: %w", err)
	case <-ctx.Done():
		_ = e.Close()
		return fmt.Errorf("engine: read the journal: %w", context.Cause(ctx))
	}
	return nil
}

// Failed delivers the reason once the engine no longer follows the journal. Unless the
// reason is ErrStopping, the engine takes no more requests and must be closed; another
// engine, or a new one, continues.
func (e *Engine) Failed() <-chan error { return e.failed }

// Close stops the engine: no new step begins, and running local calls are cancelled
// after the drain time. It waits for all goroutines and may be called twice. Open calls
// stay open in the journal.
func (e *Engine) Close() error {
	e.stopAndWait(e.cfg.drain, e.runs.count)
	e.snapshots.saveLast()
	return nil
}

// Renew offers calls again whose grants are no longer valid, with grants of the
// current signing key. It leaves started calls alone.
func (e *Engine) Renew() {
	for _, c := range e.view.OpenCalls() {
		if e.hasStaleGrant(c) {
			e.timers.SetAfter(0, c.Key, c.Seq)
		}
	}
}

// ObserveWorker records that a worker asked for tasks. The transport must have authenticated it, and
// calls left if the worker stopped waiting for them.
func (e *Engine) ObserveWorker(worker string, queue toolcall.Queue) (left func()) {
	return e.activity.Workers.Ask(worker, queue, time.Now())
}

// ObserveHeartbeat records a heartbeat that another replica answers, or that another
// engine sends for its local attempt. The transport must have authenticated the worker and its queue.
func (e *Engine) ObserveHeartbeat(worker string, queue toolcall.Queue, r toolcall.HeartbeatRequest) {
	r.Space = e.space
	c := e.view.Call(r.Key)
	owner := c != nil && isOwner(c, toolcall.Principal{Name: worker}, r.Attempt, r.Claim)
	if c != nil && !owner && c.Queue() != queue {
		return // a worker can report only about its own queue
	}
	if c != nil {
		e.activity.Workers.Hear(worker, c.Queue(), time.Now())
	}
	if worker != e.cfg.id { // engines, too, send heartbeats for their local attempts
		e.clocks.Hear(worker, r, c)
	}
	if owner {
		e.hearOwner(r.Key, r.Attempt)
	}
}
