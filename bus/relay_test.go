package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// The engine sends messages to JetStream for the worker, so it must not let the worker choose their
// content or subject.
func TestAckRefusesWhatIsNoTask(t *testing.T) {
	w := newWorld(t)
	w.tasks()
	j := w.Journal("test")
	for _, tool := range []string{job, otherJob} {
		if err := j.EnsureQueue(t.Context(), toolcall.Queue{Tool: tool}); err != nil {
			t.Fatal(err)
		}
	}
	spy := w.spy("$JS.ACK.>", "$JS.API.STREAM.>", "anything.>", "askance.v1.test.decide.>")
	nc := w.Conn("wk")
	for _, task := range []string{
		"", "anything.x", "$JS.API.STREAM.DELETE.ASKANCE_test", "askance.v1.test.decide.ann", "$JS.ACK.", "$JS.ACK.ASKANCE_test.w_job", "$JS.ACK.ASKANCE_test.w_job.>", "$JS.ACK.ASKANCE_test.w_job.1.1.1.1.*",
		"$JS.ACK.ASKANCE_test.w_job.1.1.1.1", "$JS.ACK.ASKANCE_test.w_job.1.1.1.1.x", "$JS.ACK.ASKANCE_test.w_job.1.1.1..0", "$JS.ACK.ASKANCE_test.w_job.1.1.1.1. 0", "$JS.ACK.ASKANCE_test.w_job.1.1.1.1.-1",
		"$JS.ACK.ASKANCE_test." + bus.ConsumerName(toolcall.Queue{Tool: otherJob}) + ".1.1.1.1.0", "$JS.ACK.ASKANCE_other.w_job.1.1.1.1.0", "$JS.ACK.x.y.ASKANCE_other.w_job.1.1.1.1.0.tok", "$JS.ACK.ASKANCE_test.w_job.1.1.1.1.0.tok.tok.tok.tok",
		"_INBOX_ann.$JS.ACK.ASKANCE_test.w_job.1.1.1.1.0", strings.Repeat("$JS.ACK.", 2000),
		// The server closes the connection of an engine that sends so long a subject.
		"$JS.ACK.ASKANCE_test.w_job.1.1.1.1.0." + strings.Repeat("t", 5000), "$JS.ACK.ASKANCE_test.w_job." + strings.Repeat("0", 5000) + "1.1.1.1.0",
	} {
		quoted, err := json.Marshal(task)
		if err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"ack", "nak", "term"} {
			if e := rawRequest(t, nc, "askance.v1.test.work.job.wk.ack", fmt.Sprintf(`{"v":1,"op":"ack","body":{"task":%s,"verb":%q}}`, quoted, verb)); e == nil || e.Code != message.CodeInvalid {
				t.Errorf("%s %q: %+v, want invalid", verb, task, e)
			}
		}
	}
	for _, verb := range []string{"", "+NXT", "next", "ACK"} {
		if e := rawRequest(t, nc, "askance.v1.test.work.job.wk.ack", fmt.Sprintf(`{"v":1,"op":"ack","body":{"task":"$JS.ACK.ASKANCE_test.w_job.1.1.1.1.0","verb":%q}}`, verb)); e == nil || e.Code != message.CodeInvalid {
			t.Errorf("verb %q: %+v, want invalid", verb, e)
		}
	}
	if seen := spy.all(); len(seen) != 0 {
		t.Errorf("the engine sent %q", seen)
	}
}

