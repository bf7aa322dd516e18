package bus_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

const (
	payments = "exec.payments"
	archive  = "exec.archive"
)

// Workers of one tool, each with the rights for its own queue: without a route, for the route, and
// for another route.
var queueWorkers = map[string]toolcall.Queue{"plain": {Tool: job}, "right": {Tool: job, Route: payments}, "wrong": {Tool: job, Route: archive}}

// queues returns a world in which they log in with passwords.
func queues(t *testing.T) *world {
	t.Helper()
	return newWorld(t, bustest.Listening(), bustest.With(func(o *embed.Options) {
		for name, queue := range queueWorkers {
			perms := bus.PermissionsFor("test", toolcall.Principal{Role: toolcall.RoleWorker, Name: name}, queue)
			o.Users = append(o.Users, embed.User{Name: name, Password: "pw", Permissions: perms})
		}
	}))
}

// queueLogins returns a world in which they have credentials.
func queueLogins(t *testing.T) *world {
	t.Helper()
	var users []creds.User
	for name, queue := range queueWorkers {
		u := creds.User{Space: "test", Role: toolcall.RoleWorker, Name: name, Tools: []string{queue.Tool}}
		if queue.Route != "" {
			u.Routes = []string{queue.Route}
		}
		users = append(users, u)
	}
	return credWorld(t, users)
}

// routedSpace is testSpace with the calls of job routed where its input says.
func routedSpace() space {
	sp := testSpace()
	for _, subject := range []string{payments, archive} {
		sp.rules = append(sp.rules, permission.Rule{Name: subject, Tools: []string{job}, Behavior: message.BehaviorAllow,
			When: `has(args.to) && args.to == "` + subject + `"`, Executor: permission.Executor{Subject: subject}})
	}
	return sp
}

func routedCall(id, to string) message.ToolCallBlock { return toolCall(id, job, `{"to":"`+to+`"}`) }

