package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/engine/internal/activity"
	"github.com/askance-dev/askance/engine/internal/budget"
	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/engine/internal/schedule"
	"github.com/askance-dev/askance/engine/internal/standing"
	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/engine/internal/summary"
	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// core is shared by every part of the engine. It decides nothing.
type core struct {
	*life
	space   toolcall.SpaceID
	journal Journal
	policy  Policy
	tools   map[string]Tool
	lines   map[string]summary.Tool // how tools are summarized
	cfg     config
	log     *slog.Logger

	view     *view.View
	store    *store.Store
	hooks    store.Hooks
	judge    *decide.Judge
	standing *standing.Approvals
	budgets  *budget.Budgets
	timers   *schedule.Timers
	liveness *schedule.Liveness
	clocks   *schedule.Clocks
	activity *activity.Ledger

	definitions definitions

	looksMu sync.Mutex            // guards looks
	looks   map[toolcall.Key]bool // replies with a scheduled look
}

func newCore(space toolcall.SpaceID, journal Journal, policy Policy, tools []Tool, opts []Option) (*core, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if journal == nil || policy == nil {
		return nil, errors.New("journal and policy are required")
	}
	c := &core{
		life: newLife(), space: space, journal: journal, policy: dutiful{policy, Duties()}, tools: map[string]Tool{}, lines: map[string]summary.Tool{}, cfg: cfg,
		log:  cfg.log.With("engine", cfg.id, "space", string(space)),
		view: view.New(cfg.keep), timers: schedule.NewTimers(), liveness: schedule.NewLiveness(), clocks: schedule.NewClocks(cfg.log.With("engine", cfg.id)),
		activity: activity.New(), looks: map[toolcall.Key]bool{},
	}
	judged := map[string]decide.Tool{}
	for _, t := range tools {
		if t.Name == "" {
			return nil, errors.New("a tool has no name")
		}
		if _, twice := c.tools[t.Name]; twice {
			return nil, fmt.Errorf("tool %q is defined twice", t.Name)
		}
		if err := CheckLease(t.Lease); err != nil {
			return nil, fmt.Errorf("tool %q: %w", t.Name, err)
		}
		t = t.withDefaults()
		c.tools[t.Name] = t
		line := summary.Tool{Kind: t.Kind, Schema: t.Schema, Claims: permission.Claims{ReadOnly: t.ReadOnly, Destructive: t.Destructive, Idempotent: t.Idempotent, OpenWorld: t.OpenWorld}}
		if t.Summary != "" {
			if line.Template, err = summary.Parse(t.Summary, t.Schema); err != nil {
				return nil, fmt.Errorf("tool %q: %w", t.Name, err)
			}
		}
		c.lines[t.Name] = line
		judged[t.Name] = decide.Tool{Schema: t.Schema, Placement: t.Placement, ConcurrencySafe: t.ConcurrencySafe, Timeout: t.Timeout}
	}
	c.judge = decide.NewJudge(c.policy, judged, decide.Settings{Mode: cfg.mode, Cwd: cfg.cwd, WorkingDirs: cfg.dirs})
	c.view.Reviewers.Limit(cfg.reviewers)
	c.store = store.New(c.ctx, space, cfg.id, journal, c.view, c.log, store.Hooks{
		News:      func(rec *toolcall.EventRecord) { c.hooks.News(rec) },
		Delivered: c.activity.Record,
		AskedAt:   c.activity.AskedAt,
		Wrote:     c.observeWrite,
		Compare:   func(at, stored time.Time) { c.clocks.CompareJournal(at, stored, time.Now()) },
		Written: func(call *toolcall.Call, effects []toolcall.Effect, sent time.Time) {
			c.hooks.Written(call, effects, sent)
		},
	})
	c.budgets = &budget.Budgets{Space: space, Self: c.selfPrincipal(), Store: c.store, Log: c.log}
	return c, nil
}

// update changes a call, as a step that Close waits for.
func (c *core) update(ctx context.Context, op string, key toolcall.Key, by toolcall.Principal, change store.Change) (*toolcall.Call, error) {
	defer c.enterStep().leaveStep()
	return c.store.UpdateCall(ctx, op, key, by, change)
}

// updateSeen is update for a request about a state that its sender has seen.
func (c *core) updateSeen(ctx context.Context, op string, key toolcall.Key, by toolcall.Principal, change store.Change) (*toolcall.Call, error) {
	lag := c.cfg.lag()
	if lag == 0 {
		return c.update(ctx, op, key, by, change)
	}
	over := time.After(lag)
	for {
		moved, leave := c.view.Watch(key.ReplyKey())
		call, err := c.update(ctx, op, key, by, change)
		if errors.Is(err, message.ErrNotFound) || errors.Is(err, message.ErrDigest) || errors.Is(err, message.ErrState) {
			select {
			case <-moved:
				leave()
				continue
			case <-over:
			case <-ctx.Done():
			}
		}
		leave()
		return call, err
	}
}