// A worker's reply subject is part of what the engine sends to the server, which closes
// the connection of an engine that sends a longer line than the worker's own.
func TestLongReplySubject(t *testing.T) {
	w := newWorld(t)
	w.tasks()
	nc := w.Conn("wk")
	const subject = "askance.v1.test.work.job.wk.next"
	for room := range 40 {
		reply := bus.InboxPrefix("wk") + "."
		reply += strings.Repeat("r", 4096-len(subject)-len(reply)-4-room)
		if err := nc.PublishRequest(subject, reply, []byte(`{"v":1,"op":"next"}`)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // the engine answers in the order of arrival
		if e := rawRequest(t, nc, "askance.v1.test.work.job.wk.next", `{"v":1,"op":"keys"}`); e != nil {
			t.Fatal(e)
		}
	}
}

// A granted start removes only its own task from the queue: the worker cannot choose what the engine
// sends with its rights.
func TestStartDropsItsTask(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		w.engine(bus.ServiceOptions{})
		propose(t, w.client(toolcall.RoleRuntime, "bot"), toolCall("c1", job, `{}`))
		wk := w.worker(job, "wk")
		task := next(t, wk)
		shown, err := w.client(toolcall.RoleAuditor, "eve").Show(t.Context(), toolcall.ShowRequest{V: 1, Key: task.Record.Call.Key})
		if err != nil {
			t.Fatal(err)
		}
		if seq, stored := new(journal.Journal).RecordOf(task.ID); seq != shown.Call.Seq || stored.Sub(shown.Call.UpdatedAt).Abs() > time.Second {
			t.Errorf("the task says that its record is %d of %s, want %d of %s", seq, stored, shown.Call.Seq, shown.Call.UpdatedAt)
		}
		spy := w.spy("$JS.ACK.>", "$JS.API.STREAM.DELETE.>", "anything.>")
		start := func(claim, name string) error {
			_, err := wk.Start(t.Context(), toolcall.StartRequest{Key: task.Record.Call.Key, Attempt: 1, Claim: claim, Task: name})
			synctest.Wait()
			return err
		}
		for _, name := range []string{"anything.x", "$JS.API.STREAM.DELETE.ASKANCE_test", "$JS.ACK.ASKANCE_test.w_otherjob.1.1.1.1.0", "$JS.ACK.ASKANCE_test.w_job.>"} {
			if err := start("mine", name); err != nil {
				t.Fatal(err)
			}
		}
		if err := start("another", task.ID); !errors.Is(err, message.ErrSuperseded) {
			t.Errorf("the start of another claim: %v, want superseded", err)
		}
		if seen := spy.all(); len(seen) != 0 {
			t.Fatalf("the engine sent %q", seen)
		}
		if err := start("mine", task.ID); err != nil {
			t.Fatal(err)
		}
		if seen := spy.all(); len(seen) != 1 {
			t.Fatalf("the engine sent %q, want one acknowledgement", seen)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if again, err := wk.Next(ctx); err == nil {
			t.Errorf("the task came again: %d", again.Delivered)
		}
	})
}

// A task for a worker that has gone returns to the queue at once.
func TestTaskOfAWorkerThatHasGone(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		w.tasks()
		j := w.journalWithQueue(t)
		gone, err := w.Connect(t.Context(), bus.ConnectOptions{Principal: "gone"})
		if err != nil {
			t.Fatal(err)
		}
		if err := gone.PublishRequest("askance.v1.test.work.job.gone.next", gone.NewInbox(), []byte(`{"v":1,"op":"next"}`)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		gone.Close()
		bustest.MustAppend(t, j, bustest.WorkRecord("f1", bustest.CallKey("c1"), job), 0)
		synctest.Wait() // the worker is gone
		began := time.Now()
		if task := next(t, w.worker(job, "wk")); task.Record.ID != "f1" || time.Since(began) > time.Second {
			t.Errorf("task %s after %v", task.Record.ID, time.Since(began))
		}
	})
}

// All tasks of one request return to the queue if its worker is gone: at once, or after the ten
// seconds of ackWait if they were in transit when the request ended.
func TestTasksOfAWorkerThatHasGone(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		w.tasks()
		j := w.journalWithQueue(t)
		gone, err := w.Connect(t.Context(), bus.ConnectOptions{Principal: "gone"})
		if err != nil {
			t.Fatal(err)
		}
		if err := gone.PublishRequest("askance.v1.test.work.job.gone.next", gone.NewInbox(), []byte(`{"v":1,"op":"next","body":{"batch":4}}`)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		gone.Close()
		began := time.Now()
		for i := range 3 {
			bustest.MustAppend(t, j, bustest.WorkRecord(fmt.Sprint("f", i), bustest.CallKey(fmt.Sprint("c", i)), job), 0)
		}
		synctest.Wait()
		wk, got := w.worker(job, "wk"), map[string]bool{}
		for range 3 {
			got[next(t, wk).Record.ID] = true
		}
		if len(got) != 3 || time.Since(began) > 11*time.Second {
			t.Errorf("tasks %v after %v", got, time.Since(began))
		}
	})
}

