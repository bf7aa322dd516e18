package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

func TestClientWithoutAnEngine(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		bot := w.client(toolcall.RoleRuntime, "bot")
		began := time.Now()
		if _, err := bot.Info(context.Background()); !errors.Is(err, message.ErrUnavailable) {
			t.Errorf("info: %v", err)
		}
		if d := time.Since(began); d < 10*time.Second || d > 20*time.Second {
			t.Errorf("gave up after %v", d)
		}
		// The client works with an engine that starts later.
		time.AfterFunc(5*time.Second, func() { w.engine(bus.ServiceOptions{}) })
		if _, err := bot.Info(context.Background()); err != nil {
			t.Errorf("info with an engine after 5 s: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := bot.Propose(ctx, toolcall.ProposeRequest{}); !errors.Is(err, message.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before: %v", err)
		}
	})
}

// forgetful executes requests but does not answer in time, n times.
type forgetful struct {
	api.Caller
	left *atomic.Int32
}

func (f forgetful) after(ctx context.Context) {
	if f.left.Add(-1) >= 0 {
		<-ctx.Done()
	}
}

func (f forgetful) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	reply, err := f.Caller.Call(ctx, op, request)
	switch op {
	case api.SubmitResponse.Operation, api.Propose.Operation, api.Emit.Operation:
		f.after(ctx)
	}
	return reply, err
}

// Requests whose answers are lost are sent again, and have one effect.
func TestClientSendsAgain(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		var left atomic.Int32
		w.engine(bus.ServiceOptions{}, func(s api.Caller) api.Caller { return forgetful{s, &left} })
		bot, ann := w.client(toolcall.RoleRuntime, "bot"), w.client(toolcall.RoleApprover, "ann")

		left.Store(1)
		calls := propose(t, bot, toolCall("c1", pay, `{}`))
		left.Store(1)
		call, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: bustest.CallKey("c1"), Digest: calls[0].Digest, Kind: toolcall.ResponseApprove})
		if err != nil || len(call.Votes) != 1 {
			t.Errorf("answer: %+v, %v", call, err)
		}
		// Another approver is still told that they came too late.
		bob := w.client(toolcall.RoleApprover, "bob")
		left.Store(1)
		if _, err := bob.SubmitResponse(t.Context(), toolcall.Response{Key: bustest.CallKey("c1"), Digest: calls[0].Digest, Kind: toolcall.ResponseApprove}); err == nil {
			t.Error("a second approver was told that their answer counted")
		}
		left.Store(1)
		if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: bustest.CallKey("c1"), Digest: calls[0].Digest, Kind: toolcall.ResponseReject}); err == nil {
			t.Error("a different answer was accepted as a repetition of the first")
		}
		left.Store(2)
		if _, err := bot.Emit(t.Context(), toolcall.EmitRequest{Session: "s1", Reply: "r1", Events: []message.RawJSON{
			message.RawJSON(`{"type":"TEXT_BLOCK_DELTA","reply_id":"r1","block_id":"b","delta":"x"}`),
			message.RawJSON(`{"type":"TEXT_BLOCK_DELTA","reply_id":"r1","block_id":"b","delta":"x"}`),
		}}); err != nil {
			t.Fatal(err)
		}
		evs, err := bot.Events(t.Context(), toolcall.EventsRequest{Session: "s1"})
		if err != nil {
			t.Fatal(err)
		}
		deltas := 0
		for _, ev := range evs.Events {
			if strings.Contains(string(ev.Event), "TEXT_BLOCK_DELTA") {
				deltas++
			}
		}
		if deltas != 2 {
			t.Errorf("%d deltas, want 2", deltas)
		}
		left.Store(99)
		if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: bustest.CallKey("c1"), Digest: calls[0].Digest, Kind: toolcall.ResponseApprove}); !errors.Is(err, message.ErrUnknownOutcome) {
			t.Errorf("never answered: %v, want unknown outcome", err)
		}
	})
}

