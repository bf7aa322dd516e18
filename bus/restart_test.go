package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// NATS is stopped and started again under an engine, a runtime that waits, an
// approver and a worker: all of them continue without a restart.
func TestEverybodySurvivesAServerRestart(t *testing.T) {
	w := newWorld(t, bustest.Listening())
	w.engineOn(w.Dial("engine"), testSpace(), bus.ServiceOptions{})
	bot := w.clientOn(w.Dial("bot"), toolcall.RoleRuntime, "bot")
	ann := w.clientOn(w.Dial("ann"), toolcall.RoleApprover, "ann")
	wk, err := bus.NewWorker(w.Dial("wk"), "test", job, "wk", nil)
	if err != nil {
		t.Fatal(err)
	}
	asked := propose(t, bot, toolCall("c1", pay, `{}`), toolCall("c2", job, `{}`))[0]
	task := next(t, wk)
	if _, err := wk.Start(t.Context(), toolcall.StartRequest{Key: bustest.CallKey("c2"), Attempt: 1, Claim: "claim"}); err != nil {
		t.Fatal(err)
	}
	type waited struct {
		rep toolcall.WaitReply
		err error
	}
	done := make(chan waited, 1)
	go func() {
		rep, err := bot.Wait(context.Background(), toolcall.WaitRequest{Session: "s1", Reply: "r1", TimeoutMS: bustest.Patience.Milliseconds()})
		done <- waited{rep, err}
	}()

	w.Restart()

	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	if _, err := ann.SubmitResponse(ctx, toolcall.Response{Key: bustest.CallKey("c1"), Digest: asked.Digest, Kind: toolcall.ResponseApprove}); err != nil {
		t.Errorf("answer after the restart: %v", err)
	}
	if err := task.Ack(ctx); err != nil {
		t.Errorf("acknowledge after the restart: %v", err)
	}
	if rep, err := wk.Heartbeat(ctx, toolcall.HeartbeatRequest{Key: bustest.CallKey("c2"), Attempt: 1, Claim: "claim"}); err != nil || rep.Stale {
		t.Errorf("heartbeat after the restart: %+v, %v", rep, err)
	}
	if rep, err := wk.Result(ctx, toolcall.ResultRequest{Key: bustest.CallKey("c2"), Attempt: 1, Claim: "claim", Result: success("c2", job, "done")}); err != nil || !rep.Stored {
		t.Errorf("result after the restart: %+v, %v", rep, err)
	}
	// A wait that was held when NATS went down is sent again.
	if got := receive(t, done); got.err != nil || !got.rep.Done || len(got.rep.Calls) != 2 {
		t.Errorf("the wait: %+v, %v", got.rep, got.err)
	}
	if show, err := ann.Show(ctx, toolcall.ShowRequest{Key: bustest.CallKey("c2")}); err != nil || len(show.History) != 3 {
		t.Errorf("c2 has %d event records, %v; want submitted, started, finished", len(show.History), err)
	}
}

// A runtime is killed between an approval request and its answer. The next one finds the call by its
// session, in its current state, and the events that it missed.
func TestRuntimeRestartsWhileItsCallsMoveOn(t *testing.T) {
	w := newWorld(t)
	w.engine(bus.ServiceOptions{})
	nc := w.Conn("bot")
	first := w.clientOn(nc, toolcall.RoleRuntime, "bot")
	asked := propose(t, first, toolCall("c1", pay, `{}`), toolCall("c2", pay, `{}`))
	evs, err := first.Events(t.Context(), toolcall.EventsRequest{Session: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	ann := w.client(toolcall.RoleApprover, "ann")
	if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: bustest.CallKey("c1"), Digest: asked[0].Digest, Kind: toolcall.ResponseApprove}); err != nil {
		t.Fatal(err)
	}
	finished(t, ann, "c1")

	again := w.client(toolcall.RoleRuntime, "bot")
	open, err := again.List(t.Context(), toolcall.ListRequest{Session: "s1"})
	if err != nil || len(open.Calls) != 1 || open.Calls[0].Call != "c2" || open.Calls[0].State != message.ToolCallAsking {
		t.Errorf("open calls: %+v, %v", open.Calls, err)
	}
	all, err := again.List(t.Context(), toolcall.ListRequest{Session: "s1", All: true})
	if err != nil || len(all.Calls) != 2 || all.Calls[0].Result == nil {
		t.Errorf("all calls: %+v, %v", all.Calls, err)
	}
	missed, err := again.Events(t.Context(), toolcall.EventsRequest{Session: "s1", After: evs.Next})
	if err != nil || len(missed.Events) == 0 {
		t.Errorf("missed events: %+v, %v", missed, err)
	}
	if rep := propose(t, again, toolCall("c2", pay, `{}`)); rep[0].Digest != asked[1].Digest {
		t.Error("proposed again, the call asks something else")
	}
	if _, err := again.Propose(t.Context(), toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: []message.ToolCallBlock{toolCall("c2", pay, `{"n":2}`)}}); !errors.Is(err, message.ErrConflict) {
		t.Errorf("proposed again with other content: %v, want a conflict", err)
	}
}

// NATS goes down permanently. Requests end in time with their context.
func TestClientWithoutNATS(t *testing.T) {
	w := newWorld(t, bustest.Listening())
	w.engine(bus.ServiceOptions{})
	bot := w.clientOn(w.Dial("bot"), toolcall.RoleRuntime, "bot")
	if _, err := bot.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := bot.Info(ctx)
	if e := message.AsError("", err); !errors.Is(err, message.ErrUnavailable) || e.Hint == "" {
		t.Errorf("%v, want unavailable with a hint", err)
	}
	if d := time.Since(began); d > 8*time.Second { // without its context it would try for 15 s
		t.Errorf("returned after %v, want about 200 ms", d)
	}
}