// A worker that stops is known to have gone with the next sign to it, not when it was silent for long.
func TestWorkerThatStopsHasGone(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		e := w.engine(bus.ServiceOptions{})
		w.journalWithQueue(t)
		connected := func() int {
			t.Helper()
			r, err := e.As(toolcall.Principal{Role: toolcall.RoleAuditor, Name: "ann"}).Activity(t.Context(), toolcall.ActivityRequest{V: 1, Since: time.Now().Add(-time.Minute), Recent: 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range r.Queues {
				if q.Tool == job {
					return q.Connected(time.Now())
				}
			}
			return 0
		}
		ctx, stop := context.WithCancel(t.Context())
		wk, stopped := w.worker(job, "wk"), make(chan struct{})
		go func() {
			defer close(stopped)
			_, _ = wk.Next(ctx)
		}()
		time.Sleep(42 * time.Second) // in the middle of a request
		if n := connected(); n != 1 {
			t.Errorf("%d workers are connected, want 1", n)
		}
		stop()
		<-stopped
		time.Sleep(3 * time.Second)
		if n := connected(); n != 0 {
			t.Errorf("%d workers are connected, want none", n)
		}
	})
}

// The free slots of a worker share requests, each slot gets its own tasks, and a slot that gives up
// loses no task.
func TestSlotsShareRequests(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		const slots, rounds = 16, 4
		w := newWorld(t, bustest.In(dir))
		w.tasks()
		j := w.journalWithQueue(t)
		spy := w.spy("askance.v1.test.work.job.wk.next")
		wk, got := w.worker(job, "wk"), make(chan toolcall.Task, slots*rounds)
		for range slots {
			go func() {
				for {
					task, err := wk.Next(t.Context())
					if err != nil {
						return
					}
					got <- task
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			go func() { defer cancel(); _, _ = wk.Next(ctx) }() // gives up
		}
		time.Sleep(time.Second)
		for i := range slots * rounds {
			bustest.MustAppend(t, j, bustest.WorkRecord(fmt.Sprint("f", i), bustest.CallKey(fmt.Sprint("c", i)), job), 0)
		}
		seen := map[string]bool{}
		for range slots * rounds {
			task := <-got
			if seen[task.Record.ID] {
				t.Errorf("%s came twice", task.Record.ID)
			}
			seen[task.Record.ID] = true
			if err := task.Ack(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(spy.all()); n > 2*rounds+2 {
			t.Errorf("%d requests for %d tasks", n, slots*rounds)
		}
	})
}

// The engine that holds a worker's request dies silently. The worker notices within seconds and
// turns to the other engine.
func TestNextOutlivesItsEngine(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		j := w.journalWithQueue(t)
		doomed, err := w.Connect(t.Context(), bus.ConnectOptions{Principal: "engine"})
		if err != nil {
			t.Fatal(err)
		}
		s, err := bus.Serve(t.Context(), doomed, w.Journal("test"), nil, bus.ServiceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		wk := w.worker(job, "wk")
		tasks := make(chan toolcall.Task, 1)
		go func() {
			if task, err := wk.Next(context.Background()); err == nil {
				tasks <- task
			}
		}()
		time.Sleep(time.Second)
		doomed.Close()
		w.tasks()
		time.Sleep(time.Second)
		began := time.Now()
		bustest.MustAppend(t, j, bustest.WorkRecord("f1", bustest.CallKey("c1"), job), 0)
		if task := <-tasks; task.Record.ID != "f1" || time.Since(began) > 6*time.Second {
			t.Errorf("task %s after %v", task.Record.ID, time.Since(began))
		}
	})
}

// Waiting slots beyond the service's limit are refused and accepted later.
func TestWaitingSlotsAreBounded(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		j := w.journalWithQueue(t)
		s, err := bus.Serve(t.Context(), w.Conn("engine"), w.Journal("test"), nil, bus.ServiceOptions{MaxNext: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		tasks := make(chan string, 2)
		for i := range 2 {
			wk := w.worker(job, fmt.Sprint("wk", i))
			go func() {
				task, err := wk.Next(context.Background())
				if err == nil {
					err = task.Ack(context.Background())
				}
				if err != nil {
					t.Error(err)
				}
				tasks <- task.Record.ID
			}()
		}
		time.Sleep(time.Minute)
		bustest.MustAppend(t, j, bustest.WorkRecord("f1", bustest.CallKey("c1"), job), 0)
		bustest.MustAppend(t, j, bustest.WorkRecord("f2", bustest.CallKey("c2"), job), 0)
		began := time.Now()
		if a, b := <-tasks, <-tasks; a == b || time.Since(began) > 5*time.Second {
			t.Errorf("%s and %s after %v", a, b, time.Since(began))
		}
	})
}

// A server that refuses requests for tasks at once ("exceeded MaxWaiting", for
// example) is not asked as fast as it can refuse.
func TestNextDoesNotHurryARefusingServer(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		w.tasks()
		var asked atomic.Int32
		refusing := w.Conn("refusing") // answers in place of the consumer
		if _, err := refusing.Subscribe("$JS.API.CONSUMER.MSG.NEXT.ASKANCE_test.w_job", func(m *nats.Msg) {
			asked.Add(1)
			_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"409"}, "Description": {"Exceeded MaxWaiting"}}})
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := w.worker(job, "wk").Next(ctx); !errors.Is(err, message.ErrUnavailable) {
			t.Errorf("next: %v", err)
		}
		if n := asked.Load(); n < 10 || n > 200 {
			t.Errorf("asked %d times in a minute", n)
		}
	})
}