func TestClientWaitsAndEventsLoop(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, bustest.In(dir))
		w.engine(bus.ServiceOptions{})
		bot, ann := w.client(toolcall.RoleRuntime, "bot"), w.client(toolcall.RoleApprover, "ann")
		calls := propose(t, bot, toolCall("c1", pay, `{}`))
		evs, err := bot.Events(t.Context(), toolcall.EventsRequest{Session: "s1"})
		if err != nil || len(evs.Events) == 0 {
			t.Fatalf("events: %+v, %v", evs, err)
		}
		began := time.Now()
		if rep, err := bot.Wait(t.Context(), toolcall.WaitRequest{Session: "s1", Reply: "r1", TimeoutMS: 90_000}); err != nil || rep.Done || len(rep.Calls) != 1 {
			t.Errorf("wait: %+v, %v", rep, err)
		}
		if d := time.Since(began); d < 90*time.Second || d > 91*time.Second {
			t.Errorf("a wait of 90 s took %v", d)
		}
		began = time.Now()
		if rep, err := bot.Events(t.Context(), toolcall.EventsRequest{Session: "s1", After: evs.Next, WaitMS: 60_000}); err != nil || len(rep.Events) != 0 {
			t.Errorf("events: %+v, %v", rep, err)
		}
		if d := time.Since(began); d < 60*time.Second || d > 61*time.Second {
			t.Errorf("events of 60 s took %v", d)
		}
		time.AfterFunc(70*time.Second, func() {
			_, _ = ann.SubmitResponse(context.Background(), toolcall.Response{Key: bustest.CallKey("c1"), Digest: calls[0].Digest, Kind: toolcall.ResponseReject})
		})
		if rep, err := bot.Wait(t.Context(), toolcall.WaitRequest{Session: "s1", Reply: "r1", TimeoutMS: 90_000}); err != nil || !rep.Done {
			t.Errorf("wait: %+v, %v", rep, err)
		}
	})
}

// Replies that are too large for one message are fetched in pieces.
func TestLargeReplies(t *testing.T) {
	w := newWorld(t, bustest.With(func(o *embed.Options) { o.MaxPayload = 128 << 10 }))
	w.engine(bus.ServiceOptions{})
	bot := w.client(toolcall.RoleRuntime, "bot")
	var calls []message.ToolCallBlock
	for i := range 12 {
		calls = append(calls, toolCall(fmt.Sprint("c", i), pay, `{"text":"`+strings.Repeat("x", 8<<10)+`"}`))
	}
	got := propose(t, bot, calls...) // the reply has the inputs twice
	if len(got) != 12 {
		t.Fatalf("%d calls", len(got))
	}
	for i, c := range got {
		if c.Call != calls[i].ID || c.Input != calls[i].Input {
			t.Errorf("call %d is %s", i, c.Call)
		}
	}
	var listed []message.CallID
	for after, pages := uint64(0), 0; ; pages++ {
		rep, err := bot.List(t.Context(), toolcall.ListRequest{Session: "s1", After: after})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range rep.Calls {
			listed = append(listed, c.Call)
		}
		if after = rep.Next; after == 0 {
			if pages < 1 {
				t.Error("everything fit in one page; the test is too small")
			}
			break
		}
	}
	if len(listed) != 12 {
		t.Errorf("listed %v", listed)
	}
	rep, err := bot.Wait(t.Context(), toolcall.WaitRequest{Session: "s1", Reply: "r1", Calls: listed, Until: toolcall.UntilParked, TimeoutMS: 1000})
	if err != nil || len(rep.Calls) != 12 {
		t.Errorf("wait: %d calls, %v", len(rep.Calls), err)
	}
	n := 0
	for after, pages := uint64(0), 0; pages < 100; pages++ {
		rep, err := bot.Events(t.Context(), toolcall.EventsRequest{Session: "s1", After: after})
		if err != nil {
			t.Fatal(err)
		}
		n += len(rep.Events)
		if rep.Next == after {
			break
		}
		after = rep.Next
	}
	if n < 12 {
		t.Errorf("%d events", n)
	}
	if _, err := bot.Propose(t.Context(), toolcall.ProposeRequest{Session: "s1", Reply: "r2", Calls: []message.ToolCallBlock{toolCall("c", pay, `{"text":"`+strings.Repeat("x", 200<<10)+`"}`)}}); !errors.Is(err, message.ErrTooLarge) {
		t.Errorf("a request over max_payload: %v", err)
	}
}

