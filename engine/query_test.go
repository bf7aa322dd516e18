package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func queryCases() []engineCase {
	return []engineCase{
		{"wait until finished", waitFinished},
		{"wait until parked", waitParked},
		{"wait until runnable", waitRunnable},
		{"wait is refused or ends", waitEnds},
		{"list filters", listFilters},
		{"list pages stay complete while calls end", listPages},
		{"list calls that the engine has forgotten", listForgotten},
		{"show", showHistory},
		{"info", info},
		{"activity", activity},
		{"log of decisions", decisionLog},
		{"a caller's copy is the caller's", callersCopy},
	}
}

func (r *replica) wait(until toolcall.WaitUntil, timeout time.Duration, calls ...message.CallID) toolcall.WaitReply {
	r.w.Helper()
	out, err := r.bot().Wait(r.w.Context(), toolcall.WaitRequest{Session: "s", Reply: "r", Calls: calls, Until: until, TimeoutMS: timeout.Milliseconds()})
	if err != nil {
		r.w.Fatalf("wait: %v", err)
	}
	return out
}

// listForgotten checks that calls no longer in the engine's memory are still listed, in order
// and page by page, each in its current state.
func listForgotten(w *world) {
	e := w.engine(engine.WithKeep(2))
	var want []message.CallID
	for i := range 9 {
		id := message.CallID(fmt.Sprintf("c%d", i))
		want = append(want, id)
		if i%4 == 0 {
			e.propose(call(id, pay, `{"amount":500}`))
			continue
		}
		e.finished(e.propose(call(id, echo, `{}`))[0].Key)
	}
	for _, limit := range []int{1, 3, 9, 100} {
		r := toolcall.ListRequest{All: true, Limit: limit}
		var got []message.CallID
		for {
			page, err := e.bot().List(w.Context(), r)
			w.must(err)
			for _, c := range page.Calls {
				got = append(got, c.Call)
				if asking := strings.Contains("c0 c4 c8", string(c.Call)); asking == (c.State == message.ToolCallFinished) {
					w.Errorf("%s is %s", c.Call, c.State)
				}
			}
			if r.After = page.Next; r.After == 0 {
				break
			}
			if len(page.Calls) != limit {
				w.Errorf("a page of %d has %d calls", limit, len(page.Calls))
			}
		}
		if !slices.Equal(got, want) {
			w.Errorf("in pages of %d: %v, want %v", limit, got, want)
		}
	}
	finished, err := e.bot().List(w.Context(), toolcall.ListRequest{States: []message.ToolCallState{message.ToolCallFinished}})
	w.must(err)
	if len(finished.Calls) != 6 || finished.Next != 0 {
		w.Errorf("%d calls are finished, want 6", len(finished.Calls))
	}
}

func waitFinished(w *world) {
	e, other := w.engine(), w.engine()
	e.propose(call("a", block, `{}`), call("b", echo, `{}`), call("c", pay, `{"amount":500}`))
	if out := e.wait("", patience, "b"); !out.Done || len(out.Calls) != 1 || out.Calls[0].Open() {
		w.Errorf("wait for b: %+v", out)
	}
	if out := e.wait("", 10*time.Millisecond); out.Done || len(out.Calls) != 3 {
		w.Errorf("wait for all: done %v, %d calls", out.Done, len(out.Calls))
	}
	done := make(chan toolcall.WaitReply, 2)
	for _, r := range []*replica{e, other} {
		go func() { done <- r.wait(toolcall.UntilFinished, patience) }()
	}
	w.effects.release(w.key("a"))
	_, err := e.ann().SubmitResponse(w.Context(), reject(e.state(w.key("c"), message.ToolCallAsking)))
	w.must(err)
	for range 2 {
		if out := <-done; !out.Done || len(out.Calls) != 3 || out.Calls[0].Call != "a" || out.Calls[2].Call != "c" {
			w.Errorf("wait for all: %+v", out)
		}
	}
}

