package executortest_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// falseEngine has an engine's NATS login and every message that engines ever sent over NATS, but
// no engine's key. It answers instead of the engines.
type falseEngine struct {
	t     *testing.T
	nc    *nats.Conn
	task  bus.NextReply // a genuine task of a call that may no longer run
	alike []toolcall.StartReply

	mu     sync.Mutex // guards starts and results
	starts int
	told   []toolcall.ResultRequest // results that workers sent
	enough chan struct{}            // closed when it has sent every forged reply
}

// reply returns the forged reply to start number n.
func (f *falseEngine) reply(n int, q toolcall.StartRequest) toolcall.StartReply {
	r := f.alike[n%len(f.alike)]
	if n/len(f.alike)%2 == 1 { // fits the request, with the signature of a genuine reply
		r.Key, r.Attempt, r.Claim, r.Request, r.Nonce, r.IdempotencyKey = q.Key, q.Attempt, q.Claim, q.Request, q.Nonce, q.Key.IdempotencyKey()
	}
	switch n % 3 {
	case 1:
		r.Sig = ""
	case 2:
		_, own, _ := ed25519.GenerateKey(nil)
		id := r.KeyID
		if err := r.Sign(own); err != nil {
			f.t.Error(err)
		}
		r.KeyID = id
	}
	return r
}