func TestHintsAndProgress(t *testing.T) {
	w := newWorld(t)
	w.engine(bus.ServiceOptions{})
	ann := w.client(toolcall.RoleApprover, "ann")
	hints := make(chan bus.Hint, 16)
	stop, err := ann.OnHint(t.Context(), func(h bus.Hint) { hints <- h })
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 16)
	stop2, err := ann.OnProgress(t.Context(), toolcall.Key{}, func(p toolcall.ProgressRequest) { lines <- p.Text })
	if err != nil {
		t.Fatal(err)
	}
	defer stop2()
	// Messages that do not say where they belong, or that contradict their subject, are ignored.
	forger := w.Conn("forger")
	for _, m := range []*nats.Msg{
		{Subject: "askance.v1.test.ask.s1.r1.c1", Data: []byte(`{`)},
		{Subject: "askance.v1.test.ask.s1.r1.c1", Data: []byte(`{"v":1,"space":"test","session_id":"s1","reply_id":"r1","tool_call_id":"c2"}`)},
		{Subject: "askance.v1.test.progress.s1.r1.c1", Data: []byte(`{"v":1,"text":"forged"}`)},
	} {
		if err := forger.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	calls := propose(t, w.client(toolcall.RoleRuntime, "bot"), toolCall("c1", pay, `{}`))
	if h := receive(t, hints); h.Key != bustest.CallKey("c1") || h.State != message.ToolCallAsking || h.Digest != calls[0].Digest || h.Tool != pay {
		t.Errorf("hint %+v", h)
	}
	if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: bustest.CallKey("c1"), Digest: calls[0].Digest, Kind: toolcall.ResponseApprove}); err != nil {
		t.Fatal(err)
	}
	if h := receive(t, hints); h.Digest != "" || h.State == message.ToolCallAsking {
		t.Errorf("second hint %+v", h)
	}
	if line := receive(t, lines); line != "running" {
		t.Errorf("progress %q", line)
	}
	stop()
}

// A restarted runtime finds its calls by session and continues.
func TestRuntimeFindsItsCallsAgain(t *testing.T) {
	w := newWorld(t)
	w.engine(bus.ServiceOptions{})
	nc := w.Conn("bot")
	calls := propose(t, w.clientOn(nc, toolcall.RoleRuntime, "bot"), toolCall("c1", pay, `{}`), toolCall("c2", echo, `{}`))
	nc.Close()

	again := w.client(toolcall.RoleRuntime, "bot")
	rep, err := again.List(t.Context(), toolcall.ListRequest{Session: "s1"})
	if err != nil || len(rep.Calls) == 0 || rep.Calls[0].Call != "c1" {
		t.Fatalf("list: %+v, %v", rep, err)
	}
	if _, err := w.client(toolcall.RoleApprover, "ann").SubmitResponse(t.Context(), toolcall.Response{Key: bustest.CallKey("c1"), Digest: calls[0].Digest, Kind: toolcall.ResponseApprove}); err != nil {
		t.Fatal(err)
	}
	finished(t, again, "c1")
	if rep, err := w.client(toolcall.RoleRuntime, "stranger").List(t.Context(), toolcall.ListRequest{Session: "s1", All: true}); err != nil || len(rep.Calls) != 0 {
		t.Errorf("another runtime sees %d calls, %v", len(rep.Calls), err)
	}
}
