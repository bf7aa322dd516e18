package bus_test

import (
	"context"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// world is a server, a journal, and engines with their services.
type world struct {
	*bustest.Bus
	t      testing.TB
	logins map[string]string // credentials files by principal, in a world that has them
	opened journal.Options   // of the journals of engines
}

// Tools of the tests.
const (
	echo     = "echo"      // local, allowed
	pay      = "pay"       // local, asks
	job      = "job"       // remote, allowed
	otherJob = "other.job" // remote, allowed
	outside  = "outside"   // external, allowed
)

func newWorld(t testing.TB, opts ...bustest.Option) *world {
	t.Helper()
	return &world{Bus: bustest.New(t, opts...), t: t}
}

// replica is an engine and its service.
type replica struct {
	*engine.Engine
	service *bus.Service
	nc      *nats.Conn
}

// runner runs the local tools.
type runner struct{}

func (runner) Has(tool string) bool { return tool == echo || tool == pay }

func (runner) Run(_ context.Context, inv toolcall.Invocation, progress func(string)) message.ToolResultBlock {
	progress("running")
	return message.ToolResultBlock{ID: inv.Call.Call, Name: inv.Call.Tool, State: message.ToolResultSuccess, Output: message.Content{Text: inv.Call.Input}}
}

// space describes the space for which an engine is started.
type space struct {
	name  toolcall.SpaceID
	tools []engine.Tool
	rules []permission.Rule
}

func tool(name string, p toolcall.Placement) engine.Tool {
	return engine.Tool{Tool: permission.Tool{Name: name}, Placement: p, ConcurrencySafe: true}
}

// engine starts an engine for the space "test" with its service. wrap wraps the engine for the
// service.
func (w *world) engine(o bus.ServiceOptions, wrap ...func(api.Caller) api.Caller) *replica {
	w.t.Helper()
	return w.engineOf(testSpace(), o, wrap...)
}

func testSpace() space {
	return space{
		name:  "test",
		tools: []engine.Tool{tool(echo, toolcall.PlaceLocal), tool(pay, toolcall.PlaceLocal), tool(job, toolcall.PlaceRemote), tool(otherJob, toolcall.PlaceRemote), tool(outside, toolcall.PlaceExternal)},
		rules: []permission.Rule{
			{Name: "free", Tools: []string{echo, job, otherJob, outside}, Behavior: message.BehaviorAllow},
			{Name: "money", Tools: []string{pay}, Behavior: message.BehaviorAsk},
		},
	}
}

func (w *world) engineOf(sp space, o bus.ServiceOptions, wrap ...func(api.Caller) api.Caller) *replica {
	w.t.Helper()
	return w.engineOn(w.Conn("engine"), sp, o, wrap...)
}

func (w *world) engineOn(nc *nats.Conn, sp space, o bus.ServiceOptions, wrap ...func(api.Caller) api.Caller) *replica {
	w.t.Helper()
	j, err := journal.Open(context.Background(), nc, sp.name, w.Keys(), w.opened)
	if err != nil {
		w.t.Fatal(err)
	}
	var known []permission.Tool
	for _, t := range sp.tools {
		known = append(known, t.Tool)
	}
	policy, err := permission.Compile(permission.Policy{Rules: sp.rules}, permission.Options{Tools: known, Enforced: engine.Duties()})
	if err != nil {
		w.t.Fatal(err)
	}
	e, err := engine.New(sp.name, j, policy, sp.tools, engine.WithExecutor(runner{}), engine.WithSignals(bus.NewSignals(nc, sp.name, nil)), engine.WithSigningKey(w.Keys().Signer()))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := e.Start(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	if o.Observer == nil {
		o.Observer = e
	}
	s, err := bus.Serve(context.Background(), nc, j, func(p toolcall.Principal, queue toolcall.Queue) api.Caller {
		var s api.Caller = e.As(p)
		if p.Role == toolcall.RoleWorker {
			s = e.Worker(p, queue)
		}
		for _, f := range wrap {
			s = f(s)
		}
		return s
	}, o)
	if err != nil {
		w.t.Fatal(err)
	}
	r := &replica{Engine: e, service: s, nc: nc}
	w.t.Cleanup(r.stop)
	return r
}

func (r *replica) stop() {
	r.service.Close()
	_ = r.Close() // always nil
}

// client returns a client on a new connection.
func (w *world) client(role toolcall.Role, name string) *bus.Client {
	w.t.Helper()
	return w.clientOn(w.Conn(name), role, name)
}

func (w *world) clientOn(nc *nats.Conn, role toolcall.Role, name string) *bus.Client {
	w.t.Helper()
	c, err := bus.NewClient(nc, "test", toolcall.Principal{Role: role, Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// journalWithQueue opens the journal and creates the queue of the tool job.
func (w *world) journalWithQueue(t testing.TB) *journal.Journal {
	t.Helper()
	j := w.Journal("test")
	if err := j.EnsureQueue(t.Context(), toolcall.Queue{Tool: job}); err != nil {
		t.Fatal(err)
	}
	return j
}

// tasks serves only requests for tasks, without an engine.
func (w *world) tasks() {
	w.t.Helper()
	w.tasksOn(w.Conn("engine"))
}

func (w *world) tasksOn(nc *nats.Conn) {
	w.t.Helper()
	j, err := journal.Open(context.Background(), nc, "test", w.Keys(), journal.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := bus.Serve(context.Background(), nc, j, nil, bus.ServiceOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
}

func (w *world) worker(tool, name string) *bus.Worker {
	w.t.Helper()
	wk, err := bus.NewWorker(w.Conn(name), "test", tool, name, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return wk
}

// toolCall is one proposed call.
func toolCall(id, tool, input string) message.ToolCallBlock {
	return message.ToolCallBlock{ID: message.CallID(id), Name: tool, Input: input, State: message.ToolCallPending}
}

// propose proposes calls of the reply r1 of the session s1.
func propose(t testing.TB, c engine.Client, calls ...message.ToolCallBlock) []*toolcall.Call {
	t.Helper()
	rep, err := c.Propose(t.Context(), toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: calls})
	if err != nil {
		t.Fatalf("propose: %v", err)
	}
	return rep.Calls
}

// finished waits until the calls of r1 are finished.
func finished(t testing.TB, c engine.Client, ids ...message.CallID) []*toolcall.Call {
	t.Helper()
	rep, err := c.Wait(t.Context(), toolcall.WaitRequest{Session: "s1", Reply: "r1", Calls: ids, TimeoutMS: bustest.Patience.Milliseconds()})
	if err != nil || !rep.Done {
		t.Fatalf("wait: done %v, %v", rep.Done, err)
	}
	return rep.Calls
}
