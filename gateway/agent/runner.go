package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Principal is the name under which runners keep their notes, each in its own session,
// "askance.turns/" followed by its ID. No other principal may have that name in a space with a
// runner: it could make the runner act as any user.
const Principal = toolcall.GatewayName

// Config configures a Runner.
type Config struct {
	// As returns the space's engine for a principal. Required.
	As func(toolcall.Principal) engine.Client
	// Agents are the agents; their names must differ. Required.
	Agents []Agent
	// ID distinguishes this process's turns from those of others on the same journal, even after a
	// restart. Default "gateway".
	ID string
	// Tools are the names of the tools that the engine or its workers run: a
	// frontend cannot bring a tool of the same name.
	Tools []string
	Log   *slog.Logger // nil: none
}

// Runner drives the turns of agents in one space. It is safe for concurrent use.
type Runner struct {
	cfg    Config
	agents map[string]Agent
	log    *slog.Logger
	notes  notes

	ctx  context.Context //nolint:containedctx // the life of the runner, not of a request; ends with ErrStopping
	stop context.CancelCauseFunc
	wg   sync.WaitGroup

	mu    sync.Mutex // guards turns; nothing begins after stop
	turns map[turnKey]*turn
}

type turnKey struct {
	session message.SessionID
	reply   message.ReplyID
}

// New makes a runner. Call Resume to start its work.
func New(cfg Config) (*Runner, error) {
	if cfg.As == nil || len(cfg.Agents) == 0 {
		return nil, errors.New("agent: a runner needs an engine and an agent")
	}
	cfg.ID = cmp.Or(cfg.ID, "gateway")
	r := &Runner{cfg: cfg, agents: map[string]Agent{}, log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), turns: map[turnKey]*turn{}}
	for _, a := range cfg.Agents {
		name := a.Info().Name
		if name == "" || r.agents[name] != nil {
			return nil, fmt.Errorf("agent: two agents are named %q, or one has no name", name)
		}
		r.agents[name] = a
	}
	r.notes = notes{as: r.port(toolcall.Principal{Role: toolcall.RoleRuntime, Name: Principal, Auth: "in-process"}), id: cfg.ID}
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	return r, nil
}

func (r *Runner) port(p toolcall.Principal) port {
	return func() engine.Client { return r.cfg.As(p) }
}

// Agents describes the agents, by name.
func (r *Runner) Agents() []Info {
	out := make([]Info, 0, len(r.agents))
	for _, a := range r.agents {
		out = append(out, a.Info())
	}
	slices.SortFunc(out, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Resume continues the turns that an earlier process with the same ID left open. It returns once
// all of them run.
func (r *Runner) Resume(ctx context.Context) error {
	if err := r.notes.bind(ctx); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	open, err := r.notes.open(ctx)
	if err != nil {
		return fmt.Errorf("agent: read the open turns: %w", err)
	}
	for _, n := range open {
		if err := r.resume(ctx, n); err != nil {
			return fmt.Errorf("agent: go on with the reply %s of the session %s: %w", n.Reply, n.Session, err)
		}
	}
	return nil
}

// resume continues a turn if it is open.
func (r *Runner) resume(ctx context.Context, n note) error {
	thread := NewThread()
	if err := thread.read(ctx, r.cfg.As(n.By), n.Session); err != nil {
		return err
	}
	rec := thread.current(n.Reply)
	if rec == nil { // it ended, or never began
		return r.notes.recordClosed(ctx, n)
	}
	r.begin(n, rec, thread)
	return nil
}

// Close tells the running agents to stop and waits for them. Open turns stay open in the journal.
// It may be called twice.
func (r *Runner) Close() error {
	r.mu.Lock()
	r.stop(ErrStopping)
	r.mu.Unlock()
	r.wg.Wait()
	return nil
}

// Running reports whether this runner is making a reply.
func (r *Runner) Running(session message.SessionID, reply message.ReplyID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns[turnKey{session, reply}] != nil
}

// begin runs a turn in its own goroutine, unless the turn already runs or the runner is stopping.
func (r *Runner) begin(n note, rec *Record, thread *Thread) {
	a := r.agents[rec.Agent]
	if a == nil {
		a = missingAgent(rec.Agent)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil || r.turns[n.key()] != nil {
		return
	}
	t := &turn{
		notes: r.notes, note: n, rec: rec, thread: thread, agent: a, as: r.port(n.By),
		log: r.log.With("agent", rec.Agent, "session", string(n.Session), "reply", string(n.Reply)),
	}
	r.turns[n.key()] = t
	r.wg.Go(func() {
		t.run(r.ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.turns, n.key())
	})
}

// missingAgent stands in for an agent that was removed.
type missingAgent string

func (m missingAgent) Info() Info { return Info{Name: string(m)} }

func (m missingAgent) Run(context.Context, Turn) error {
	return &ReplyError{Type: message.ErrorSetup, What: "the agent " + string(m) + " is not available any more"}
}

// Runners are the runners of several spaces.
type Runners map[toolcall.SpaceID]*Runner

// Of returns the runner of a space, or an error with message.CodeNotFound if no agent runs there.
func (r Runners) Of(space toolcall.SpaceID) (*Runner, error) {
	if one := r[space]; one != nil {
		return one, nil
	}
	return nil, &message.Error{Code: message.CodeNotFound, Op: "find agent", What: "no agent runs in the space " + string(space), Hint: "start the gateway with an agent"}
}