func (f *falseEngine) serve(m *nats.Msg) {
	var q struct {
		Op   string          `json:"op"`
		Body json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(m.Data, &q); err != nil {
		f.t.Error(err)
		return
	}
	var body any = struct{}{}
	switch q.Op {
	case "next":
		body = f.task
	case "start":
		var r toolcall.StartRequest
		if err := json.Unmarshal(q.Body, &r); err != nil {
			f.t.Error(err)
		}
		f.mu.Lock()
		body = f.reply(f.starts, r)
		if f.starts++; f.starts == 6*len(f.alike) {
			close(f.enough)
		}
		f.mu.Unlock()
	case "result":
		var r toolcall.ResultRequest
		if err := json.Unmarshal(q.Body, &r); err != nil {
			f.t.Error(err)
		}
		f.mu.Lock()
		f.told = append(f.told, r)
		f.mu.Unlock()
		body = toolcall.ResultReply{Stored: true, State: message.ToolCallFinished}
	}
	data, err := json.Marshal(map[string]any{"v": 1, "body": body})
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil && !f.nc.IsClosed() {
		f.t.Error(err)
	}
}

// A program with an engine's NATS login but without its key cannot make a worker run a revoked
// call or run a call again.
func TestFalseEngine(t *testing.T) {
	b := bustest.New(t)
	const tool = "probe"
	e, stopEngine := genuineEngine(t, b, tool)
	items := map[message.CallID]bus.NextReply{}
	worker, err := bus.NewWorker(connect(t, b, "worker"), "space", tool, "worker", nil)
	if err != nil {
		t.Fatal(err)
	}
	var granted []toolcall.StartReply
	for _, id := range []message.CallID{"ran", "revoked"} {
		if _, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), toolcall.ProposeRequest{
			Session: "s", Reply: message.ReplyID("r-" + id), Calls: []message.ToolCallBlock{{ID: id, Name: tool, Input: "{}", State: message.ToolCallPending}},
		}); err != nil {
			t.Fatal(err)
		}
		task, raw := take(t, b, worker)
		items[id] = raw
		c := task.Record.Call
		if id == "revoked" {
			if _, err := e.As(toolcall.Principal{Role: toolcall.RoleOperator, Name: "omar"}).Revoke(t.Context(), toolcall.RevokeRequest{Key: c.Key, Reason: "no"}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		start := toolcall.StartRequest{Key: c.Key, Attempt: 1, Claim: "claim", Request: "request", Nonce: c.Attempt.Grant.Nonce}
		reply, err := worker.Start(t.Context(), start)
		if err != nil {
			t.Fatal(err)
		}
		if err := reply.Verify(toolcall.NewKeySet(b.Keys().Public()), start, c.Attempt.Grant); err != nil {
			t.Fatalf("the genuine reply: %v", err)
		}
		granted = append(granted, reply)
		if _, err := worker.Result(t.Context(), toolcall.ResultRequest{Key: c.Key, Attempt: 1, Claim: "claim", Result: message.ToolResultBlock{State: message.ToolResultSuccess}}); err != nil {
			t.Fatal(err)
		}
	}
	stopEngine()
	for id, task := range items {
		t.Run(string(id), func(t *testing.T) {
			f := &falseEngine{t: t, nc: connect(t, b, "engine"), task: task, alike: granted, enough: make(chan struct{})}
			sub, err := f.nc.QueueSubscribe("askance.v1.space.work.probe.worker.*", "askance", f.serve)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = sub.Unsubscribe() }()
			var runs atomic.Int32
			w, err := executor.NewWorker(worker, tool, func(context.Context, executor.Task) (executor.Output, error) {
				runs.Add(1)
				return executor.Text("ran"), nil
			}, toolcall.NewKeySet(b.Keys().Public()), executor.WithLogger(slog.New(slog.DiscardHandler)), executor.WithDrainTimeout(0))
			if err != nil {
				t.Fatal(err)
			}
			ran := make(chan error, 1)
			go func() { ran <- w.Run(context.WithoutCancel(t.Context())) }()
			select {
			case <-f.enough:
			case <-time.After(time.Minute):
				t.Error("the worker did not ask again")
			}
			_ = w.Close() // Run has the same error
			if err := <-ran; err != nil {
				t.Log("the worker ended with", err)
			}
			if n := runs.Load(); n != 0 {
				t.Errorf("the tool ran %d times for an engine without a key", n)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, told := range f.told {
				if told.NotBegun == "" {
					t.Errorf("the worker sent the result %+v", told)
				}
			}
		})
	}
}

// genuineEngine starts an engine that allows every call of the tool.
func genuineEngine(t *testing.T, b *bustest.Bus, tool string) (e *engine.Engine, stop func()) {
	t.Helper()
	nc := connect(t, b, "engine")
	j, err := journal.Open(t.Context(), nc, "space", b.Keys(), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	known := permission.Tool{Name: tool}
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{
		{Name: "all", Tools: []string{tool}, Behavior: message.BehaviorAllow},
	}}, permission.Options{Tools: []permission.Tool{known}})
	if err != nil {
		t.Fatal(err)
	}
	e, err = engine.New("space", j, policy, []engine.Tool{{Tool: known, Placement: toolcall.PlaceRemote, ConcurrencySafe: true}}, engine.WithSigningKey(b.Keys().Signer()))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	s, err := bus.Serve(context.WithoutCancel(t.Context()), nc, j, func(p toolcall.Principal, queue toolcall.Queue) api.Caller {
		return e.Worker(p, queue)
	}, bus.ServiceOptions{Observer: e})
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { s.Close(); _ = e.Close() })
	t.Cleanup(stop)
	return e, stop
}

// take takes one task as its worker does, and returns the message with which it was delivered.
func take(t *testing.T, b *bustest.Bus, worker *bus.Worker) (toolcall.Task, bus.NextReply) {
	t.Helper()
	spy := connect(t, b, "spy")
	heard := make(chan *nats.Msg, 64)
	sub, err := spy.ChanSubscribe(bus.InboxPrefix("worker")+".>", heard)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := spy.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	task, err := worker.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case m := <-heard:
			var reply struct {
				Body bus.NextReply `json:"body"`
			}
			if strings.Contains(string(m.Data), `"record"`) && json.Unmarshal(m.Data, &reply) == nil && reply.Body.State == bus.TaskHere {
				return task, reply.Body
			}
		case <-ctx.Done():
			t.Fatal("no task was delivered")
		}
	}
}