// queueWorker returns the transport of one of them and its connection.
func (w *world) queueWorker(t *testing.T, name string) (*bus.Worker, *nats.Conn) {
	t.Helper()
	nc := as(t, w, toolcall.Principal{Role: toolcall.RoleWorker, Name: name})
	wk, err := bus.NewQueueWorker(nc, "test", queueWorkers[name], name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return wk, nc
}

func queueWorlds(t *testing.T, f func(t *testing.T, w *world)) {
	t.Run("passwords", func(t *testing.T) { f(t, queues(t)) })
	t.Run("credentials", func(t *testing.T) { f(t, queueLogins(t)) })
}

// nothing checks that there is no task for a worker.
func nothing(t *testing.T, w *bus.Worker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if task, err := w.Next(ctx); err == nil {
		t.Errorf("a worker of another queue got the task of %s", task.Record.Call.Key)
	}
}

// Only workers of its route can see, start and end a routed call. The server refuses the subjects to
// other workers, and the engine refuses them the call.
func TestRoutedCallIsForItsWorkers(t *testing.T) { queueWorlds(t, routedForItsWorkers) }

func routedForItsWorkers(t *testing.T, w *world) {
	w.engineOf(routedSpace(), bus.ServiceOptions{})
	bot := w.client(toolcall.RoleRuntime, "bot")
	propose(t, bot, routedCall("c1", payments))
	for _, name := range []string{"plain", "wrong"} {
		wk, nc := w.queueWorker(t, name)
		nothing(t, wk)
		for _, queue := range queueWorkers {
			if queue == queueWorkers[name] {
				continue
			}
			for _, what := range []string{"next", "ack", "start", "heartbeat", "progress", "result"} {
				refusedTo(t, nc, "askance.v1.test.work."+string(bus.EncodeQueue(queue))+"."+name+"."+what)
			}
			if _, err := nc.SubscribeSync("askance.v1.test.work." + string(bus.EncodeQueue(queue)) + "." + name + ".cancel"); err != nil {
				t.Fatal(err)
			}
			if err := flushed(t, nc); !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s may hear the cancels of %s", name, queue)
			}
		}
		req := toolcall.StartRequest{Key: bustest.CallKey("c1"), Attempt: 1, Claim: "x"}
		if _, err := wk.Start(t.Context(), req); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("%s starts the call on its own subject: %v", name, err)
		}
		if _, err := wk.Heartbeat(t.Context(), toolcall.HeartbeatRequest{Key: bustest.CallKey("c1"), Attempt: 1, Claim: "x"}); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("%s beats for the call: %v", name, err)
		}
		if _, err := wk.Result(t.Context(), toolcall.ResultRequest{Key: bustest.CallKey("c1"), Attempt: 1, Claim: "x", Result: success("c1", job, "stolen")}); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("%s ends the call: %v", name, err)
		}
	}
	right, _ := w.queueWorker(t, "right")
	cancelled := make(chan string, 1)
	defer right.Cancels(func(r toolcall.HeartbeatRequest, _ string) { cancelled <- string(r.Call) })()
	for _, id := range []string{"c1", "c2"} {
		if id == "c2" {
			propose(t, bot, routedCall("c2", payments))
		}
		task := next(t, right)
		c := task.Record.Call
		if string(c.Call) != id || c.Attempt.Grant.Route != payments {
			t.Fatalf("the task is of %s, on %q", c.Key, c.Attempt.Grant.Route)
		}
		if _, err := right.Start(t.Context(), toolcall.StartRequest{Key: c.Key, Attempt: 1, Claim: "x"}); err != nil {
			t.Fatal(err)
		}
		if err := task.Ack(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if rep, err := right.Result(t.Context(), toolcall.ResultRequest{Key: bustest.CallKey("c1"), Attempt: 1, Claim: "x", Result: success("c1", job, "done")}); err != nil || !rep.Stored {
		t.Errorf("result: %+v, %v", rep, err)
	}
	finished(t, bot, "c1")
	if _, err := bot.Interrupt(t.Context(), toolcall.InterruptRequest{Session: "s1", Reply: "r1", Reason: "stop"}); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, cancelled); got != "c2" {
		t.Errorf("cancel of %q", got)
	}
}

// refusedTo checks that NATS does not let this connection publish.
func refusedTo(t *testing.T, nc *nats.Conn, subject string) {
	t.Helper()
	if err := nc.Publish(subject, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if err := flushed(t, nc); !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), `"`+subject+`"`) {
		t.Errorf("may publish on %s: %v", subject, err)
	}
}

