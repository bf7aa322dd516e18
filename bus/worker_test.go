package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
	"github.com/nats-io/nats.go/jetstream"
)

func next(t testing.TB, w *bus.Worker) toolcall.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	task, err := w.Next(ctx)
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	return task
}

func success(id, tool, text string) message.ToolResultBlock {
	return message.ToolResultBlock{ID: message.CallID(id), Name: tool, State: message.ToolResultSuccess, Output: message.Content{Text: text}}
}

// A worker with only its permissions works over TCP from the task to the result, with progress and a
// cancel in between.
func TestWorkerWithMinimalPermissions(t *testing.T) {
	who := toolcall.Principal{Role: toolcall.RoleWorker, Name: "wk.1"}
	w := newWorld(t, bustest.Listening(), bustest.With(func(o *embed.Options) {
		o.Users = []embed.User{{Name: "wk", Password: "pw", Permissions: bus.PermissionsFor("test", who, toolcall.Queue{Tool: job})}}
	}))
	w.engine(bus.ServiceOptions{})
	denied := make(chan error, 16)
	nc, err := bus.Connect(t.Context(), w.URL(), bus.ConnectOptions{Principal: who.Name, User: "wk", Password: "pw",
		Extra: []nats.Option{nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err })}})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	wk, err := bus.NewWorker(nc, "test", job, who.Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	bot := w.client(toolcall.RoleRuntime, "bot")
	lines := make(chan string, 16)
	stop, err := bot.OnProgress(t.Context(), toolcall.Key{Session: "s1"}, func(p toolcall.ProgressRequest) { lines <- fmt.Sprint(p.Call, p.N, p.Text) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	propose(t, bot, toolCall("c1", job, `{"n":1}`), toolCall("c2", job, `{"n":2}`))

	cancelled := make(chan string, 1)
	defer wk.Cancels(func(r toolcall.HeartbeatRequest, reason string) {
		cancelled <- fmt.Sprint(r.Call, " ", r.Claim, " ", reason)
	})()
	for _, id := range []string{"c1", "c2"} {
		task := next(t, wk)
		c := task.Record.Call
		if string(c.Call) != id || c.Input == "" || c.Attempt.Grant == nil || task.Delivered != 1 {
			t.Fatalf("task %+v", task)
		}
		if err := c.Attempt.Grant.VerifyQueue(toolcall.NewKeySet(w.Keys().Public()), *c.Request, toolcall.Queue{Tool: job}, c.Attempt.Number, time.Now()); err != nil {
			t.Errorf("the grant: %v", err)
		}
		if _, err := wk.Start(t.Context(), toolcall.StartRequest{Key: c.Key, Attempt: 1, Claim: "claim-" + id}); err != nil {
			t.Fatal(err)
		}
		if err := task.Ack(t.Context()); err != nil {
			t.Errorf("ack: %v", err)
		}
	}
	if err := wk.Progress(t.Context(), toolcall.ProgressRequest{Key: bustest.CallKey("c1"), Attempt: 1, Claim: "claim-c1", N: 1, Text: "half"}); err != nil {
		t.Error(err)
	}
	if line := receive(t, lines); line != "c11half" {
		t.Errorf("progress %q", line)
	}
	rep, err := wk.Result(t.Context(), toolcall.ResultRequest{Key: bustest.CallKey("c1"), Attempt: 1, Claim: "claim-c1", Result: success("c1", job, "done")})
	if err != nil || !rep.Stored || rep.State != message.ToolCallFinished {
		t.Errorf("result: %+v, %v", rep, err)
	}
	if _, err := bot.Interrupt(t.Context(), toolcall.InterruptRequest{Session: "s1", Reply: "r1", Reason: "stop"}); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, cancelled); got[:12] != "c2 claim-c2 " {
		t.Errorf("cancel %q", got)
	}
	if hb, err := wk.Heartbeat(t.Context(), toolcall.HeartbeatRequest{Key: bustest.CallKey("c2"), Attempt: 1, Claim: "claim-c2"}); err != nil || !hb.Cancel {
		t.Errorf("heartbeat of an interrupted call: %+v, %v", hb, err)
	}
	select {
	case err := <-denied:
		t.Errorf("NATS refused something that a worker needs: %v", err)
	default:
	}
}

func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(bustest.Patience):
		t.Fatalf("nothing arrived within %s", bustest.Patience)
		panic("unreachable")
	}
}