func waitParked(w *world) {
	e := w.engine()
	e.propose(call("a", pay, `{"amount":500}`), call("b", remote, `{}`), call("c", external, `{}`), call("d", deploy, `{}`), call("e", deploy, `{}`), call("f", echo, `{}`))
	if out := e.wait(toolcall.UntilParked, patience); !out.Done || len(out.Calls) != 6 {
		w.Errorf("all are parked: done %v", out.Done)
	}
	e.propose(call("g", block, `{}`))
	if out := e.wait(toolcall.UntilParked, 10*time.Millisecond); out.Done {
		w.Error("a running call counts as parked")
	}
	held := e.unknown("h")
	if out := e.wait(toolcall.UntilParked, patience, held.Call); !out.Done {
		w.Error("a blocked call is not parked")
	}
	w.effects.release(w.key("g"))
	if out := e.wait(toolcall.UntilParked, patience); !out.Done {
		w.Error("all calls are parked again, but the wait continues")
	}
}

func waitRunnable(w *world) {
	e := w.engine()
	e.propose(call("a", external, `{}`), call("no", rm, `{}`))
	if out := e.wait(toolcall.UntilRunnable, patience); !out.Done || len(out.Calls) != 2 {
		w.Errorf("one call is its runtime's to run, one is denied: done %v", out.Done)
	}
	e.propose(call("ask", pay, `{"amount":500}`))
	if out := e.wait(toolcall.UntilRunnable, 10*time.Millisecond); out.Done {
		w.Error("a call that a person must approve counts as runnable")
	}
	e.propose(call("b", remote, `{}`))
	if out := e.wait(toolcall.UntilRunnable, 10*time.Millisecond, "b"); out.Done {
		w.Error("a call that waits for a worker counts as runnable by its runtime")
	}
}

func waitEnds(w *world) {
	e := w.engine()
	e.propose(call("a", block, `{}`))
	for _, r := range []toolcall.WaitRequest{{Session: "s", Reply: "r", Until: "forever"}, {Session: "s"}, {Reply: "r"}} {
		_, err := e.bot().Wait(w.Context(), r)
		w.wantErr(err, message.ErrInvalid)
	}
	_, err := e.bot().Wait(w.Context(), toolcall.WaitRequest{Session: "s", Reply: "r", Calls: []message.CallID{"a", ""}})
	w.wantErr(err, message.ErrInvalid)
	for _, ids := range [][]message.CallID{make([]message.CallID, toolcall.MaxCallsPerTurn+1), {message.CallID(strings.Repeat("x", toolcall.MaxIDBytes+1))}} {
		_, err := e.bot().Wait(w.Context(), toolcall.WaitRequest{Session: "s", Reply: "r", Calls: ids})
		w.wantErr(err, message.ErrTooLarge)
	}
	_, err = e.bot().Wait(w.Context(), toolcall.WaitRequest{Session: "s", Reply: "r", Calls: []message.CallID{"a", "unknown"}})
	w.wantErr(err, message.ErrNotFound)
	for _, r := range []toolcall.WaitRequest{{Session: "s", Reply: "mistyped"}, {Session: "mistyped", Reply: "r"}} {
		_, err = e.bot().Wait(w.Context(), r)
		w.wantErr(err, message.ErrNotFound)
	}
	done := make(chan error, 1)
	go func() {
		_, err := e.bot().Wait(w.Context(), toolcall.WaitRequest{Session: "s", Reply: "r", TimeoutMS: patience.Milliseconds()})
		done <- err
	}()
	w.effects.release(w.key("a"))
	if err := <-done; err != nil {
		w.Errorf("wait: %v", err)
	}
	e.propose(call("b", external, `{}`))
	go func() {
		_, err := e.bot().Wait(w.Context(), toolcall.WaitRequest{Session: "s", Reply: "r", TimeoutMS: patience.Milliseconds()})
		done <- err
	}()
	e.stop() // a waiting request does not stop an engine from closing
	w.wantErr(<-done, message.ErrUnavailable)
}