// Each queue has its own consumer, so no queue delays the calls of another.
func TestQueuesAreQueuesOfTheirOwn(t *testing.T) {
	w := queues(t)
	w.engineOf(routedSpace(), bus.ServiceOptions{})
	propose(t, w.client(toolcall.RoleRuntime, "bot"), routedCall("c1", payments), routedCall("c2", archive), toolCall("c3", job, `{}`), routedCall("c4", payments))
	for name, want := range map[string][]string{"plain": {"c3"}, "right": {"c1", "c4"}, "wrong": {"c2"}} {
		wk, _ := w.queueWorker(t, name)
		var got []string
		for range want {
			task := next(t, wk)
			got = append(got, string(task.Record.Call.Call))
			if err := task.Ack(t.Context()); err != nil {
				t.Error(err)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s got %v, want %v", name, got, want)
		}
		nothing(t, wk)
	}
}

// A task that was copied into another queue does not run there.
func TestTaskInAnotherQueue(t *testing.T) {
	w := queues(t)
	w.engineOf(routedSpace(), bus.ServiceOptions{})
	propose(t, w.client(toolcall.RoleRuntime, "bot"), routedCall("c1", payments), routedCall("c2", archive), toolCall("c3", job, `{}`))
	j := w.Journal("test")
	for _, call := range []string{"c1", "c3"} {
		r, err := j.Last(t.Context(), bustest.CallKey(call))
		if err != nil {
			t.Fatal(err)
		}
		m := bustest.Genuine(t, w.Conn("reader"), "ASKANCE_test", r.Seq)
		for _, h := range []string{"Nats-Msg-Id", bustest.HeaderPrev, bustest.HeaderFilter} { // else the server would not store it
			m.Header.Del(h)
		}
		from := r.Record.WorkQueue()
		for _, queue := range queueWorkers {
			if queue == from {
				continue
			}
			forged := &nats.Msg{Subject: strings.TrimSuffix(m.Subject, string(bus.EncodeQueue(from))) + string(bus.EncodeQueue(queue)), Header: m.Header, Data: m.Data}
			seq := bustest.Store(t, w.Conn("forger"), forged)
			history, err := j.History(t.Context(), bustest.CallKey(call))
			if err != nil || history[len(history)-1].Seq != seq || history[len(history)-1].Invalid == nil {
				t.Errorf("%s in the queue %s is believed: %+v, %v", call, queue, history, err)
			}
		}
	}
	for name, want := range map[string]string{"plain": "c3", "right": "c1", "wrong": "c2"} {
		wk, _ := w.queueWorker(t, name)
		task := next(t, wk)
		if got := string(task.Record.Call.Call); got != want || task.Record.WorkQueue() != queueWorkers[name] {
			t.Errorf("%s got %s of the queue %s", name, got, task.Record.WorkQueue())
		}
		if err := task.Ack(t.Context()); err != nil {
			t.Error(err)
		}
		nothing(t, wk)
	}
}

// Workers receive tasks without the explanation of the policy's decision, and can still verify them.
func TestWorkersGetNoExplanation(t *testing.T) {
	w := newWorld(t)
	sp := testSpace()
	sp.rules[0].Audit = permission.AuditFull
	w.engineOf(sp, bus.ServiceOptions{})
	propose(t, w.client(toolcall.RoleRuntime, "bot"), toolCall("c1", job, `{"explanation":"mine"}`))
	task := next(t, w.worker(job, "wk"))
	if rec := task.Record; rec.Explanation != nil || rec.Call.Input != `{"explanation":"mine"}` || rec.Prev == nil {
		t.Errorf("the worker got %+v", rec)
	}
	stored, err := w.Journal("test").Last(t.Context(), bustest.CallKey("c1"))
	if err != nil || len(stored.Record.Explanation) == 0 {
		t.Fatalf("the journal has %+v, %v", stored.Record, err)
	}
	g := task.Record.Call.Attempt.Grant
	if err := g.VerifyQueue(toolcall.NewKeySet(w.Keys().Public()), *task.Record.Call.Request, toolcall.Queue{Tool: job}, 1, time.Now()); err != nil {
		t.Errorf("the grant: %v", err)
	}
}

func TestRoutesOfLogins(t *testing.T) {
	folder, err := creds.Init(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, u := range map[string]creds.User{
		"an approver":   {Space: "test", Role: toolcall.RoleApprover, Name: "ann", Routes: []string{payments}},
		"no tool":       {Space: "test", Role: toolcall.RoleWorker, Name: "wk", Routes: []string{payments}},
		"an empty one":  {Space: "test", Role: toolcall.RoleWorker, Name: "wk", Tools: []string{job}, Routes: []string{""}},
		"a very long":   {Space: "test", Role: toolcall.RoleWorker, Name: "wk", Tools: []string{job}, Routes: []string{strings.Repeat("x", 257)}},
		"an unreadable": {Space: "test", Role: toolcall.RoleWorker, Name: "wk", Tools: []string{job}, Routes: []string{"\xff"}},
	} {
		if _, err := folder.Add(t.Context(), u, false); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("%s with a route: %v", name, err)
		}
	}
	p := bus.PermissionsFor("test", toolcall.Principal{Role: toolcall.RoleWorker, Name: "wk"}, toolcall.Queue{Tool: job, Route: strings.Repeat("x", 257)})
	if len(p.Publish)+len(p.Subscribe) != 0 {
		t.Errorf("a route that cannot be has the rights %+v", p)
	}
}
