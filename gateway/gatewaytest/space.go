package gatewaytest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// Space is one space of a world. Only As, Client and HTTP may be called from goroutines other
// than the test's.
type Space struct {
	ID toolcall.SpaceID

	w        *World
	nc       *nats.Conn
	journal  *journal.Journal
	proofs   *journal.Proofs
	fault    *faulty
	tools    []engine.Tool
	released chan struct{}
	progress gateway.Listeners
	release  sync.Once

	mu      sync.Mutex // guards the fields below
	engine  *engine.Engine
	service *bus.Service
}

func (w *World) space(id toolcall.SpaceID) *Space {
	w.t.Helper()
	s := &Space{ID: id, w: w, tools: append(tools(w.t), w.o.tools...), released: make(chan struct{})}
	s.nc = w.conn(creds.EngineName)
	var err error
	if s.journal, err = journal.Open(w.t.Context(), s.nc, id, w.keys, journal.Options{Durability: journal.DurabilityCached}); err != nil {
		w.t.Fatalf("open the journal of %s: %v", id, err)
	}
	ledger, err := journal.OpenLedger(w.t.Context(), s.journal, journal.LedgerOptions{Existing: true, Engine: creds.EngineName})
	if err != nil {
		w.t.Fatalf("open the ledger of %s: %v", id, err)
	}
	s.proofs = journal.NewProofs(ledger)
	s.fault = &faulty{Journal: s.journal}
	s.start()
	w.t.Cleanup(s.stop)
	w.t.Cleanup(func() { s.Break(Works) })
	return s
}

func (w *World) conn(principal string) *nats.Conn {
	w.t.Helper()
	nc, err := w.bus.Connect(context.Background(), bus.ConnectOptions{Principal: principal})
	if err != nil {
		w.t.Fatalf("connect as %s: %v", principal, err)
	}
	w.t.Cleanup(nc.Close)
	return nc
}

