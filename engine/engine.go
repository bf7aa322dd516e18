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
//
// # Decisions
//
//   - Event records hold the whole call in memory. The journal stores what changed since
//     the record before, and limits how far back a reader has to go.
//   - One record holds several steps. Approve and submit are one record, so no crash
//     can fall between them.
//   - The digest covers the arguments as text. RFC 8785 reads numbers as floats:
//     9007199254740993 and 9007199254740992 would get the same digest.
//   - A session has an entity of its own, so compare-and-swap binds it to one runtime.
//   - The journal's order is the order within a reply: where a tool must run alone, a
//     call is recorded before it is decided. A plan of the batch in the reply's entity
//     was rejected: no compare-and-swap covers both a plan and its calls, so it needs a
//     clock that bounds how long a planned call may be missing.
//   - A baton in the reply's entity was rejected. Engine A reads that call x has the baton,
//     engine B gives up on x and passes it to y, then A records x: both run. B must also
//     guess when to give up on x. After its record x has to read the reply again, and the
//     order of the records tells what it needs without a baton.
//   - The journal keeps a reserve for a full store: a tenth of the tightest limit of stream,
//     account, server and disk, at most 64 MiB, plus what open calls need. The engine cannot
//     see the limit of a whole external server (max_file_store): set max_bytes there.
//   - Streamed events are completed when they are stored (id, time, defaults). A runtime
//     cannot stream the events that are derived from records.
//   - One pure function counts votes, toolcall.Requirement.Tally, for engine, replay,
//     command and auditors.
//   - A value that one rule redacts is redacted, even if another rule decides.
//   - Deadlines are data, not timers. The digest covers every deadline. A late or
//     missing timer changes only when people are notified.
//   - Hidden values are redacted at engine.Port. The journal holds them, because a
//     worker needs them. Encryption was rejected for now: the key would be stored next
//     to the data.
//   - Deny rules are evaluated again before a call begins: always under a new bundle,
//     and under the same one after a second of waiting.
//   - An approver's edit needs no second approval by the same rule. Another rule that
//     asks opens a new request, and a deny wins.
//   - A rule with a requirement that is not in engine.Duties is an error. A rule is never
//     weaker than it reads.
//   - Remembered rules are limited by what was asked. For a command the suggested rule
//     is that command; AgentScope suggests its first two words followed by anything.
//   - A standing approval has its own entity. A use is a compare-and-swap before the
//     allow, so a crash can lose a use and never grants one. A call that relies on one
//     costs one more record, so that an acknowledged revocation is always found. An
//     atomic batch costs about 4 ms.
//   - A budget's record comes before the call's. After a crash the same call finds its
//     spending by a mark. An allowed call has spent, even if it never runs: a refund
//     needs a record that a crash can lose.
//   - A budget holds in any period. A calendar window permits twice the limit around
//     its edge. The entity keeps at most 16 parts of a period, so room returns up to a
//     sixteenth late.
//   - Only the journal's clock frees room in a budget. An engine that needs more room
//     writes an empty record and reads its time.
//   - The policy states what a decision takes from budgets, and the engine takes it. Without
//     room the engine decides again without that rule. Edits, and decisions that take
//     nothing, never use a rule with a budget.
//   - Limits of reviewers are counted where the response or request is written. Two
//     engines together may exceed one by the few responses that they have not read yet.
//   - An approver's signature covers the request's digest, which covers who must
//     agree. Earlier edits and rules to remember cannot be signed.
//   - Calls that an open request also covers are decided again when it closes. AgentScope
//     waits until the asking call has run; only the order of concurrent results differs.
//   - The journal's order decides which turn of an agent is open. A lease with heartbeats
//     would write for days while people think.
//   - An agent acts as the runtime of its user. Rules that exclude the requester
//     exclude the person.
//   - Activity figures are derived from the journal, in the order of its records. Counters
//     in a process would differ between engines and start at 0 after a restart.
//   - A call keeps the trace of its proposal; span ids are derived from the ids of the call.
//     Ids in records would have no other reader, and ids in memory would not survive a
//     restart.
//   - Spans are sent by our own exporter, without gRPC. The official one links gRPC and its
//     gateway: 10 MB in every binary.
//   - Metrics name no people unless asked. Prometheus keeps labels for months, and
//     anyone who reads dashboards sees them.
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
	e.responses = approve.New(approve.Parts{
		Space: space, Self: c.selfPrincipal(), View: c.view, Judge: c.judge, Standing: c.standing,
		Snapshot: c.snapshotWith, Update: c.updateSeen, Begin: attempts.beginAllowed, Groups: c.groupsOf, Keys: c.cfg.approverKeys,
	})
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
			e.timers.Set(time.Now(), c.Key, c.Seq)
		}
	}
}

// ObserveWorker records that a worker asked for tasks. The transport must have
// authenticated worker.
func (e *Engine) ObserveWorker(worker string, queue toolcall.Queue) {
	e.activity.Workers.Hear(worker, queue, time.Now())
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
	if worker != e.cfg.id && r.ClockMS != 0 { // engines, too, send heartbeats for their local attempts
		e.clocks.Hear(worker, r, c)
	}
	if owner {
		e.liveness.Hear(r.Key, r.Attempt, time.Now())
	}
}
