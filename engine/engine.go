package engine

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/engine/internal/schedule"
	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/message"
)

// ErrStopping is the cause with which an engine that closes ends its work.
var ErrStopping = errors.New("the engine is stopping")

// Engine decides and orders the calls of one space. Any number of engines may
// work on one journal. Make one with New, begin with Start, end with Close;
// act through As.
type Engine struct {
	space   message.SpaceID
	journal Journal
	policy  Policy
	tools   map[string]Tool
	cfg     config
	log     *slog.Logger

	view     *view.View
	store    *store.Store
	timers   *schedule.Timers
	liveness *schedule.Liveness
	clocks   *schedule.Clocks

	ctx     context.Context //nolint:containedctx // the life of the engine, not of a request; ends with ErrStopping
	stop    context.CancelCauseFunc
	wg      sync.WaitGroup
	jobs    chan struct{} // bounds the background steps that run at once
	folding chan struct{} // the same for requests that read the whole journal

	closing atomic.Bool // no new request is taken
	mu      sync.Mutex  // guards all below, and that no goroutine begins after stop
	steps   int         // being taken: each may end in a run
	running map[localRun]context.CancelCauseFunc
	looking map[message.Key]bool // replies with a look that waits for its moment

	failed chan error // the watch's end; has room for one
}

// maxJobs bounds background steps (timers, followers); requests come on their
// callers' goroutines.
const maxJobs = 64

// New makes an engine for a space. Start begins its work.
func New(space message.SpaceID, journal Journal, policy Policy, tools []Tool, opts ...Option) (*Engine, error) {
	cfg := config{log: slog.New(slog.DiscardHandler), grace: time.Second, drain: 10 * time.Second, keep: 4096, version: "devel", signals: noSignals{}, executor: noExecutor{}}
	for _, o := range opts {
		if err := o(&cfg); err != nil {
			return nil, fmt.Errorf("engine: %w", err)
		}
	}
	if journal == nil || policy == nil {
		return nil, errors.New("engine: journal and policy are required")
	}
	if cfg.id == "" {
		cfg.id = "eng_" + store.RandomHex(6)
	}
	if cfg.signer == nil {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("engine: make a signing key: %w", err)
		}
		cfg.signer = oneKey(key)
	}
	e := &Engine{
		space: space, journal: journal, policy: dutiful{policy, Duties()}, tools: map[string]Tool{}, cfg: cfg,
		log:  cfg.log.With("engine", cfg.id, "space", string(space)),
		view: view.New(cfg.keep), timers: schedule.NewTimers(), liveness: schedule.NewLiveness(), clocks: schedule.NewClocks(cfg.log.With("engine", cfg.id)),
		jobs: make(chan struct{}, maxJobs), folding: make(chan struct{}, 1), running: map[localRun]context.CancelCauseFunc{}, looking: map[message.Key]bool{},
		failed: make(chan error, 1),
	}
	for _, t := range tools {
		if t.Name == "" {
			return nil, errors.New("engine: a tool has no name")
		}
		if _, twice := e.tools[t.Name]; twice {
			return nil, fmt.Errorf("engine: tool %q is defined twice", t.Name)
		}
		if err := CheckLease(t.Lease); err != nil {
			return nil, fmt.Errorf("engine: tool %q: %w", t.Name, err)
		}
		e.tools[t.Name] = t.withDefaults()
	}
	e.view.Reviewers.Limit(cfg.reviewers)
	e.ctx, e.stop = context.WithCancelCause(context.Background())
	e.store = store.New(e.ctx, space, cfg.id, journal, e.view, e.log, store.Hooks{
		News:    e.follow,
		Stored:  func(at, stored time.Time) { e.clocks.CompareJournal(at, stored, time.Now()) },
		Written: e.perform,
	})
	return e, nil
}

// ID is the replica's name.
func (e *Engine) ID() string { return e.cfg.id }

// PublicKey is what workers verify the grants with that this engine signs now.
func (e *Engine) PublicKey() ed25519.PublicKey {
	return e.cfg.signer.SigningKey().Public().(ed25519.PublicKey)
}

// Start reads the journal up to its present end, then resumes every open call
// and returns. It fails when the journal cannot be read or ctx ends first; the
// engine is then closed.
func (e *Engine) Start(ctx context.Context) error {
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
	e.wg.Go(func() { e.timers.Run(e.store.Following(), e.liveness, e.fire) })
	e.recover()
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
	if e.closing.CompareAndSwap(false, true) {
		e.drain()
		e.mu.Lock()
		e.stop(ErrStopping)
		e.mu.Unlock()
	}
	e.wg.Wait()
	return nil
}

// blindError refuses what an engine that does not follow the journal (any more)
// cannot answer.
func (e *Engine) blindError(op string) error {
	if e.ctx.Err() != nil {
		return &message.Error{Code: message.CodeUnavailable, Op: op, What: "the engine is stopping", Hint: "ask again, or try another replica"}
	}
	return &message.Error{Code: message.CodeUnavailable, Op: op, What: "the engine cannot follow the journal any more", Hint: "close it and start a new one; meanwhile try another replica", Err: context.Cause(e.store.Following())}
}

// drain waits until no local call runs or is about to, at most the drain time.
func (e *Engine) drain() {
	deadline := time.NewTimer(e.cfg.drain)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		e.mu.Lock()
		busy := e.steps + len(e.running)
		e.mu.Unlock()
		if busy == 0 {
			return
		}
		select {
		case <-deadline.C:
			return
		case <-tick.C:
		}
	}
}

// enter announces a step that may start a local attempt; what it returns ends
// it. Whoever enters before Close is waited for: a start that is on record has
// to be run, or nobody could tell that it was not.
func (e *Engine) enter() (leave func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.steps++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.steps--
	}
}

// canRun reports whether an attempt of a tool may be started here; only within
// a step.
func (e *Engine) canRun(tool string) bool {
	return !e.closing.Load() && e.cfg.executor.Has(tool)
}

// background runs f on a goroutine that Close waits for. It gives up silently
// when the engine stops first: whatever f would do is derived again from the
// journal.
func (e *Engine) background(f func(ctx context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return
	}
	e.wg.Go(func() {
		select {
		case e.jobs <- struct{}{}:
			defer func() { <-e.jobs }()
			f(e.ctx)
		case <-e.ctx.Done():
		}
	})
}

// noSignals is the Signals of an engine that nobody listens to.
type noSignals struct{}

func (noSignals) Hint(*message.Call)                                             {}
func (noSignals) Cancel(message.Queue, string, message.HeartbeatRequest, string) {}
func (noSignals) Beat(string, string, message.HeartbeatRequest)                  {}
func (noSignals) Progress(*message.Call, message.ProgressRequest)                {}

// noExecutor runs nothing.
type noExecutor struct{}

func (noExecutor) Has(string) bool { return false }
func (noExecutor) Run(_ context.Context, inv message.Invocation, _ func(string)) message.ToolResultBlock {
	return message.ToolResultBlock{ID: inv.Call.Call, Name: inv.Call.Tool, State: message.ToolResultError,
		Output: message.Content{Text: "no executor"}}
}
