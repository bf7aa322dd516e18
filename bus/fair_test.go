package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// soon bounds what these tests wait for.
const soon = bustest.Patience

// heldLists are lists that do not return before the test ends.
type heldLists struct {
	began   atomic.Int64
	release chan struct{}
}

type heldSurface struct {
	api.Caller
	lists *heldLists
	op    *api.Operation
}

func (s heldSurface) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	if op != s.op {
		return s.Caller.Call(ctx, op, request)
	}
	s.lists.began.Add(1)
	<-s.lists.release
	return nil, message.ErrUnavailable
}

// engineWithHeldLists starts an engine with such lists.
func (w *world) engineWithHeldLists(o bus.ServiceOptions) *heldLists {
	lists := &heldLists{release: make(chan struct{})}
	w.engine(o, func(s api.Caller) api.Caller { return heldSurface{s, lists, api.List.Operation} })
	w.t.Cleanup(func() { close(lists.release) })
	return lists
}

// Proposals that fill one space do not delay those of another space on the same connection.
func TestStuckSpaceDelaysNoOther(t *testing.T) {
	w := newWorld(t)
	nc, held := w.Conn("engine"), &heldLists{release: make(chan struct{})}
	w.engineOn(nc, testSpace(), bus.ServiceOptions{}, func(s api.Caller) api.Caller { return heldSurface{s, held, api.Propose.Operation} })
	t.Cleanup(func() { close(held.release) })
	other := testSpace()
	other.name = "other"
	w.engineOn(nc, other, bus.ServiceOptions{})
	for i := range 5 {
		name := fmt.Sprintf("bot%d", i)
		publishMany(t, w.Conn(name), "askance.v1.test.propose."+name, `{"v":1,"op":"propose","body":{"session_id":"s1","reply_id":"r1","tool_calls":[{"type":"tool_call","id":"c1","name":"pay","input":"{}"}]}}`, 1000)
	}
	bot, err := bus.NewClient(w.Conn("bot"), "other", toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	if err != nil {
		t.Fatal(err)
	}
	bustest.WaitUntil(t, "the first space is busy", func() error {
		if n := held.began.Load(); n < 64 {
			return fmt.Errorf("%d proposals run", n)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if _, err := bot.Propose(ctx, toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: []message.ToolCallBlock{toolCall("c1", pay, `{}`)}}); err != nil {
		t.Errorf("propose in the other space: %v", err)
	}
}

// publishMany sends a request n times and reads no answer.
func publishMany(t *testing.T, nc *nats.Conn, subject, request string, n int) {
	t.Helper()
	for range n {
		if err := nc.PublishRequest(subject, nc.Opts.InboxPrefix+".unread", []byte(request)); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// Lists that fill their class do not delay proposals, answers, interrupts or workers, on any
// subject.
func TestStuckReadsDelayNoDecision(t *testing.T) {
	w := newWorld(t)
	lists := w.engineWithHeldLists(bus.ServiceOptions{})
	bot, ann, olga := w.client(toolcall.RoleRuntime, "bot"), w.client(toolcall.RoleApprover, "ann"), w.client(toolcall.RoleOperator, "olga")
	for i := range 5 {
		name := fmt.Sprintf("reader%d", i)
		publishMany(t, w.Conn(name), "askance.v1.test.query."+name, `{"v":1,"op":"list","body":{}}`, 200)
	}
	publishMany(t, w.Conn("bot"), "askance.v1.test.propose.bot", `{"v":1,"op":"list","body":{}}`, 200)

	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	rep, err := bot.Propose(ctx, toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: []message.ToolCallBlock{toolCall("c1", pay, `{}`), toolCall("c2", pay, `{}`)}})
	if err != nil {
		t.Fatalf("propose: %v", err)
	}
	if _, err := ann.SubmitResponse(ctx, toolcall.Response{Key: bustest.CallKey("c1"), Digest: rep.Calls[0].Digest, Kind: toolcall.ResponseReject}); err != nil {
		t.Errorf("answer: %v", err)
	}
	if _, err := olga.Interrupt(ctx, toolcall.InterruptRequest{Session: "s1", Reply: "r1"}); err != nil {
		t.Errorf("interrupt: %v", err)
	}
	if n := lists.began.Load(); n == 0 || n > 64 {
		t.Errorf("%d lists ran at once", n)
	}
}

// A principal that sends more than its share is refused at once and leaves room for others.
func TestOnePrincipalTakesItsPart(t *testing.T) {
	w := newWorld(t)
	lists := w.engineWithHeldLists(bus.ServiceOptions{MaxReads: 8})
	nc := w.Conn("eve")
	var refused atomic.Int64
	enough := make(chan struct{})
	if _, err := nc.Subscribe("_INBOX_eve.unread", func(m *nats.Msg) {
		if bytes.Contains(m.Data, []byte(`"overloaded"`)) && refused.Add(1) == 2000 {
			close(enough)
		}
	}); err != nil {
		t.Fatal(err)
	}
	publishMany(t, nc, "askance.v1.test.query.eve", `{"v":1,"op":"list","body":{}}`, 3000)
	select {
	case <-enough:
	case <-time.After(soon):
		t.Fatalf("%d of 3000 lists were refused", refused.Load())
	}
	if n := lists.began.Load(); n != 4 {
		t.Errorf("%d lists of one principal run, want half of 8", n)
	}
	if _, err := w.client(toolcall.RoleAuditor, "amy").Info(t.Context()); err != nil {
		t.Errorf("another reader: %v", err)
	}
}

// steady proposes calls one by one until stop is closed. It returns how many there
// were and how long the slowest took.
func steady(t *testing.T, bot *bus.Client, name string, stop <-chan struct{}) (n int, slowest time.Duration) {
	for {
		select {
		case <-stop:
			return n, slowest
		default:
		}
		n++
		began := time.Now()
		// The server may close an engine's connection that reads nothing for too long. The client then
		// sends the request again.
		ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
		_, err := bot.Propose(ctx, toolcall.ProposeRequest{Session: message.SessionID("s-" + name), Reply: "r",
			Calls: []message.ToolCallBlock{toolCall(fmt.Sprint("c", n), "echo", `{}`)}})
		cancel()
		if err != nil {
			t.Errorf("proposal %d of %s was lost: %v", n, name, err)
			return n, slowest
		}
		slowest = max(slowest, time.Since(began))
	}
}

// liveHeap is what is in use after the garbage is collected.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// whileFlooded runs flood while two runtimes propose, and checks that
// nothing is lost and that memory is given back.
func whileFlooded(t *testing.T, w *world, flood func()) {
	t.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	bots := map[string]*bus.Client{"bot1": w.client(toolcall.RoleRuntime, "bot1"), "bot2": w.client(toolcall.RoleRuntime, "bot2")}
	before := liveHeap()
	for name, bot := range bots {
		wg.Go(func() {
			n, slowest := steady(t, bot, name, stop)
			t.Logf("%s proposed %d calls, the slowest took %v", name, n, slowest)
		})
	}
	flood()
	close(stop)
	wg.Wait()
	const bound = 48 << 20
	end := time.Now().Add(soon)
	grown := liveHeap() - before
	for ; grown > bound && time.Now().Before(end); grown = liveHeap() - before {
		runtime.Gosched()
	}
	t.Logf("the live heap has grown by %d KiB", grown>>10)
	if grown > bound {
		t.Errorf("the live heap has grown by %d MiB", grown>>20)
	}
}

// Large unreadable requests use up only their sender's share.
func TestRubbishDropsNoOthersMessages(t *testing.T) {
	w := newWorld(t)
	w.engine(bus.ServiceOptions{})
	for name, start := range map[string]string{"rubbish": "rubbish", "valid JSON": `{"v":1,"op":"propose","body":"`} {
		t.Run(name, func(t *testing.T) {
			flooder := w.Conn("eve")
			rubbish := []byte(start + strings.Repeat("x", 700<<10))
			if strings.HasPrefix(start, "{") {
				rubbish = append(rubbish, `"}`...)
			}
			whileFlooded(t, w, func() {
				for range 400 {
					if err := flooder.PublishRequest("askance.v1.test.propose.eve", "_INBOX_eve.unread", rubbish); err != nil {
						t.Fatal(err)
					}
				}
				if err := flooder.Flush(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// A client that asks for lists and never reads is cut off. No other client
// notices, and the memory of its answers is freed.
func TestUnreadAnswersAreBounded(t *testing.T) {
	w := newWorld(t, bustest.Listening())
	w.engine(bus.ServiceOptions{})
	bot := w.client(toolcall.RoleRuntime, "bot")
	input := `{"x":"` + strings.Repeat("y", 8<<10) + `"}`
	for i := range 20 {
		var calls []message.ToolCallBlock
		for n := range 5 {
			calls = append(calls, toolCall(fmt.Sprintf("c%d-%d", i, n), pay, input))
		}
		propose(t, bot, calls...)
	}
	whileFlooded(t, w, func() {
		u, err := url.Parse(w.URL())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		const request = `{"v":1,"op":"list","body":{}}`
		var out bytes.Buffer
		fmt.Fprintf(&out, "CONNECT {\"verbose\":false}\r\nSUB _INBOX_eve.> 1\r\n")
		for range 3000 {
			fmt.Fprintf(&out, "PUB askance.v1.test.query.eve _INBOX_eve.x %d\r\n%s\r\n", len(request), request)
		}
		if _, err := conn.Write(out.Bytes()); err != nil {
			t.Fatal(err)
		}
		// The engine has handled them when it answers another reader's later request.
		if _, err := w.client(toolcall.RoleAuditor, "amy").List(t.Context(), toolcall.ListRequest{Limit: 1}); err != nil {
			t.Errorf("another reader: %v", err)
		}
	})
}

// A decision waits for few of the lists that 200 readers ask for. Lists are counted, because a busy
// machine makes both slow.
func TestReadersDoNotStarveDecisions(t *testing.T) {
	w := newWorld(t)
	patient, cancel := context.WithTimeout(t.Context(), 5*soon) // without a deadline, a client waits fifteen seconds for each reply
	defer cancel()
	w.engine(bus.ServiceOptions{})
	bot, ann := w.client(toolcall.RoleRuntime, "bot"), w.client(toolcall.RoleApprover, "ann")
	digests := map[string]string{}
	ask := func(reply string, n int) {
		var calls []message.ToolCallBlock
		for i := range n {
			calls = append(calls, toolCall(fmt.Sprintf("%s-%d", reply, i), pay, `{"n":1}`))
		}
		rep, err := bot.Propose(patient, toolcall.ProposeRequest{Session: "s1", Reply: message.ReplyID(reply), Calls: calls})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range rep.Calls {
			digests[string(c.Call)] = c.Digest
		}
	}
	for i := range 20 {
		ask(fmt.Sprint("r", i), 50)
	}
	for i := range 20 {
		ask(fmt.Sprint("single", i), 1)
	}

	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	var lists atomic.Int64
	warm := make(chan struct{})
	for i := range 200 {
		name := fmt.Sprintf("reader%d", i%20)
		nc := w.Conn(name)
		readers.Go(func() {
			for ctx.Err() == nil {
				m, err := nc.RequestWithContext(ctx, "askance.v1.test.query."+name, []byte(`{"v":1,"op":"list","body":{}}`))
				if err == nil && !bytes.Contains(m.Data[:64], []byte("error")) && lists.Add(1) == 20 {
					close(warm)
				}
			}
		})
	}
	<-warm
	var waited []int64 // for how many lists each decision
	for n := range 20 {
		before := lists.Load()
		key := bustest.CallKey(fmt.Sprintf("r0-%d", n))
		key.Reply = "r0"
		if _, err := ann.SubmitResponse(patient, toolcall.Response{Key: key, Digest: digests[string(key.Call)], Kind: toolcall.ResponseReject}); err != nil {
			t.Errorf("answer: %v", err)
		}
		between := lists.Load()
		if _, err := bot.Interrupt(patient, toolcall.InterruptRequest{Session: "s1", Reply: message.ReplyID(fmt.Sprint("single", n))}); err != nil {
			t.Errorf("interrupt: %v", err)
		}
		waited = append(waited, between-before, lists.Load()-between)
	}
	slices.Sort(waited)
	t.Logf("the decisions waited for %v lists", waited)
	if usual := waited[len(waited)/2]; usual > 50 { // behind all readers it is 200
		t.Errorf("with 200 readers, a decision waits for %d lists", usual)
	}
	stop()
	readers.Wait()
}

// Requests with a foreign reply subject, which any client can send, do not fill
// the log.
func TestForeignRepliesDoNotFillTheLog(t *testing.T) {
	w := newWorld(t)
	var lines atomic.Int64
	w.engine(bus.ServiceOptions{Logger: slog.New(counting{slog.DiscardHandler, &lines})})
	nc := w.Conn("eve")
	for range 2000 {
		if err := nc.PublishRequest("askance.v1.test.query.eve", "_INBOX_amy.stolen", []byte(`{"v":1,"op":"list","body":{}}`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client(toolcall.RoleAuditor, "amy").Info(t.Context()); err != nil { // behind them all
		t.Fatal(err)
	}
	if n := lines.Load(); n == 0 || n > 100 {
		t.Errorf("2000 requests with a foreign reply subject made %d lines, want one a second", n)
	}
}

// counting counts the records that it is given.
type counting struct {
	slog.Handler
	n *atomic.Int64
}

func (c counting) Enabled(context.Context, slog.Level) bool { return true }

func (c counting) Handle(context.Context, slog.Record) error { c.n.Add(1); return nil }
