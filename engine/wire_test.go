package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// wire connects one engine to the journal of a test. A test can refuse, delay or cut off what
// the engine reads and writes, as a bad network does.
type wire struct {
	engine.Journal

	mu     sync.Mutex // guards the fields below
	last   func(key toolcall.Key) error
	stored func(rec *toolcall.EventRecord) // after each event record of this engine
	hold   chan struct{}                   // non-nil: the watch delivers nothing until it is closed
	writes chan struct{}                   // the same for writes
	acks   chan struct{}                   // the same for acknowledgements
	dead   bool
}

var errWire = &message.Error{Code: message.CodeUnavailable, Op: "wire", What: "the journal is out of reach", Hint: "try again"}

// onLast lets f refuse reads of an entity's last record.
func (w *wire) onLast(f func(key toolcall.Key) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = f
}

// onStored calls f with each event record that the engine has stored, before the engine
// receives the acknowledgement.
func (w *wire) onStored(f func(rec *toolcall.EventRecord)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stored = f
}

// lag holds back the watch, or lets it continue.
func (w *wire) lag(on bool) { w.toggle(&w.hold, on) }

// holdWrites holds back writes, mute their acknowledgements.
func (w *wire) holdWrites(on bool) { w.toggle(&w.writes, on) }
func (w *wire) mute(on bool)       { w.toggle(&w.acks, on) }

func (w *wire) toggle(hold *chan struct{}, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if *hold != nil {
		close(*hold)
	}
	if *hold = nil; on {
		*hold = make(chan struct{})
	}
}

// cut cuts the engine off, which to the journal looks like the death of its process.
func (w *wire) cut() {
	w.mu.Lock()
	w.dead = true
	w.mu.Unlock()
	w.lag(false)
	w.holdWrites(false)
	w.mute(false)
}

// pass waits while held is set, and reports whether the engine is then still alive and ctx has
// not ended.
func (w *wire) pass(ctx context.Context, held *chan struct{}) bool {
	for {
		w.mu.Lock()
		hold, dead := *held, w.dead
		w.mu.Unlock()
		if hold == nil || dead {
			return !dead
		}
		select {
		case <-hold:
		case <-ctx.Done():
			return false
		}
	}
}

func (w *wire) Append(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (uint64, error) {
	if !w.pass(ctx, &w.writes) {
		return 0, errWire
	}
	seq, err := w.Journal.Append(ctx, rec, prev)
	w.mu.Lock()
	stored := w.stored
	w.mu.Unlock()
	if err == nil && stored != nil {
		stored(rec)
	}
	if !w.pass(ctx, &w.acks) {
		return 0, &message.Error{Code: message.CodeUnknownOutcome, Op: "wire", What: "no acknowledgement came", Hint: "look whether it was stored"}
	}
	return seq, err
}

func (w *wire) Last(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error) {
	w.mu.Lock()
	refuse, dead := w.last, w.dead
	w.mu.Unlock()
	if dead {
		return toolcall.JournalEntry{}, errWire
	}
	if refuse != nil {
		if err := refuse(key); err != nil {
			return toolcall.JournalEntry{}, err
		}
	}
	return w.Journal.Last(ctx, key)
}

func (w *wire) Watch(ctx context.Context, after uint64, sink toolcall.Sink) error {
	return w.Journal.Watch(ctx, after, &wiredSink{w, ctx, sink})
}

type wiredSink struct {
	w    *wire
	ctx  context.Context //nolint:containedctx // its life is the struct's
	sink toolcall.Sink
}

func (s *wiredSink) ready() bool { return s.w.pass(s.ctx, &s.w.hold) }

func (s *wiredSink) Wants(seq uint64, id string, stored time.Time) bool {
	return s.ready() && s.sink.(toolcall.ChoosySink).Wants(seq, id, stored)
}

func (s *wiredSink) Record(r toolcall.JournalEntry) {
	if s.ready() {
		s.sink.Record(r)
	}
}

func (s *wiredSink) CaughtUp() { s.sink.CaughtUp() }

// wired is a world in which the test chooses the order of everything: fake time, a journal in
// memory, engines on wires, and tools that the runtime itself runs, so that each call ends
// when the test reports its result.
type wired struct {
	*testing.T
	journal *engine.Memory
	engines []*engine.Engine
	wires   []*wire
}

// The tools of a wired world, in addition to serial and remote.
const (
	asks = "asks" // no rule: asks, and suggests a rule
	safe = "safe" // allowed
	two  = "two"  // two people must agree

	serialAsks = "serial_asks" // as asks, not concurrency-safe
)

// wiredGrace is the grace of the engines of a wired world.
const wiredGrace = time.Second

func inWires(t *testing.T, engines int, f func(w *wired), opts ...engine.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &wired{T: t, journal: engine.NewMemory()}
		for range engines {
			w.start(opts...)
		}
		f(w)
	})
}

