package bus_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/nats-io/nats.go"
)

const (
	payments = "exec.payments"
	archive  = "exec.archive"
)

// Workers of one tool, each with the rights for its own lane: without a route,
// of the route, of another one.
var laneWorkers = map[string]message.Lane{"plain": {Tool: job}, "right": {Tool: job, Route: payments}, "wrong": {Tool: job, Route: archive}}

// lanes is a world in which they log in with passwords.
func lanes(t *testing.T) *world {
	t.Helper()
	return newWorld(t, bustest.Listening(), bustest.With(func(o *bus.ServerOptions) {
		for name, lane := range laneWorkers {
			perms := bus.PermissionsFor("test", message.Principal{Role: message.RoleWorker, Name: name}, lane)
			o.Users = append(o.Users, bus.User{Name: name, Password: "pw", Permissions: perms})
		}
	}))
}

// laneLogins is one in which they have credentials.
func laneLogins(t *testing.T) *world {
	t.Helper()
	var users []bus.CredUser
	for name, lane := range laneWorkers {
		u := bus.CredUser{Space: "test", Role: message.RoleWorker, Name: name, Tools: []string{lane.Tool}}
		if lane.Route != "" {
			u.Routes = []string{lane.Route}
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

// laneWorker is the transport of one of them, and its connection.
func (w *world) laneWorker(t *testing.T, name string) (*bus.Worker, *nats.Conn) {
	t.Helper()
	nc := as(t, w, message.Principal{Role: message.RoleWorker, Name: name})
	wk, err := bus.NewLaneWorker(nc, "test", laneWorkers[name], name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return wk, nc
}

func laneWorlds(t *testing.T, f func(t *testing.T, w *world)) {
	t.Run("passwords", func(t *testing.T) { f(t, lanes(t)) })
	t.Run("credentials", func(t *testing.T) { f(t, laneLogins(t)) })
}

// nothing makes sure that no item is there for a worker.
func nothing(t *testing.T, w *bus.Worker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if item, err := w.Next(ctx); err == nil {
		t.Errorf("a worker of another lane got the item of %s", item.Fact.Call.Key)
	}
}

// A routed call is seen, started and ended by workers of its route alone: to
// the others the server refuses the subjects, and the engine the call.
func TestRoutedCallIsForItsWorkers(t *testing.T) { laneWorlds(t, routedForItsWorkers) }

func routedForItsWorkers(t *testing.T, w *world) {
	w.engineOf(routedSpace(), bus.ServiceOptions{})
	bot := w.client(message.RoleRuntime, "bot")
	propose(t, bot, routedCall("c1", payments))
	for _, name := range []string{"plain", "wrong"} {
		wk, nc := w.laneWorker(t, name)
		nothing(t, wk)
		for _, lane := range laneWorkers {
			if lane == laneWorkers[name] {
				continue
			}
			for _, what := range []string{"next", "ack", "start", "heartbeat", "progress", "result"} {
				refusedTo(t, nc, "askance.v1.test.work."+string(bus.EncodeLane(lane))+"."+name+"."+what)
			}
			if _, err := nc.SubscribeSync("askance.v1.test.work." + string(bus.EncodeLane(lane)) + "." + name + ".cancel"); err != nil {
				t.Fatal(err)
			}
			if err := flushed(t, nc); !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s may hear the cancels of %s", name, lane)
			}
		}
		req := message.StartRequest{Key: callKey("c1"), Attempt: 1, Claim: "x"}
		if _, err := wk.Start(t.Context(), req); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("%s starts the call on its own subject: %v", name, err)
		}
		if _, err := wk.Heartbeat(t.Context(), message.HeartbeatRequest{Key: callKey("c1"), Attempt: 1, Claim: "x"}); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("%s beats for the call: %v", name, err)
		}
		if _, err := wk.Result(t.Context(), message.ResultRequest{Key: callKey("c1"), Attempt: 1, Claim: "x", Result: success("c1", job, "stolen")}); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("%s ends the call: %v", name, err)
		}
	}
	right, _ := w.laneWorker(t, "right")
	cancelled := make(chan string, 1)
	defer right.Cancels(func(r message.HeartbeatRequest, _ string) { cancelled <- string(r.Call) })()
	for _, id := range []string{"c1", "c2"} {
		if id == "c2" {
			propose(t, bot, routedCall("c2", payments))
		}
		item := next(t, right)
		c := item.Fact.Call
		if string(c.Call) != id || c.Attempt.Grant.Route != payments {
			t.Fatalf("the item is of %s, on %q", c.Key, c.Attempt.Grant.Route)
		}
		if _, err := right.Start(t.Context(), message.StartRequest{Key: c.Key, Attempt: 1, Claim: "x"}); err != nil {
			t.Fatal(err)
		}
		if err := item.Ack(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if rep, err := right.Result(t.Context(), message.ResultRequest{Key: callKey("c1"), Attempt: 1, Claim: "x", Result: success("c1", job, "done")}); err != nil || !rep.Stored {
		t.Errorf("result: %+v, %v", rep, err)
	}
	finished(t, bot, "c1")
	if _, err := bot.Interrupt(t.Context(), message.InterruptRequest{Session: "s1", Reply: "r1", Reason: "stop"}); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, cancelled); got != "c2" {
		t.Errorf("cancel of %q", got)
	}
}

// refusedTo makes sure that NATS does not let this connection publish.
func refusedTo(t *testing.T, nc *nats.Conn, subject string) {
	t.Helper()
	if err := nc.Publish(subject, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if err := flushed(t, nc); !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), `"`+subject+`"`) {
		t.Errorf("may publish on %s: %v", subject, err)
	}
}