func listFilters(w *world) {
	e := w.engine()
	e.propose(call("ask", pay, `{"amount":500}`), call("out", external, `{}`), call("run", block, `{}`), call("done", echo, `{}`), call("no", rm, `{}`))
	e.finished(w.key("done"))
	held := e.unknown("blocked")
	_, err := e.bot().Propose(w.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r2", Calls: []message.ToolCallBlock{call("ask", pay, `{"amount":500}`)}})
	w.must(err)
	_, err = e.as(toolcall.RoleRuntime, "other").Propose(w.Context(), toolcall.ProposeRequest{Session: "s2", Reply: "r", Calls: []message.ToolCallBlock{call("ask", pay, `{"amount":500}`), call("no", rm, `{}`)}})
	w.must(err)
	asking, finished := []message.ToolCallState{message.ToolCallAsking}, []message.ToolCallState{message.ToolCallFinished}
	for _, row := range []struct {
		r    toolcall.ListRequest
		want string
	}{
		{toolcall.ListRequest{}, "ask out run blocked ask ask"},
		{toolcall.ListRequest{All: true}, "ask out run done no blocked ask ask no"},
		{toolcall.ListRequest{Session: "s"}, "ask out run blocked ask"},
		{toolcall.ListRequest{Session: "s", All: true}, "ask out run done no blocked ask"},
		{toolcall.ListRequest{Session: "s", Reply: "r2"}, "ask"},
		{toolcall.ListRequest{Call: "ask"}, "ask ask ask"},
		{toolcall.ListRequest{States: asking}, "ask ask ask"},
		{toolcall.ListRequest{States: finished}, "done no no"},
		{toolcall.ListRequest{States: append(asking, finished...), Session: "s2"}, "ask no"},
		{toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseBlocked}}, "blocked"},
		{toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseBlocked, toolcall.PhaseAsking}}, "ask blocked ask ask"},
		{toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseRunning}}, "run"},
		{toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseQueued}, All: true}, "out"},
		{toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseFinished}}, "done no no"},
		{toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseFinished}, Session: "s"}, "done no"},
		{toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseFinished}, States: asking}, ""},
		{toolcall.ListRequest{Session: "unknown", All: true}, ""},
	} {
		list, err := e.operator().List(w.Context(), row.r)
		w.must(err)
		if got := names(list.Calls); got != row.want || list.Next != 0 {
			w.Errorf("list %+v: %q, want %q (next %d)", row.r, got, row.want, list.Next)
		}
		for _, c := range list.Calls {
			if c.InPhase == "" || c.InPhase != c.Phase() {
				w.Errorf("%s is listed in phase %q, want %q", c.Call, c.InPhase, c.Phase())
			}
		}
	}
	list, err := e.bot().List(w.Context(), toolcall.ListRequest{All: true})
	if err != nil || names(list.Calls) != "ask out run done no blocked ask" {
		w.Errorf("the runtime sees %q, %v", names(list.Calls), err)
	}
	for _, s := range []message.ToolCallState{"", "Asking", "open"} {
		_, err := e.operator().List(w.Context(), toolcall.ListRequest{States: []message.ToolCallState{s}})
		w.wantErr(err, message.ErrInvalid)
	}
	for _, p := range []toolcall.Phase{"", "Asking", "open"} {
		_, err := e.operator().List(w.Context(), toolcall.ListRequest{Phases: []toolcall.Phase{p}})
		w.wantErr(err, message.ErrInvalid)
	}
	if held.Blocked != toolcall.BlockedUnknown {
		w.Errorf("the blocked call is %s", describe(held))
	}
}

func names(calls []*toolcall.Call) string {
	var out []string
	for _, c := range calls {
		out = append(out, string(c.Call))
	}
	return strings.Join(out, " ")
}

