package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/engine/journaltest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func spaceOf(j engine.Journal) toolcall.SpaceID {
	if s, ok := j.(interface{ Space() toolcall.SpaceID }); ok {
		return s.Space()
	}
	return journaltest.Space
}

// patience is how long a test waits for something that must happen. Only a failing test uses
// it up.
const patience = 25 * time.Second

// grace is the grace of the engines in these tests. It is short, so that tests of one replica
// stepping in for another are fast.
const grace = 50 * time.Millisecond

// drain is how long a closing engine waits for its runs. A killed engine waits that long in
// vain if its run has ended, because the result is lost.
const drain = 200 * time.Millisecond

// world is one journal, its engines, and the outside world on which their calls have effects.
// It audits the journal when the test ends.
type world struct {
	*testing.T
	ctx     context.Context //nolint:containedctx // its life is the struct's
	journal engine.Journal
	space   toolcall.SpaceID
	policy  *policy
	effects *effects
	hub     *hub
	snaps   *sharedSnapshots // of a journal in memory

	mu      sync.Mutex // guards engines
	engines []*replica
}

// replica is an engine with the cord that connects it to the journal.
type replica struct {
	*engine.Engine
	w     *world
	cord  *cord
	tools *runner
}

func newWorld(ctx context.Context, t *testing.T, open newJournal) *world {
	t.Helper()
	j := open(t)
	w := &world{T: t, ctx: ctx, journal: j, space: spaceOf(j), policy: newPolicy(t), hub: &hub{}}
	if m, ok := j.(*engine.Memory); ok {
		w.snaps = &sharedSnapshots{memorySnapshots: memorySnapshots{Memory: m}}
	}
	w.effects = &effects{w: w, gates: map[toolcall.Key]chan struct{}{}}
	t.Cleanup(func() {
		w.closeAll()
		w.audit()
	})
	return w
}

// Context ends with the test, or when the test has taken too long.
func (w *world) Context() context.Context { return w.ctx }

// engine starts an engine on the world's journal.
func (w *world) engine(opts ...engine.Option) *replica {
	w.Helper()
	r := w.unstarted(opts...)
	if err := r.Start(w.Context()); err != nil {
		w.Fatalf("start an engine: %v", err)
	}
	return r
}

func (w *world) unstarted(opts ...engine.Option) *replica {
	w.Helper()
	r := &replica{w: w, cord: newCord(w.journal), tools: &runner{effects: w.effects}}
	all := append([]engine.Option{
		engine.WithGrace(grace), engine.WithDrain(drain), engine.WithExecutor(r.tools), engine.WithSignals(&signals{hub: w.hub, r: r}), engine.WithDirectory(people),
	}, opts...)
	if w.snaps != nil {
		all = append(all, engine.WithSnapshots(w.snaps))
	}
	var err error
	if r.Engine, err = engine.New(w.space, r.cord, w.policy, tools(w), all...); err != nil {
		w.Fatalf("make an engine: %v", err)
	}
	r.tools.engine = r.ID()
	w.mu.Lock()
	w.engines = append(w.engines, r)
	w.mu.Unlock()
	w.hub.join(r)
	return r
}

// kill ends an engine as abruptly as the death of its process: from now on nothing it does
// reaches the journal or another engine. Close then ends its goroutines without the journal
// noticing.
func (r *replica) kill() {
	r.w.Helper()
	if r.w.snaps != nil {
		r.w.must(r.SaveSnapshot(r.w.Context()))
	}
	r.cord.cut()
	r.w.hub.leave(r)
	r.tools.die()
	if err := r.Close(); err != nil {
		r.w.Errorf("close a killed engine: %v", err)
	}
}

// stop closes an engine normally.
func (r *replica) stop() {
	r.w.Helper()
	if err := r.Close(); err != nil {
		r.w.Errorf("close an engine: %v", err)
	}
	r.w.hub.leave(r)
}

func (w *world) closeAll() {
	w.effects.releaseAll()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.engines {
		if err := r.Close(); err != nil {
			w.Errorf("close an engine: %v", err)
		}
	}
}

// The principals of the tests.
func (r *replica) bot() *engine.Port      { return r.as(toolcall.RoleRuntime, "bot") }
func (r *replica) ann() *engine.Port      { return r.as(toolcall.RoleApprover, "ann") }
func (r *replica) bob() *engine.Port      { return r.as(toolcall.RoleApprover, "bob") }
func (r *replica) operator() *engine.Port { return r.as(toolcall.RoleOperator, "olga") }
func (r *replica) worker(name string) *engine.Port {
	return r.as(toolcall.RoleWorker, name)
}

func (r *replica) as(role toolcall.Role, name string) *engine.Port {
	return r.As(toolcall.Principal{Role: role, Name: name, Auth: "test"})
}

func (w *world) key(call message.CallID) toolcall.Key {
	return toolcall.Key{Space: w.space, Session: "s", Reply: "r", Call: call}
}