// A worker without rights gets an error and does not wait forever.
func TestNextWithoutRights(t *testing.T) {
	w := withPeople(t)
	w.tasks()
	wk, err := bus.NewWorker(as(t, w, people[4]), "test", otherJob, "wk", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wk.Next(t.Context()); !errors.Is(err, message.ErrForbidden) {
		t.Errorf("%v, want forbidden", err)
	}
}

// JetStream would delete the journal for a worker with JetStream rights, so workers have none. If
// this test fails one day, the server checks reply subjects and the rule can change.
func TestServerAnswersOntoItsOwnAPI(t *testing.T) {
	w := newWorld(t, bustest.Listening(), bustest.With(func(o *embed.Options) {
		o.Users = []embed.User{{Name: "wk", Password: "pw", Permissions: bus.Permissions{Publish: []string{"$JS.API.CONSUMER.MSG.NEXT.ASKANCE_test.w_job"}, Subscribe: []string{"_INBOX_wk.>"}}}}
	}))
	w.journalWithQueue(t)
	nc := as(t, w, toolcall.Principal{Name: "wk"})
	if err := nc.PublishMsg(&nats.Msg{Subject: "$JS.API.CONSUMER.MSG.NEXT.ASKANCE_test.w_job", Reply: "$JS.API.STREAM.DELETE.ASKANCE_test", Data: []byte(`{"batch":1,"no_wait":true}`)}); err != nil {
		t.Fatal(err)
	}
	if err := flushed(t, nc); err != nil {
		t.Fatal(err)
	}
	js := bustest.JetStream(t, w.Bus)
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	for {
		if _, err := js.Stream(ctx, "ASKANCE_test"); err != nil {
			if ctx.Err() != nil {
				t.Error("the journal is still there: the server now checks reply subjects")
			}
			return
		}
	}
}