// listPages reads page by page while calls of earlier pages end. No other call may be missed.
func listPages(w *world) {
	e := w.engine()
	for i := range 30 {
		e.propose(call(message.CallID(fmt.Sprint("c", i)), pay, `{"amount":500}`))
	}
	for _, end := range []bool{false, true} {
		seen, after := 0, uint64(0)
		for pages := 1; ; pages++ {
			list, err := e.operator().List(w.Context(), toolcall.ListRequest{After: after, Limit: 7})
			w.must(err)
			for _, c := range list.Calls {
				if c.Call != message.CallID(fmt.Sprint("c", seen)) {
					w.Fatalf("page %d: %s, want c%d", pages, c.Call, seen)
				}
				seen++
				if end {
					_, err := e.ann().SubmitResponse(w.Context(), reject(c))
					w.must(err)
				}
			}
			if after = list.Next; after == 0 {
				break
			}
		}
		if seen != 30 {
			w.Errorf("%d calls were listed, want 30", seen)
		}
	}
}

func showHistory(w *world) {
	e, other := w.engine(), w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	_, err := e.ann().SubmitResponse(w.Context(), approve(q))
	w.must(err)
	e.finished(q.Key)
	for _, r := range []*replica{e, other} {
		s, err := r.bot().Show(w.Context(), toolcall.ShowRequest{Key: q.Key})
		w.must(err)
		if len(s.History) != 3 || s.Call.Seq != s.History[2].Seq || s.Call.First != s.History[0].Seq || s.Call.Result == nil {
			w.Fatalf("show: %+v", s)
		}
		for i, want := range []struct{ kind, by string }{{"ask", "bot"}, {"start", "ann"}, {"result", e.ID()}} {
			if h := s.History[i]; h.Kind != want.kind || h.By.Name != want.by || h.At.IsZero() || i > 0 && h.Seq <= s.History[i-1].Seq {
				w.Errorf("entry %d is %+v, want %+v", i, h, want)
			}
		}
	}
	_, err = e.operator().Show(w.Context(), toolcall.ShowRequest{Key: w.key("unknown")})
	w.wantErr(err, message.ErrNotFound)
	_, err = e.operator().Show(w.Context(), toolcall.ShowRequest{})
	w.wantErr(err, message.ErrInvalid)
}

func info(w *world) {
	e := w.engine()
	e.ask("a", pay, `{"amount":500}`)
	e.unknown("b")
	e.propose(call("c", rm, `{}`))
	i, err := e.worker("w1").Info(w.Context())
	w.must(err)
	if i.Space != w.space || i.Engine != e.ID() || i.Bundle != w.policy.Hash() || i.Open != 2 || i.Blocked != 1 || len(i.Tools) != len(tools(w)) || i.Durability != w.journal.Durability() {
		w.Errorf("info is %+v", i)
	}
}

// callersCopy modifies everything that the engine returns, including errors.
func callersCopy(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	spoil := func(c *toolcall.Call) {
		c.Input, c.State, c.Digest, c.Seq, c.Runtime = "spoiled", message.ToolCallFinished, "spoiled", 0, "spoiled"
	}
	digest := q.Digest
	spoil(q)
	_, err := e.bot().Propose(w.Context(), request(call("c", pay, `{}`)))
	spoil(toolcall.CallOf(w.refusal(err, message.ErrConflict)))
	_, err = e.ann().SubmitResponse(w.Context(), toolcall.Response{Key: w.key("c"), Kind: toolcall.ResponseApprove, Digest: "x"})
	spoil(toolcall.CallOf(w.refusal(err, message.ErrDigest)))
	list, err := e.operator().List(w.Context(), toolcall.ListRequest{})
	w.must(err)
	spoil(list.Calls[0])
	out := e.wait(toolcall.UntilParked, patience, "c")
	spoil(out.Calls[0])
	again := e.propose(call("c", pay, `{"amount":500}`))[0]
	if again.State != message.ToolCallAsking || again.Digest != digest || again.Seq == 0 {
		w.Fatalf("a caller changed the engine's call: %+v", again)
	}
	_, err = e.ann().SubmitResponse(w.Context(), toolcall.Response{Key: w.key("c"), Kind: toolcall.ResponseApprove, Digest: digest})
	w.must(err)
	e.finished(w.key("c"))
}

// paged is a client that lists ten calls, two on each page.
type paged struct {
	engine.Client
	fails uint64 // the page that cannot be read
	read  int
}