// until calls cond again and again until it returns true.
func (w *world) until(what any, cond func() bool) {
	w.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			w.Fatalf("waited %s in vain until %v", patience, what)
		}
	}
}

// wantErr checks that an error is a *message.Error of want's code that says
// what is wrong, where, and what to do.
func (w *world) wantErr(err error, want *message.Error) {
	w.Helper()
	wantErr(w.T, err, want)
}

// refusal is like wantErr, but returns the error.
func (w *world) refusal(err error, want *message.Error) *message.Error {
	w.Helper()
	return refusal(w.T, err, want)
}

func wantErr(t *testing.T, err error, want *message.Error) {
	t.Helper()
	_ = refusal(t, err, want)
}

func refusal(t *testing.T, err error, want *message.Error) *message.Error {
	t.Helper()
	var e *message.Error
	if !errors.As(err, &e) || e.Code != want.Code {
		t.Fatalf("error = %v, want one with code %s", err, want.Code)
	}
	if e.What == "" || e.Op == "" || e.Hint == "" {
		t.Errorf("error %q (op %q, hint %q) does not say what is wrong, where, and what to do", e.What, e.Op, e.Hint)
	}
	return e
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// waitFor waits until a call satisfies cond on this replica, and returns it.
func (r *replica) waitFor(key toolcall.Key, what string, cond func(*toolcall.Call) bool) *toolcall.Call {
	r.w.Helper()
	var c *toolcall.Call
	r.w.until(later(func() string { return fmt.Sprintf("the call %s is %s (now: %s)", key, what, describe(c)) }), func() bool {
		s, err := r.operator().Show(context.Background(), toolcall.ShowRequest{Key: key})
		if err == nil {
			c = s.Call
		}
		return err == nil && cond(c)
	})
	return c
}

// later is a text that is computed only when it is printed.
type later func() string

func (l later) String() string { return l() }

func describe(c *toolcall.Call) string {
	if c == nil {
		return "unknown"
	}
	return fmt.Sprintf("%s by %s, hold %q, attempt %d of %q, behind %q", c.State, c.Cause, c.Blocked, c.Attempt.Number, c.Attempt.Worker, c.Behind)
}

func (r *replica) finished(key toolcall.Key) *toolcall.Call {
	r.w.Helper()
	return r.waitFor(key, "finished", func(c *toolcall.Call) bool { return !c.Open() })
}

func (r *replica) state(key toolcall.Key, s message.ToolCallState) *toolcall.Call {
	r.w.Helper()
	return r.waitFor(key, string(s), func(c *toolcall.Call) bool { return c.State == s })
}

func (r *replica) held(key toolcall.Key, h toolcall.Blocked) *toolcall.Call {
	r.w.Helper()
	return r.waitFor(key, "held as "+string(h), func(c *toolcall.Call) bool { return c.Blocked == h })
}

// hub carries signals between the engines of a world, as a bus would: a
// heartbeat that one of them sees reaches the others.
type hub struct {
	mu       sync.Mutex // guards the fields below
	replicas []*replica
	hints    []*toolcall.Call
	cancels  []cancelled
	progress []toolcall.ProgressRequest
}

type cancelled struct {
	worker string
	beat   toolcall.HeartbeatRequest
	reason string
}

func (h *hub) join(r *replica) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.replicas = append(h.replicas, r)
}

func (h *hub) leave(r *replica) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.replicas = slices.DeleteFunc(h.replicas, func(o *replica) bool { return o == r })
}

func (h *hub) others(r *replica) []*replica {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.replicas, r) {
		return nil // r is dead
	}
	return slices.DeleteFunc(slices.Clone(h.replicas), func(o *replica) bool { return o == r })
}

// cancelsFor returns the cancels that were sent for a call.
func (h *hub) cancelsFor(key toolcall.Key) []cancelled {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.cancels), func(c cancelled) bool { return c.beat.Key != key })
}

func (h *hub) progressOf(key toolcall.Key) []toolcall.ProgressRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.progress), func(p toolcall.ProgressRequest) bool { return p.Key != key })
}

// signals is one engine's end of the hub.
type signals struct {
	hub *hub
	r   *replica
}

func (s *signals) Hint(c *toolcall.Call) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.hints = append(s.hub.hints, c)
}

func (s *signals) Cancel(_ toolcall.Queue, worker string, b toolcall.HeartbeatRequest, reason string) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.cancels = append(s.hub.cancels, cancelled{worker, b, reason})
}

func (s *signals) Beat(queue toolcall.Queue, engine string, b toolcall.HeartbeatRequest) {
	for _, o := range s.hub.others(s.r) {
		o.ObserveHeartbeat(engine, queue, b)
	}
}

func (s *signals) Progress(_ *toolcall.Call, p toolcall.ProgressRequest) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.progress = append(s.hub.progress, p)
}
