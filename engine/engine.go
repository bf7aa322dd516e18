// Package engine decides and orders tool calls: it stands between a runtime
// that proposes them, the policy that allows, denies or asks, the people who
// answer, and the workers that run what was allowed.
//
// An [Engine] works on a [Journal]. Everything it knows is a fold of the
// journal's event records, so any number of engines may work on one journal and each
// may die at any moment: the others, or the next, go on. A call moves only by
// compare-and-swap on its own last event record; the loser of a race sees the winner's
// outcome.
//
//	eng, err := engine.New("default", engine.NewMemory(), policy, tools, engine.WithExecutor(registry))
//	if err != nil { … }
//	if err := eng.Start(ctx); err != nil { … }
//	defer eng.Close()
//	runtime := eng.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
//	reply, err := runtime.Propose(ctx, toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: calls})
//
// Options change the defaults, such as [WithSigningKey], [WithGrace], [WithKeep]
// and [WithDrain]. [NewMemory] is a journal and [StaticDirectory] a directory
// for programs that need no other.
//
// # The life of a call
//
// Propose writes one event record: proposed, decided and, if allowed, begun. A call
// that asks waits as one entry of a timer heap, without a goroutine. An answer
// writes one event record: approved and begun. A local call runs on a goroutine of the
// engine that started it; a remote one is the event record itself, offered to the
// tool's workers with a signed grant. Start and result are one event record each.
//
// # Guarantees
//
//   - Nothing begins before the fact that allows it is durable.
//   - The arguments that run are, byte for byte, those that were decided: the
//     digest of the approval request goes into the answer and the grant.
//   - A call that people must allow begins when all required approvers have approved
//     exactly these arguments; APPROVALS.md has the rules. What rules redact is
//     shown only to the call's runtime and its worker.
//   - An attempt is started once. If its owner falls silent for a lease, an
//     idempotent tool is tried again under the same key, any other call is blocked
//     until a person resolves it.
//   - An interrupt closes every call of its reply, also those that are being
//     proposed at that moment.
//   - Methods of [Port] may be called from many goroutines; errors are
//     *message.Error.
//
// # What it does not do
//
// It opens no sockets and knows no wire format but AgentScope's events: package
// bus carries it over NATS, the gateway over HTTP.
//
// # Decisions
//
//   - Event records have the whole call in memory. The journal stores what changed
//     since the record before and bounds what a reader needs.
//   - One record holds several steps. Approve and submit are one record, so no crash
//     can fall between them.
//   - The digest covers the arguments as text. RFC 8785 reads numbers as floats:
//     9007199254740993 and 9007199254740992 would get the same digest.
//   - A session has an entity of its own, so compare-and-swap binds it to one runtime.
//   - The journal's order is the order within a reply: where a tool must run alone, a
//     call is recorded before it is decided. A plan of the batch in the reply's entity
//     was rejected: no compare-and-swap covers a plan and its calls, so a clock bounded
//     how long a planned call may stay away.
//   - A baton in the reply's entity was rejected, too. Engine A reads that call x has
//     the baton, engine B gives x up and passes it on to y, A records x: both run. B
//     must also guess when x is given up. x has to read the reply again after its record,
//     and the order of the records tells what it needs without the baton.
//   - A full store keeps a reserve: a tenth of the tightest limit of stream, account,
//     server and disk, at most 64 MiB, plus what open calls need. The engine cannot
//     see the limit of another whole server (max_file_store): set max_bytes there.
//   - Streamed events are completed when they are stored (id, time, defaults). A
//     runtime cannot stream events that stand for records.
//   - One pure function counts votes, toolcall.Requirement.Tally, for engine, replay,
//     command and auditors.
//   - A value that one rule redacts is redacted, even if another rule decides.
//   - Time is a plan, not a process. The digest covers every deadline. A late or
//     missing timer changes only when people are notified.
//   - Hidden values are redacted at engine.Port. The journal holds them, because a
//     worker needs them. Encryption was rejected for now: the key would be stored next
//     to it.
//   - Deny rules are evaluated again before a call begins: always under a new bundle,
//     and under the same one after a second of waiting.
//   - An approver's edit needs no second approval by the same rule. Another rule that
//     asks opens a new request, and a deny wins.
//   - A rule with a requirement that engine.Duties lacks is an error. A rule is never
//     weaker than it reads.
//   - Remembered rules are limited by what was asked. For a command the suggested rule
//     is that command; AgentScope suggests its first two words with anything behind
//     them.
//   - A standing approval has its own entity. A use is a compare-and-swap before the
//     allow, so a crash can lose a use and never grants one. A call that relies on one
//     costs one more record, so that an acknowledged revocation is always found. An
//     atomic batch costs about 4 ms.
//   - A budget's record comes before the call's. After a crash the same call finds its
//     spending by a mark. A call that is allowed has spent, also if it never runs: a
//     return needs a record that a crash can lose.
//   - A budget holds in any period. A calendar window permits twice the limit around
//     its edge. The entity keeps at most 16 parts of a period, so room returns up to a
//     sixteenth late.
//   - Only the journal's clock makes room in a budget. An engine that needs more room
//     writes an empty record and reads its time.
//   - The policy claims, the engine takes. Without room the engine decides again
//     without that rule. Edits and decisions that take nothing never use a rule with a
//     budget.
//   - Limits of reviewers are counted where the response or request is written. Two
//     engines together may exceed one by the few responses that they have not read.
//   - An approver's signature covers the request's digest, which covers who must
//     agree. Earlier edits and rules to remember cannot be signed.
//   - Calls that an open request also covers are decided again as it closes.
//     AgentScope waits until the asking call has run; only the order of concurrent
//     results differs.
//   - The journal's order opens a turn of an agent. A lease with heartbeats would
//     write for days while people think.
//   - An agent acts as the runtime of its user. Rules that exclude the requester
//     exclude the person.
//   - Figures are a fold of the journal, in the order in which it delivers records.
//     Counters of the process differ between engines and begin at 0 after a restart.
//   - A call keeps the trace of its proposal; the ids of spans follow from the ids of
//     the call. Ids in records would be written for no reader, and ids in memory would
//     not survive a restart.
//   - Spans are sent by an exporter of our own, without gRPC. The official one links
//     gRPC and its gateway: 10 MB in every binary.
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