// snapshotOf returns what a decision about a call depends on now.
func (c *core) snapshotOf(ctx context.Context, call *toolcall.Call) decide.Snapshot {
	return c.snapshotWith(ctx, call, c.view.Rules(call))
}

// snapshotWith is snapshotOf with the given session rules.
func (c *core) snapshotWith(ctx context.Context, call *toolcall.Call, rules []message.PermissionRule) decide.Snapshot {
	return decide.Snapshot{Call: call, Definition: c.definitionOf(call), Rules: rules, Count: c.countUpTo(ctx, call), Now: baseNow().At}
}

// countUpTo counts the calls of the reply up to this one, if any rule reads the count.
func (c *core) countUpTo(ctx context.Context, call *toolcall.Call) int {
	if !c.policy.ReadsCallsThisRun() {
		return permission.CountUnread // a policy loaded before the decision may still read it
	}
	n, err := c.store.CountUpTo(ctx, call)
	if err != nil {
		c.log.Warn("cannot count the calls of this run: rules that read ctx cannot be evaluated", "call", call.Key.String(), "error", err)
		return permission.CountUnread
	}
	return n
}

// noteRedaction records what rules hide of a call that is stored undecided.
func (c *core) noteRedaction(ctx context.Context, call *toolcall.Call) {
	call.Redact = c.judge.Decide(permission.WithTrial(ctx), c.snapshotWith(ctx, call, nil)).Redact
}

// lookLater schedules a look at a reply after the grace period: to close its calls if it was
// interrupted, otherwise to advance its pending calls. Each reply has at most one scheduled
// look.
func (c *core) lookLater(reply toolcall.Key) {
	c.looksMu.Lock()
	waits := c.looks[reply]
	c.looks[reply] = true
	c.looksMu.Unlock()
	if !waits {
		c.timers.SetAfter(c.cfg.grace, reply, 0)
	}
}

// beginLook clears the look that lookLater scheduled, because it begins now.
func (c *core) beginLook(reply toolcall.Key) {
	c.looksMu.Lock()
	defer c.looksMu.Unlock()
	delete(c.looks, reply)
}

// canRun reports whether an attempt of a tool may be started here. Call it only within
// a step.
func (c *core) canRun(tool string) bool {
	return !c.closing.Load() && c.cfg.executor.Has(tool)
}

// hasStaleGrant reports whether a call waits for a worker with a grant whose key was retired.
// Engines with different key files would offer one of an unknown key to each other endlessly.
func (c *core) hasStaleGrant(call *toolcall.Call) bool {
	return call.Phase() == toolcall.PhaseQueued && call.Placement == toolcall.PlaceRemote && call.Attempt.Grant != nil && c.cfg.signer.HasRetired(call.Attempt.Grant.KeyID)
}

const (
	maxAhead = time.Minute // how far another clock may be ahead without consequences
	// aheadOffers bounds how often engines whose clocks differ by hours offer a call to each other.
	aheadOffers = 8
)

// isTimedAhead reports whether a call waits until a time that no clock like this one set: that
// clock was far ahead, or this one was set back.
func (c *core) isTimedAhead(call *toolcall.Call, now time.Time) bool {
	switch t := c.toolNamed(call.Tool); {
	case call.Phase() == toolcall.PhaseRetrying:
		return call.RetryAt.Sub(now) > max(t.Backoff, maxBackoff)+maxAhead
	case call.Phase() == toolcall.PhaseQueued && call.Attempt.Grant != nil:
		return call.Attempt.Grant.NotBefore.Sub(now) > maxAhead && call.Attempt.Offers < aheadOffers
	}
	return false
}

// toolNamed returns the engine's configuration of a tool. An unknown tool has the
// defaults: it may have been removed while calls of it are open.
func (c *core) toolNamed(name string) Tool {
	if t, ok := c.tools[name]; ok {
		return t
	}
	return Tool{}.withDefaults()
}

// currentKeys returns the keys with which approvers sign now, or nil if this engine knows none.
func (c *core) currentKeys() toolcall.ApproverKeys {
	if c.cfg.approverKeys == nil {
		return nil
	}
	return c.cfg.approverKeys()
}