func (p *paged) List(_ context.Context, r toolcall.ListRequest) (toolcall.ListReply, error) {
	if p.read++; p.fails != 0 && r.After == p.fails {
		return toolcall.ListReply{}, message.ErrUnavailable
	}
	out := toolcall.ListReply{Calls: []*toolcall.Call{{First: r.After + 1}, {First: r.After + 2}}}
	if r.After < 8 {
		out.Next = r.After + 2
	}
	return out, nil
}

func TestListAll(t *testing.T) {
	for _, tc := range []struct {
		most, calls, pages int
	}{{0, 10, 5}, {1, 2, 1}, {2, 2, 1}, {3, 4, 2}, {100, 10, 5}} {
		c := &paged{}
		all, err := engine.ListAll(t.Context(), c, toolcall.ListRequest{Session: "s"}, tc.most)
		if err != nil || len(all) != tc.calls || c.read != tc.pages {
			t.Errorf("at most %d: %d calls of %d pages, %v; want %d of %d", tc.most, len(all), c.read, err, tc.calls, tc.pages)
		}
		for i, call := range all {
			if call.First != uint64(i+1) {
				t.Errorf("call %d is %d", i+1, call.First)
			}
		}
	}
	if all, err := engine.ListAll(t.Context(), &paged{fails: 4}, toolcall.ListRequest{}, 0); !errors.Is(err, message.ErrUnavailable) || all != nil {
		t.Errorf("a page that cannot be read: %v, %v", all, err)
	}
}

// newerSessions is a journal whose session records have a later version.
type newerSessions struct{ engine.Journal }

func (n newerSessions) Last(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error) {
	if key.Session != "" && key.Reply == "" {
		return toolcall.JournalEntry{Key: key, Seq: 1, Invalid: errors.New("event record version 2")}, nil
	}
	return n.Journal.Last(ctx, key)
}

// A session whose owner cannot be read still has an owner: no other runtime can read the
// session or end its calls.
func TestUnreadableSessionHasAnOwner(t *testing.T) {
	bundle, err := permission.Compile(permission.Policy{}, permission.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New("default", newerSessions{engine.NewMemory()}, bundle, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	bot := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	_, events := bot.Events(t.Context(), toolcall.EventsRequest{Session: "s"})
	_, wait := bot.Wait(t.Context(), toolcall.WaitRequest{Session: "s", Reply: "r", TimeoutMS: 1})
	_, interrupt := bot.Interrupt(t.Context(), toolcall.InterruptRequest{Session: "s", Reply: "r"})
	for op, err := range map[string]error{"events": events, "wait": wait, "interrupt": interrupt} {
		if got, ok := errors.AsType[*message.Error](err); !ok || got.Code != message.CodeInternal || got.Op != op {
			t.Errorf("%s: %v, want that the session cannot be read", op, err)
		}
	}
}

// On a cluster, the server that an engine reads can be behind the one that sent an event, so a
// cursor beyond its end can be valid a moment later.
func TestCursorOnACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hours{T: t, journal: engine.NewMemory(), opts: []engine.Option{engine.WithLag(func() time.Duration { return time.Minute })}}
		h.eng = h.engine(remoteTool, allow, nil)
		bot := h.as(toolcall.RoleRuntime, "bot")
		for _, tc := range []struct {
			after uint64
			want  error
		}{{1, nil}, {1000, message.ErrInvalid}} {
			got := make(chan error, 1)
			go func() {
				_, err := bot.Events(t.Context(), toolcall.EventsRequest{Session: "s", After: tc.after})
				got <- err
			}()
			time.Sleep(time.Second)
			if tc.want == nil {
				h.propose()
			}
			if err := <-got; !errors.Is(err, tc.want) {
				t.Errorf("events after %d: %v, want %v", tc.after, err, tc.want)
			}
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := bot.Events(ctx, toolcall.EventsRequest{Session: "s", After: 1000}); !errors.Is(err, message.ErrUnavailable) {
			t.Errorf("events after 1000 for a caller that waits less: %v, want %v", err, message.ErrUnavailable)
		}
	})
}