// start adds an engine to the world and returns its index.
func (w *wired) start(opts ...engine.Option) int {
	w.Helper()
	w.engines, w.wires = append(w.engines, nil), append(w.wires, nil)
	w.replace(len(w.engines)-1, opts...)
	return len(w.engines) - 1
}

// replace starts an engine in place of engine i.
func (w *wired) replace(i int, opts ...engine.Option) {
	w.Helper()
	var tools []engine.Tool
	var known []permission.Tool
	for _, name := range []string{asks, serial, safe, remote, two, serialAsks} {
		tool := engine.Tool{Tool: permission.Tool{Name: name}, Placement: toolcall.PlaceExternal, ConcurrencySafe: name != serial && name != serialAsks}
		if name == remote {
			tool.Placement = toolcall.PlaceRemote
		}
		tools, known = append(tools, tool), append(known, tool.Tool)
	}
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{
		{Name: "free", Tools: []string{serial, safe, remote}, Behavior: message.BehaviorAllow},
		{Name: "both", Tools: []string{two}, Behavior: message.BehaviorAsk, Quorum: 2},
	}}, permission.Options{Tools: known, Enforced: engine.Duties()})
	if err != nil {
		w.Fatal(err)
	}
	wire := &wire{Journal: w.journal}
	e, err := engine.New("default", wire, policy, tools, append([]engine.Option{engine.WithGrace(wiredGrace), engine.WithDrain(time.Second)}, opts...)...)
	if err != nil {
		w.Fatal(err)
	}
	if err := e.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		wire.cut()
		_ = e.Close() // says nothing that a test wants to know
	})
	w.engines[i], w.wires[i] = e, wire
}

func (w *wired) as(i int, role toolcall.Role, name string) *engine.Port {
	return w.engines[i].As(toolcall.Principal{Role: role, Name: name})
}

func bareCall(id message.CallID, tool string) message.ToolCallBlock {
	return message.ToolCallBlock{ID: id, Name: tool, Input: `{}`}
}

func callKey(id message.CallID) toolcall.Key {
	return toolcall.Key{Space: "default", Session: "s", Reply: "r", Call: id}
}

// propose proposes calls through engine i.
func (w *wired) propose(i int, blocks ...message.ToolCallBlock) {
	w.Helper()
	if _, err := w.as(i, toolcall.RoleRuntime, "bot").Propose(w.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: blocks}); err != nil {
		w.Fatal(err)
	}
}

// report ends a call through engine i.
func (w *wired) report(i int, id message.CallID) {
	w.Helper()
	result := message.ToolResultBlock{State: message.ToolResultSuccess, Output: message.Content{Text: "done"}}
	if _, err := w.as(i, toolcall.RoleRuntime, "bot").Report(w.Context(), toolcall.ReportRequest{Key: callKey(id), Result: result}); err != nil {
		w.Fatal(err)
	}
}

// approve answers a call's approval request through engine i.
func (w *wired) approve(i int, id message.CallID) {
	w.Helper()
	if _, err := w.as(i, toolcall.RoleApprover, "ann").SubmitResponse(w.Context(), toolcall.Response{Key: callKey(id), Kind: toolcall.ResponseApprove, Digest: w.now(id).Digest}); err != nil {
		w.Fatal(err)
	}
}

// pass lets time pass and waits until every goroutine is idle.
func (w *wired) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// now returns a call from the journal.
func (w *wired) now(id message.CallID) *toolcall.Call {
	w.Helper()
	r, err := w.journal.Last(w.Context(), callKey(id))
	if err != nil || r.Record == nil {
		w.Fatalf("%s: %v, %v", id, err, r.Invalid)
	}
	return r.Record.Call
}

// want checks a call's state, and the call behind whose approval request it hides.
func (w *wired) want(id message.CallID, state message.ToolCallState, behind message.CallID) {
	w.Helper()
	if c := w.now(id); c.State != state || c.Behind != behind {
		w.Errorf("%s is %s behind %q, want %s behind %q", id, c.State, c.Behind, state, behind)
	}
}