// Each lane has its own queue, so calls of a tool that nobody routes wait for
// nobody, and nobody's workers keep another lane's calls from theirs.
func TestLanesAreQueuesOfTheirOwn(t *testing.T) {
	w := lanes(t)
	w.engineOf(routedSpace(), bus.ServiceOptions{})
	propose(t, w.client(message.RoleRuntime, "bot"), routedCall("c1", payments), routedCall("c2", archive), toolCall("c3", job, `{}`), routedCall("c4", payments))
	for name, want := range map[string][]string{"plain": {"c3"}, "right": {"c1", "c4"}, "wrong": {"c2"}} {
		wk, _ := w.laneWorker(t, name)
		var got []string
		for range want {
			item := next(t, wk)
			got = append(got, string(item.Fact.Call.Call))
			if err := item.Ack(t.Context()); err != nil {
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

// An item that somebody puts into another lane, as it is, is none there.
func TestItemInAnotherLane(t *testing.T) {
	w := lanes(t)
	w.engineOf(routedSpace(), bus.ServiceOptions{})
	propose(t, w.client(message.RoleRuntime, "bot"), routedCall("c1", payments), routedCall("c2", archive), toolCall("c3", job, `{}`))
	j := w.Journal("test")
	for _, call := range []string{"c1", "c3"} {
		r, err := j.Last(t.Context(), callKey(call))
		if err != nil {
			t.Fatal(err)
		}
		m := genuine(t, w.Conn("reader"), "ASKANCE_test", r.Seq)
		for _, h := range []string{"Nats-Msg-Id", headerPrev, headerFilter} { // else the server would not store it
			m.Header.Del(h)
		}
		from := r.Fact.WorkLane()
		for _, lane := range laneWorkers {
			if lane == from {
				continue
			}
			forged := &nats.Msg{Subject: strings.TrimSuffix(m.Subject, string(bus.EncodeLane(from))) + string(bus.EncodeLane(lane)), Header: m.Header, Data: m.Data}
			seq := store(t, w.Conn("forger"), forged)
			history, err := j.History(t.Context(), callKey(call))
			if err != nil || history[len(history)-1].Seq != seq || history[len(history)-1].Invalid == nil {
				t.Errorf("%s in the lane %s is believed: %+v, %v", call, lane, history, err)
			}
		}
	}
	for name, want := range map[string]string{"plain": "c3", "right": "c1", "wrong": "c2"} {
		wk, _ := w.laneWorker(t, name)
		item := next(t, wk)
		if got := string(item.Fact.Call.Call); got != want || item.Fact.WorkLane() != laneWorkers[name] {
			t.Errorf("%s got %s of the lane %s", name, got, item.Fact.WorkLane())
		}
		if err := item.Ack(t.Context()); err != nil {
			t.Error(err)
		}
		nothing(t, wk)
	}
}

// How the policy came to its decision is no worker's business: it gets the item
// without that, and can check it as ever.
func TestWorkersGetNoExplanation(t *testing.T) {
	w := newWorld(t)
	sp := testSpace()
	sp.rules[0].Audit = permission.AuditFull
	w.engineOf(sp, bus.ServiceOptions{})
	propose(t, w.client(message.RoleRuntime, "bot"), toolCall("c1", job, `{"explanation":"mine"}`))
	item := next(t, w.worker(job, "wk"))
	if f := item.Fact; f.Explanation != nil || f.Call.Input != `{"explanation":"mine"}` || f.Prev == nil {
		t.Errorf("the worker got %+v", f)
	}
	stored, err := w.Journal("test").Last(t.Context(), callKey("c1"))
	if err != nil || len(stored.Fact.Explanation) == 0 {
		t.Fatalf("the journal has %+v, %v", stored.Fact, err)
	}
	g := item.Fact.Call.Attempt.Grant
	if err := g.Verify(message.NewKeySet(w.Keys().Public()), *item.Fact.Call.Request, job, 1, time.Now()); err != nil {
		t.Errorf("the grant: %v", err)
	}
}

func TestRoutesOfLogins(t *testing.T) {
	creds, err := bus.InitCreds(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, u := range map[string]bus.CredUser{
		"an approver":   {Space: "test", Role: message.RoleApprover, Name: "ann", Routes: []string{payments}},
		"no tool":       {Space: "test", Role: message.RoleWorker, Name: "wk", Routes: []string{payments}},
		"an empty one":  {Space: "test", Role: message.RoleWorker, Name: "wk", Tools: []string{job}, Routes: []string{""}},
		"a very long":   {Space: "test", Role: message.RoleWorker, Name: "wk", Tools: []string{job}, Routes: []string{strings.Repeat("x", 257)}},
		"an unreadable": {Space: "test", Role: message.RoleWorker, Name: "wk", Tools: []string{job}, Routes: []string{"\xff"}},
	} {
		if _, err := creds.Add(t.Context(), u, false); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("%s with a route: %v", name, err)
		}
	}
	p := bus.PermissionsFor("test", message.Principal{Role: message.RoleWorker, Name: "wk"}, message.Lane{Tool: job, Route: strings.Repeat("x", 257)})
	if len(p.Publish)+len(p.Subscribe) != 0 {
		t.Errorf("a route that cannot be has the rights %+v", p)
	}
}