// start starts an engine, and its service over NATS.
func (s *Space) start() {
	t := s.w.t
	t.Helper()
	decides := s.w.o.policy
	if decides == nil {
		decides = CompilePolicy(t, s.w.o.rules, s.tools)
	}
	e, err := engine.New(s.ID, s.fault, decides, s.tools, append([]engine.Option{
		engine.WithExecutor(local(t, s.released, s.w.o.tools)), engine.WithDirectory(gateway.Directory{Next: people}), engine.WithSigningKey(s.w.keys.Signer()),
		engine.WithSignals(tee{bus.NewSignals(s.nc, s.ID, nil), s}), engine.WithDrain(0), engine.WithProofs(s.proofs), engine.WithPolicyText(s.policyText),
	}, s.w.o.engine...)...)
	if err == nil {
		err = e.Start(t.Context())
	}
	if err != nil {
		t.Fatalf("start the engine of %s: %v", s.ID, err)
	}
	service, err := bus.Serve(context.Background(), s.nc, s.journal, func(p toolcall.Principal, queue toolcall.Queue) api.Caller {
		if p.Role == toolcall.RoleWorker {
			return e.Worker(p, queue)
		}
		return e.As(p)
	}, bus.ServiceOptions{Observer: e})
	if err != nil {
		t.Fatalf("serve %s: %v", s.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine, s.service = e, service
}

// policyText returns the text of a policy that is not stored in a file.
func (s *Space) policyText(string) (api.PolicyTextReply, bool) {
	return api.PolicyTextReply{Engine: string(s.ID), Files: []api.PolicyFileText{}, Rules: []api.PolicyRuleText{}}, true
}

func (s *Space) stop() {
	s.mu.Lock()
	e, service := s.engine, s.service
	s.mu.Unlock()
	service.Close()
	_ = e.Close() // always nil
}

// Restart replaces the engine with a new one on the same journal, as after a crash of its
// process. The gateway keeps running.
func (s *Space) Restart() {
	s.w.t.Helper()
	s.stop()
	s.start()
}

// Release ends all current and future calls of Slow.
func (s *Space) Release() { s.release.Do(func() { close(s.released) }) }

// Gateway returns the space as a gateway needs it. The result stays valid across Restart.
func (s *Space) Gateway() *gateway.Space {
	return &gateway.Space{ID: s.ID, As: s.As, Worker: s.worker, Watch: s.journal.WatchNew, Progress: s.progress.Add, Tools: s.tools, Ready: s.fault.ready, Show: func(c *toolcall.Call) *toolcall.Call {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.engine.Show(c)
	}}
}

// Journal returns the space's journal.
func (s *Space) Journal() *journal.Journal { return s.journal }

// Outbox opens the outbox of the space, as another process would.
func (s *Space) Outbox() *journal.Outbox {
	s.w.t.Helper()
	o, err := journal.OpenOutbox(context.Background(), s.journal)
	if err != nil {
		s.w.t.Fatalf("open the outbox of %s: %v", s.ID, err)
	}
	return o
}

// Followed waits until a gateway follows the outbox for a destination. From then on the gateway
// receives every event.
func (s *Space) Followed(destination string) {
	t := s.w.t
	t.Helper()
	js, err := jetstream.New(s.nc)
	if err != nil {
		t.Fatalf("follow %s: %v", destination, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for look := time.NewTicker(5 * time.Millisecond); ; <-look.C {
		_, err := js.Consumer(ctx, bus.StreamName(s.ID), "h_"+destination)
		if err == nil {
			look.Stop()
			return
		}
		if !errors.Is(err, jetstream.ErrConsumerNotFound) {
			t.Fatalf("no gateway follows the outbox for %s: %v", destination, err)
		}
	}
}

// As returns the current engine for a principal.
func (s *Space) As(by toolcall.Principal) engine.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.As(by)
}

// worker returns the current engine for a worker over HTTP.
func (s *Space) worker(by toolcall.Principal, queues []toolcall.Queue) api.Caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.RemoteWorker(by, queues)
}

// tee also passes progress to the gateway.
type tee struct {
	engine.Signals
	s *Space
}

// Progress implements engine.Signals.
func (t tee) Progress(c *toolcall.Call, p toolcall.ProgressRequest) {
	t.s.progress.Tell(p)
	t.Signals.Progress(c, p)
}

// HTTP returns a client with the token of one of the names of this package.
func (s *Space) HTTP(name string) *http.Client { return s.w.WithToken(s.Token(name)) }

// Client returns the engine for one of the names, in this process.
func (s *Space) Client(name string) engine.Client {
	return s.As(toolcall.Principal{Role: RoleOf(name), Name: name})
}

// NATS returns the engine for one of the names over NATS.
func (s *Space) NATS(name string) *bus.Client {
	s.w.t.Helper()
	c, err := bus.NewClient(s.w.conn(name), s.ID, toolcall.Principal{Role: RoleOf(name), Name: name})
	if err != nil {
		s.w.t.Fatalf("client %s: %v", name, err)
	}
	return c
}

// Work runs a worker of a remote tool until the test ends. The worker returns its input.
func (s *Space) Work(tool string) {
	t := s.w.t
	t.Helper()
	transport, err := bus.NewWorker(s.w.conn("wk-"+tool), s.ID, tool, "wk-"+tool, nil)
	if err != nil {
		t.Fatalf("worker of %s: %v", tool, err)
	}
	keys := toolcall.KeySet{}
	keys[toolcall.KeyID(s.w.keys.Public())] = s.w.keys.Public()
	echo := func(_ context.Context, task executor.Task) (executor.Output, error) {
		task.Progress("working")
		return executor.Text(string(task.Input)), nil
	}
	wk, err := executor.NewWorker(transport, tool, echo, keys, executor.WithDrainTimeout(time.Second))
	if err != nil {
		t.Fatalf("worker of %s: %v", tool, err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = wk.Run(context.Background()) }) // its error at the end does not matter
	t.Cleanup(func() { _ = wk.Close(); wg.Wait() })
}

// Lose proposes a call of Frail whose worker starts it and then goes silent. The outcome of the
// call is unknown, and it waits for an operator.
func (s *Space) Lose(session, reply, call string) toolcall.Key {
	t := s.w.t
	t.Helper()
	k := s.Propose(session, reply, call, Frail, `{}`).Key
	wk, err := bus.NewWorker(s.w.conn("wk-lost"), s.ID, Frail, "wk-lost", nil)
	if err != nil {
		t.Fatalf("worker of %s: %v", Frail, err)
	}
	task, err := wk.Next(t.Context())
	if err != nil {
		t.Fatalf("take %s: %v", k, err)
	}
	c := task.Record.Call
	if _, err := wk.Start(t.Context(), toolcall.StartRequest{V: 1, Key: c.Key, Attempt: c.Attempt.Number, Claim: "lost", Request: "lost", Nonce: c.Attempt.Grant.Nonce}); err != nil {
		t.Fatalf("start %s: %v", k, err)
	}
	if err := task.Ack(t.Context()); err != nil {
		t.Fatalf("acknowledge %s: %v", k, err)
	}
	return k
}