// A worker may start before its queue exists, and waits for it.
func TestNextWaitsForTheQueue(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		wk := w.worker(job, "wk")
		tasks := make(chan toolcall.Task)
		go func() {
			task, err := wk.Next(context.Background())
			if err != nil {
				t.Error(err)
			}
			tasks <- task
		}()
		time.Sleep(time.Minute)
		w.engine(bus.ServiceOptions{})
		time.Sleep(10 * time.Minute) // many requests for a task expire
		began := time.Now()
		propose(t, w.client(toolcall.RoleRuntime, "bot"), toolCall("c1", job, `{}`))
		task := <-tasks
		if d := time.Since(began); task.Record.Call.Call != "c1" || d > time.Second {
			t.Errorf("%s came after %v", task.Record.Call.Call, d)
		}
	})
}

// A worker of a tool that the engine lacks says so once, and waits on.
func TestNextOfAMissingTool(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		w.engine(bus.ServiceOptions{})
		var log bytes.Buffer
		for _, tool := range []string{"jbo", job} {
			wk, err := bus.NewWorker(w.Conn("wk"), "test", tool, "wk", slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if _, err := wk.Next(ctx); !errors.Is(err, message.ErrUnavailable) {
				t.Errorf("Next of %s = %v", tool, err)
			}
			cancel()
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), `the engine has no tool \"jbo\"`) {
			t.Errorf("the log says\n%s", log.String())
		}
	})
}

func TestNextReleaseAndRedelivery(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		j := w.journalWithQueue(t)
		w.tasks()
		bustest.MustAppend(t, j, bustest.WorkRecord("f1", bustest.CallKey("c1"), job), 0)
		wk := w.worker(job, "wk")
		first := next(t, wk)
		began := time.Now()
		if err := first.Release(3 * time.Second); err != nil {
			t.Fatal(err)
		}
		second := next(t, wk)
		if d := time.Since(began); second.Delivered != 2 || d < 3*time.Second || d > 4*time.Second {
			t.Errorf("released: delivery %d after %v", second.Delivered, d)
		}
		began = time.Now() // the second delivery is neither acknowledged nor released
		third := next(t, wk)
		if d := time.Since(began); third.Delivered != 3 || d < 10*time.Second || d > 11*time.Second {
			t.Errorf("forgotten: delivery %d after %v", third.Delivered, d)
		}
		if err := third.Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if task, err := wk.Next(ctx); !errors.Is(err, message.ErrUnavailable) {
			t.Errorf("after the acknowledgement: %+v, %v", task, err)
		}
	})
}

// A worker that stops asking leaves nothing behind that would swallow a task.
func TestNextGivenUpLosesNothing(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		j := w.journalWithQueue(t)
		w.tasks()
		wk := w.worker(job, "wk")
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if _, err := wk.Next(ctx); err == nil {
				t.Error("a task from nowhere")
			}
			cancel()
		}
		synctest.Wait()
		bustest.MustAppend(t, j, bustest.WorkRecord("f1", bustest.CallKey("c1"), job), 0)
		began := time.Now()
		task := next(t, wk) // despite the requests that were given up
		if d := time.Since(began); d > time.Second {
			t.Errorf("a task came after %v", d)
		}
		if err := task.Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := wk.Next(ctx); err == nil {
			t.Error("a task from nowhere")
		}
		time.Sleep(5 * time.Second) // by now the requests have expired
		bustest.MustAppend(t, j, bustest.WorkRecord("f2", bustest.CallKey("c2"), job), 0)
		if task := next(t, wk); task.Delivered != 1 {
			t.Errorf("delivery %d", task.Delivered)
		}
	})
}