// ErrStopping is the cause with which an engine that closes ends its work.
var ErrStopping = errors.New("the engine is stopping")

// Engine decides and orders the calls of one space. Any number of engines may
// work on one journal. Make one with New, begin with Start, end with Close;
// act through As. It only joins the parts that do the work.
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
	failed    chan error // the watch's end; has room for one
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
		Snapshot: c.snapshotWith, Update: c.update, Begin: attempts.beginAllowed, Groups: c.groupsOf, Keys: c.cfg.approverKeys,
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

// PublicKey is what workers verify the grants with that this engine signs now.
func (e *Engine) PublicKey() ed25519.PublicKey {
	return e.cfg.signer.SigningKey().Public().(ed25519.PublicKey)
}

// Start reads the journal up to its present end, from its last snapshot on if there is
// one, then resumes every open call and returns. It fails when the journal cannot be
// read or ctx ends first; the engine is then closed.
func (e *Engine) Start(ctx context.Context) error {
	if err := e.catchUp(ctx); err != nil {
		return err
	}
	e.wg.Go(func() { e.timers.Run(e.store.Following(), e.liveness, e.keeper.fireTimer) })
	e.keeper.recoverCalls()
	if e.cfg.snapshots != nil {
		e.wg.Go(e.snapshots.run)
	}
	if e.snapshots.began > 0 {
		e.wg.Go(e.snapshots.checkOlder)
	}
	return nil
}

// Observe is Start for an engine that only reads: it knows what the journal has,
// and nothing is decided, resumed or timed out because of it.
func (e *Engine) Observe(ctx context.Context) error {
	e.hooks.News = func(*toolcall.EventRecord) {}
	return e.catchUp(ctx)
}

// catchUp takes the journal into the view up to its present end.
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

// Failed delivers the reason when the journal is not followed any more. If it
// is not ErrStopping, the engine takes no requests from then on and must be
// closed: another one, or a new one, goes on.
func (e *Engine) Failed() <-chan error { return e.failed }

// Close stops the engine: no new step begins, running local calls get the
// drain time and are cancelled after it. It waits for all goroutines and may
// be called twice. Open calls stay open in the journal.
func (e *Engine) Close() error {
	e.stopAndWait(e.cfg.drain, e.runs.count)
	e.snapshots.saveLast()
	return nil
}

// Renew offers calls again whose grants are not good any more, with grants of the
// key that signs now. Calls that have been started are not touched.
func (e *Engine) Renew() {
	for _, c := range e.view.OpenCalls() {
		if e.hasStaleGrant(c) {
			e.timers.Set(time.Now(), c.Key, c.Seq)
		}
	}
}

// ObserveWorker takes note of a worker that asks for tasks. worker must be authenticated
// by the transport.
func (e *Engine) ObserveWorker(worker string, queue toolcall.Queue) {
	e.activity.Workers.Hear(worker, queue, time.Now())
}

// ObserveHeartbeat takes note of a sign of life that another replica answers
// or that another engine gives for its local attempt. worker must be
// authenticated by the transport.
func (e *Engine) ObserveHeartbeat(worker string, r toolcall.HeartbeatRequest) {
	r.Space = e.space
	c := e.view.Call(r.Key)
	if c != nil {
		e.activity.Workers.Hear(worker, c.Queue(), time.Now())
	}
	if worker != e.cfg.id && r.ClockMS != 0 { // the other engines beat for their local attempts
		e.clocks.Hear(worker, r, c)
	}
	if c != nil && isOwner(c, toolcall.Principal{Name: worker}, r.Attempt, r.Claim) {
		e.liveness.Hear(r.Key, r.Attempt, time.Now())
	}
}
