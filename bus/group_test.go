package bus_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// member is in a queue group of the engines and answers no request, like an engine that hangs. It
// can announce itself like a running engine.
type member struct {
	t     testing.TB
	nc    *nats.Conn
	given atomic.Int32 // requests that NATS sent to it

	mu    sync.Mutex // guards heard
	heard []bus.Presence
}

func (w *world) member(group string) *member {
	w.t.Helper()
	m := &member{t: w.t, nc: w.Conn("engine")}
	for _, row := range bus.Table() {
		if _, ops := bus.Operations(row.Kind); len(ops) == 0 {
			continue
		}
		if _, err := m.nc.QueueSubscribe(bus.Subject{Space: "test", Kind: row.Kind}.String(), group, func(*nats.Msg) { m.given.Add(1) }); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := m.nc.Subscribe(bus.Subject{Space: "test", Kind: bus.KindPresence}.String(), func(msg *nats.Msg) {
		var p bus.Presence
		if err := json.Unmarshal(msg.Data, &p); err != nil {
			w.t.Error(err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.heard = append(m.heard, p)
	}); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), bustest.Patience)
	defer cancel()
	if err := m.nc.FlushWithContext(ctx); err != nil { // engines that start now can see it
		w.t.Fatal(err)
	}
	return m
}

// tell announces that an engine with this id runs in the first group.
func (m *member) tell(id string) {
	m.t.Helper()
	if err := m.nc.Publish(bus.Subject{Space: "test", Kind: bus.KindPresence, Who: "engine"}.String(), []byte(`{"v":1,"engine":"`+id+`"}`)); err != nil {
		m.t.Fatal(err)
	}
	synctest.Wait()
}

// last returns the latest announcement of another engine.
func (m *member) last(id string) (p bus.Presence) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.heard {
		if h.Engine != id {
			p = h
		}
	}
	return p
}

// slowest sends many requests and returns the longest response time.
func slowest(t testing.TB, c *bus.Client) time.Duration {
	t.Helper()
	worst := time.Duration(0)
	for range 40 {
		began := time.Now()
		if _, err := c.Info(context.Background()); err != nil {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		worst = max(worst, time.Since(began))
	}
	return worst
}

// The other engines leave a hung member of the queue group behind after seconds, and tell it when
// they hear from it again.
func TestHungEngineIsLeftBehind(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		w.engine(bus.ServiceOptions{})
		leaver := w.engine(bus.ServiceOptions{})
		hung := w.member("askance")
		for range 5 {
			hung.tell("x")
			time.Sleep(time.Second)
		}
		leaver.stop()
		for range 10 {
			hung.tell("x")
			time.Sleep(time.Second)
		}
		if p := hung.last("x"); p.Generation != 0 {
			t.Errorf("an engine that left normally changed the queue group: %+v", p)
		}
		eve := w.client(toolcall.RoleAuditor, "eve")
		slowest(t, eve)
		if hung.given.Load() == 0 {
			t.Fatal("the other member shares no requests: this test cannot fail")
		}
		time.Sleep(5 * time.Second) // of silence
		before := hung.given.Load()
		if d := slowest(t, eve); d > 100*time.Millisecond {
			t.Errorf("with a hung member a request takes %s", d)
		}
		if hung.given.Load() == before {
			t.Error("the hung member no longer receives requests, so this test shows nothing")
		}
		hung.tell("x")
		if p := hung.last("x"); p.Generation != 1 {
			t.Errorf("the member that is back was told %+v, want generation 1", p)
		}
	})
}

// An engine can move to a new generation and hang before it announces that. The other engines also
// leave the group that it joined silently.
func TestEngineThatHangsAsItMovesIsLeftBehind(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		w.engine(bus.ServiceOptions{})
		first, moved := w.member("askance"), w.member("askance-1")
		for range 5 {
			first.tell("x")
			moved.tell("y")
			time.Sleep(time.Second)
		}
		for range 3 {
			moved.tell("y")
			time.Sleep(time.Second)
		}
		moved.tell("y") // the last, as x is left behind
		eve := w.client(toolcall.RoleAuditor, "eve")
		time.Sleep(500 * time.Millisecond)
		slowest(t, eve)
		if moved.given.Load() == 0 {
			t.Fatal("the member that moved shares no requests: this test cannot fail")
		}
		time.Sleep(5 * time.Second)
		if d := slowest(t, eve); d > 100*time.Millisecond {
			t.Errorf("with a member that hung as it moved a request takes %s", d)
		}
	})
}

// stuckLog hangs for ten seconds at each message that begins with at, and sends
// all messages to lines.
type stuckLog struct {
	slog.Handler
	at    string
	lines chan string
}

func (l stuckLog) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, l.at) {
		time.Sleep(10 * time.Second)
	}
	l.lines <- r.Message
	return nil
}

// An engine that hangs anywhere and is disconnected meanwhile leaves its group before it accepts
// requests again.
func TestEngineThatHungJoinsAgain(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		log := stuckLog{slog.NewTextHandler(io.Discard, nil), "another engine is silent", make(chan string, 100)}
		e := w.engine(bus.ServiceOptions{Logger: slog.New(log)})
		m := w.member("askance")
		m.tell("x")
		time.Sleep(6 * time.Second) // it is silent, and the engine hangs
		if err := e.nc.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		log.lines <- "" // marks the end of the messages
		if said := []string{<-log.lines, <-log.lines}; !strings.HasPrefix(said[0], log.at) || !strings.HasPrefix(said[1], "this engine was paused") {
			t.Errorf("the engine that hung said %q", said)
		}
	})
}

// An engine that starts while another one hangs shares no requests with it.
func TestStartBesideHungEngine(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		w.member("askance")
		w.engine(bus.ServiceOptions{})
		eve := w.client(toolcall.RoleAuditor, "eve")
		if d := slowest(t, eve); d > 100*time.Millisecond {
			t.Errorf("with a hung member a request takes %s", d)
		}
		// The next one joins the engine that runs.
		w.engine(bus.ServiceOptions{})
		if d := slowest(t, eve); d > 100*time.Millisecond {
			t.Errorf("with two engines a request takes %s", d)
		}
	})
}

// slow answers a proposal after a delay.
type slow struct {
	api.Caller
	after *atomic.Int64
}

func (s slow) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	reply, err := s.Caller.Call(ctx, op, request)
	if op == api.Propose.Operation {
		time.Sleep(time.Duration(s.after.Load()))
	}
	return reply, err
}

// A request is sent again after a second, and its first answer counts even if that arrives after the
// request was sent again.
func TestFirstAnswerCounts(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		var left atomic.Int32
		var delay atomic.Int64
		w.engine(bus.ServiceOptions{}, func(s api.Caller) api.Caller { return slow{forgetful{s, &left}, &delay} })
		bot := w.client(toolcall.RoleRuntime, "bot")
		left.Store(1)
		began := time.Now()
		propose(t, bot, toolCall("c1", echo, `{}`))
		if d := time.Since(began); d < time.Second || d > 1500*time.Millisecond {
			t.Errorf("a lost answer cost %s, want a second", d)
		}
		delay.Store(int64(8 * time.Second))
		began = time.Now()
		propose(t, bot, toolCall("c2", echo, `{}`))
		if d := time.Since(began); d < 8*time.Second || d > 8500*time.Millisecond {
			t.Errorf("an answer that takes 8s came after %s", d)
		}
	})
}