// A message that is not a task of this tool is removed from the queue without being handed out.
func TestNextSkipsWhatIsNoTask(t *testing.T) {
	w := newWorld(t)
	j := w.journalWithQueue(t)
	w.tasks()
	nc := w.Conn("forger")
	for _, body := range []string{"", "{", `{"v":2}`, `{"v":2,"id":"x","call":{"space":"test","session_id":"s1","reply_id":"r1","tool_call_id":"zz","tool_name":"job"}}`} {
		for _, status := range []string{"", "100", "404", "503"} {
			m := nats.NewMsg("askance.v1.test.record.s1.r1.c1.w.job")
			m.Data = []byte(body)
			if status != "" {
				m.Header.Set("Status", status)
			}
			bustest.Store(t, nc, m)
		}
	}
	bustest.MustAppend(t, j, bustest.WorkRecord("f1", bustest.CallKey("c9"), job), 0)
	wk := w.worker(job, "wk")
	if task := next(t, wk); task.Record.Call.Call != "c9" {
		t.Errorf("task %+v", task.Record)
	}
	c, err := bustest.Stream(t, w.Bus).Consumer(t.Context(), bus.ConsumerName(toolcall.Queue{Tool: job}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	for { // the worker removes messages without waiting for the server
		info, err := c.Info(ctx)
		if err != nil {
			t.Fatalf("tasks are left on the queue: %v", err)
		}
		if info.NumPending == 0 && info.NumAckPending == 1 {
			return
		}
	}
}

// NATS goes down and comes back while a worker waits.
func TestNextSurvivesAServerRestart(t *testing.T) {
	b := newWorld(t, bustest.Listening())
	b.tasksOn(b.Dial("tasks"))
	j, err := journal.Open(t.Context(), b.Dial("engine"), "test", b.Keys(), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.EnsureQueue(t.Context(), toolcall.Queue{Tool: job}); err != nil {
		t.Fatal(err)
	}
	wk, err := bus.NewWorker(b.Dial("wk"), "test", job, "wk", nil)
	if err != nil {
		t.Fatal(err)
	}
	tasks := make(chan toolcall.Task, 1)
	go func() {
		if task, err := wk.Next(t.Context()); err == nil {
			tasks <- task
		}
	}()
	waiting(t, b.Server)
	b.Restart()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	if _, err := j.Append(ctx, bustest.WorkRecord("f1", bustest.CallKey("c1"), job), 0); err != nil {
		t.Fatal(err)
	}
	if task := receive(t, tasks); task.Record.ID != "f1" {
		t.Errorf("task %+v", task)
	}
}

// waiting returns when a worker's request for a task has reached the server.
func waiting(t testing.TB, srv *embed.Server) {
	t.Helper()
	nc, err := srv.Connect(t.Context(), bus.ConnectOptions{Principal: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for {
		c, err := js.Consumer(t.Context(), "ASKANCE_test", bus.ConsumerName(toolcall.Queue{Tool: job}))
		if err != nil {
			t.Fatal(err)
		}
		if c.CachedInfo().NumWaiting > 0 {
			return
		}
	}
}

func TestNewWorkerRefuses(t *testing.T) {
	w := newWorld(t)
	nc := w.Conn("wk")
	for name, newWorker := range map[string]func() (*bus.Worker, error){
		"space":      func() (*bus.Worker, error) { return bus.NewWorker(nc, "A.B", job, "wk", nil) },
		"no tool":    func() (*bus.Worker, error) { return bus.NewWorker(nc, "test", "", "wk", nil) },
		"long tool":  func() (*bus.Worker, error) { return bus.NewWorker(nc, "test", bustest.LongID, "wk", nil) },
		"connection": func() (*bus.Worker, error) { return bus.NewWorker(nc, "test", job, "other", nil) },
	} {
		if wk, err := newWorker(); err == nil {
			t.Errorf("%s: made %+v", name, wk)
		}
	}
}