// selfPrincipal is the engine as a principal, for what timers and the policy do.
func (c *core) selfPrincipal() toolcall.Principal {
	return toolcall.Principal{Role: toolcall.RoleEngine, Name: c.cfg.id, Auth: "in-process"}
}

// blindError is the error for a request that needs the view when the engine no longer
// follows the journal.
func (c *core) blindError() error {
	if c.ctx.Err() != nil {
		return &message.Error{Code: message.CodeUnavailable, What: "the engine is stopping", Hint: "ask again, or try another replica"}
	}
	return &message.Error{Code: message.CodeUnavailable, What: "the engine can no longer follow the journal", Hint: "close it and start a new one; meanwhile try another replica", Err: context.Cause(c.store.Following())}
}

// errNoChange ends an update that has nothing to change.
var errNoChange = store.ErrNoChange

// baseNow is the time of the engine's next step.
func baseNow() toolcall.Base { return toolcall.Base{At: store.JournalTime()} }

// Estimated sizes of the event records that an open call still needs, for Owed.
const (
	recordBytes = 2 << 10 // twice the size of most: a vote, a grant, a short result
	inputTimes  = 5       // quarters: JSON text is a quarter longer; only a proposal and an edit store the input
)

// Owed estimates how many more bytes of the journal the open calls need before they
// are finished. Pass it to the journal, which keeps that much space free.
func (e *Engine) Owed() int64 {
	sum := int64(0)
	for _, c := range e.view.OpenCalls() {
		sum += int64(recordsLeft(c)) * recordBytes
		if p := c.Phase(); p == toolcall.PhaseWaiting || p == toolcall.PhaseAsking { // an edit may store the input again
			sum += int64(len(c.Input) * inputTimes / 4)
		}
	}
	return sum
}

// recordsLeft is how many more event records an open call needs if nothing goes wrong.
func recordsLeft(c *toolcall.Call) int {
	switch c.Phase() {
	case toolcall.PhaseWaiting:
		return 4 // asked; approved and offered; started; its result
	case toolcall.PhaseAsking, toolcall.PhaseRetrying:
		return 3
	case toolcall.PhaseRunning:
		return 1
	default:
		return 2
	}
}

// life is the lifetime of an engine and its goroutines.
type life struct {
	ctx     context.Context //nolint:containedctx // the life of the engine, not of a request; ends with ErrStopping
	stop    context.CancelCauseFunc
	wg      sync.WaitGroup
	jobs    chan struct{} // bounds the background steps that run at once
	closing atomic.Bool   // no new attempt starts
	mu      sync.Mutex    // guards steps, and ensures that no goroutine begins after stop
	steps   int           // in progress: each may start a local call
}

// maxJobs bounds background steps (timers, followers); requests come on their
// callers' goroutines.
const maxJobs = 64

func newLife() *life {
	l := &life{jobs: make(chan struct{}, maxJobs)}
	l.ctx, l.stop = context.WithCancelCause(context.Background())
	return l
}

// stopAndWait stops the engine after at most drain, and waits for all goroutines. runs
// returns how many local calls are running.
func (l *life) stopAndWait(drain time.Duration, runs func() int) {
	if l.closing.CompareAndSwap(false, true) {
		l.waitForRuns(drain, runs)
		l.mu.Lock()
		l.stop(ErrStopping)
		l.mu.Unlock()
	}
	l.wg.Wait()
}

// waitForRuns waits until no local call is running or about to run, but no longer than most.
func (l *life) waitForRuns(most time.Duration, runs func() int) {
	deadline := time.After(most)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		l.mu.Lock()
		steps := l.steps // first: what a step starts is counted before the step ends
		l.mu.Unlock()
		if steps+runs() == 0 {
			return
		}
		select {
		case <-deadline:
			return
		case <-tick.C:
		}
	}
}

// enterStep announces a step that may start a local attempt; leaveStep ends it. Close waits
// for every step entered before it: an attempt on record must run, because no other
// replica could tell that it did not.
func (l *life) enterStep() *life {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps++
	return l
}

func (l *life) leaveStep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps--
}

// startGoroutine runs f on a goroutine that Close waits for. It reports false, and does
// not run f, once the engine has stopped.
func (l *life) startGoroutine(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.wg.Go(f)
	return true
}

// runInBackground runs f as one of the bounded background steps. It gives up
// silently if the engine stops first: the next engine derives the same work from
// the journal.
func (l *life) runInBackground(f func(ctx context.Context)) {
	l.startGoroutine(func() {
		select {
		case l.jobs <- struct{}{}:
			defer func() { <-l.jobs }()
			f(l.ctx)
		case <-l.ctx.Done():
		}
	})
}
