package mcp_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/gateway/mcp"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// faulty refuses some requests to an askance server.
type faulty struct {
	mcp.Client
	report func(toolcall.ReportRequest) error
	begin  func() error
}

func (f faulty) Report(ctx context.Context, r toolcall.ReportRequest) (*toolcall.Call, error) {
	if f.report != nil {
		if err := f.report(r); err != nil {
			return nil, err
		}
	}
	return f.Client.Report(ctx, r)
}

func (f faulty) Begin(ctx context.Context, r toolcall.BeginRequest) (*toolcall.Call, error) {
	if f.begin != nil {
		if err := f.begin(); err != nil {
			return nil, err
		}
	}
	return f.Client.Begin(ctx, r)
}

func (f faulty) between(cfg *mcp.Config) { f.Client = cfg.Askance; cfg.Askance = f }

// only returns the one call.
func (w *world) only() *toolcall.Call {
	w.t.Helper()
	list, err := w.A.Client(gatewaytest.Bot).List(w.t.Context(), toolcall.ListRequest{All: true})
	if err != nil || len(list.Calls) != 1 {
		w.t.Fatalf("%d calls, %v", len(list.Calls), err)
	}
	return list.Calls[0]
}

// The client learns at once that an outcome is unknown, and the call is blocked as soon as the
// server can be reached.
func TestUnknownWhileAway(t *testing.T) {
	w := newWorld(t)
	var back atomic.Bool
	away := faulty{report: func(toolcall.ReportRequest) error {
		if back.Load() {
			return nil
		}
		return &message.Error{Code: message.CodeUnavailable, What: "away"}
	}}
	c := w.connect("legacy", away.between, func(cfg *mcp.Config) { cfg.Hold = 10 * time.Second })
	c.initialize("{}")
	wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{"die":1}}`), `"isError":true`, "may have happened")
	back.Store(true)
	until(t, "the call is blocked", func() bool { return w.only().Blocked == toolcall.BlockedUnknown })
}

// A gateway that finds a blocked call does not run it: an operator may be about to resolve it.
func TestBlockedCallDoesNotRun(t *testing.T) {
	w := newWorld(t)
	blocks := faulty{begin: func() error {
		_, err := w.A.Client(gatewaytest.Bot).Report(t.Context(), toolcall.ReportRequest{Key: w.only().Key, Unknown: true})
		return err
	}}
	for _, change := range []func(*mcp.Config){blocks.between, func(*mcp.Config) {}} {
		c := w.connect("legacy", change)
		c.initialize("{}")
		wants(t, c.ask("tools/call", `{"name":"lookup","arguments":{}}`), `"isError":true`, "outcome unknown")
		c.stop()
		if call, n := w.only(), w.runs(); call.Blocked != toolcall.BlockedUnknown || n != 0 {
			t.Errorf("the call is %s %s and ran %d times", call.Phase(), call.Blocked, n)
		}
	}
}

// beginner is a server that answers a request to begin in its own way.
type beginner struct {
	mcp.Client
	begin func(engine mcp.Client, r toolcall.BeginRequest) error
	blind bool // it shows no call
}

func (b beginner) between(cfg *mcp.Config) { b.Client = cfg.Askance; cfg.Askance = b }

func (b beginner) Begin(ctx context.Context, r toolcall.BeginRequest) (*toolcall.Call, error) {
	if err := b.begin(b.Client, r); err != nil {
		return nil, err
	}
	return b.Client.Begin(ctx, r)
}

func (b beginner) Wait(ctx context.Context, r toolcall.WaitRequest) (toolcall.WaitReply, error) {
	if b.blind && r.TimeoutMS > 0 {
		return toolcall.WaitReply{}, &message.Error{Code: message.CodeForbidden, What: "no"}
	}
	return b.Client.Wait(ctx, r)
}

// After each final error of a begin, the client learns what is true: that the call did not run, how it
// ended, or that this is unknown.
func TestNotBegun(t *testing.T) {
	refuse := func(code message.Code) error { return &message.Error{Code: code, What: "not here"} }
	report := func(c mcp.Client, r toolcall.ReportRequest) error {
		_, err := c.Report(t.Context(), r)
		return err
	}
	done := message.ToolResultBlock{State: message.ToolResultSuccess, Output: message.Content{Text: "done elsewhere"}}
	interrupt := func(c mcp.Client, r toolcall.BeginRequest) error {
		_, err := c.Interrupt(t.Context(), toolcall.InterruptRequest{Session: r.Session, Reply: r.Reply})
		return err
	}
	for name, row := range map[string]struct {
		beginner
		says  string
		ended toolcall.Cause // "": it is blocked
	}{
		"refused":     {beginner{begin: func(mcp.Client, toolcall.BeginRequest) error { return refuse(message.CodeForbidden) }}, "the call did not run: not here", toolcall.CauseInterrupt},
		"a full disk": {beginner{begin: func(mcp.Client, toolcall.BeginRequest) error { return refuse(message.CodeFull) }}, "the call did not run: not here", toolcall.CauseInterrupt},
		"a defect":    {beginner{begin: func(mcp.Client, toolcall.BeginRequest) error { return refuse(message.CodeInternal) }}, "the call did not run: not here", toolcall.CauseInterrupt},
		"a defect after the begin": {beginner{begin: func(c mcp.Client, r toolcall.BeginRequest) error {
			_, err := c.Begin(t.Context(), r)
			return errors.Join(err, refuse(message.CodeInternal))
		}}, "the call did not run: not here", toolcall.CauseResult},
		"interrupted": {beginner{begin: interrupt}, "interrupted: the call was stopped. The tool call has been interrupted", toolcall.CauseInterrupt},
		"interrupted, and not shown": {beginner{begin: func(c mcp.Client, r toolcall.BeginRequest) error {
			return errors.Join(interrupt(c, r), refuse(message.CodeFinished))
		}}, "interrupted: the call was stopped. The tool call has been interrupted", toolcall.CauseInterrupt},
		"interrupted after another began it": {beginner{begin: func(c mcp.Client, r toolcall.BeginRequest) error {
			_, err := c.Begin(t.Context(), toolcall.BeginRequest{Key: r.Key, Claim: "other"})
			return errors.Join(err, interrupt(c, r))
		}}, "interrupted: the call was stopped. It may have taken effect", toolcall.CauseInterrupt},
		"finished": {beginner{begin: func(c mcp.Client, r toolcall.BeginRequest) error {
			return errors.Join(report(c, toolcall.ReportRequest{Key: r.Key, Result: done}), refuse(message.CodeFinished))
		}}, "done elsewhere", toolcall.CauseResult},
		"askance runs it": {beginner{begin: func(c mcp.Client, r toolcall.BeginRequest) error {
			call, err := c.Begin(t.Context(), toolcall.BeginRequest{Key: r.Key, Claim: "other"})
			if err == nil {
				err = report(c, toolcall.ReportRequest{Key: r.Key, Result: done})
			}
			if err != nil {
				return err
			}
			call.Placement = toolcall.PlaceRemote
			return &message.Error{Code: message.CodeState, What: "not external", Call: toolcall.ErrorCall(call)}
		}}, "done elsewhere", toolcall.CauseResult},
		"blocked": {beginner{begin: func(c mcp.Client, r toolcall.BeginRequest) error {
			return errors.Join(report(c, toolcall.ReportRequest{Key: r.Key, Unknown: true}), refuse(message.CodeSuperseded))
		}}, "outcome unknown", ""},
		"refused, and not shown": {beginner{blind: true, begin: func(mcp.Client, toolcall.BeginRequest) error { return refuse(message.CodeForbidden) }}, "outcome unknown", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.connect("legacy", row.between)
			c.initialize("{}")
			got := c.ask("tools/call", `{"name":"lookup","arguments":{}}`)
			if wants(t, got, row.says); strings.Contains(row.says, "did not run") && strings.Contains(got, "unknown") {
				t.Error(got)
			}
			until(t, "the call is blocked or finished", func() bool { return w.only().Phase() == toolcall.PhaseBlocked || !w.only().Open() })
			if call := w.only(); call.Open() != (row.ended == "") || !call.Open() && call.Cause != string(row.ended) || w.runs() != 0 {
				t.Errorf("the call is %s %s %s and ran %d times", call.Phase(), call.Blocked, call.Cause, w.runs())
			}
		})
	}
}

// A client cannot cancel a call whose outcome is unknown: it would count as one that did not happen.
func TestCancelOfUnknown(t *testing.T) {
	w := newWorld(t)
	first := w.connect("legacy")
	first.initialize(`{"tasks":{}}`)
	_, id, _ := strings.Cut(first.ask("tools/call", `{"name":"lookup","arguments":{"null":1},"task":{}}`), `"taskId":"`)
	id, _, _ = strings.Cut(id, `"`)
	task := `{"taskId":"` + id + `"}`
	until(t, "the outcome is unknown", func() bool { return strings.Contains(first.ask("tasks/get", task), "unknown") })
	until(t, "the call is blocked", func() bool { return w.only().Blocked == toolcall.BlockedUnknown })
	second := w.connect("legacy")
	second.initialize(`{"tasks":{}}`)
	wants(t, second.ask("tasks/get", task), `"status":"working"`, "unknown")
	for _, c := range []*client{first, second} {
		wants(t, c.ask("tasks/cancel", task), `"code":-32602`, "only an operator")
		c.stop()
	}
	if call := w.only(); call.Blocked != toolcall.BlockedUnknown {
		t.Errorf("the call is %s, ended by %s", call.Phase(), call.Cause)
	}
}

// keyless is an askance server that does not know an approver's key until known is set.
type keyless struct {
	mcp.Client
	known *atomic.Bool
	asked *atomic.Int64
}

func (k keyless) between(cfg *mcp.Config) { k.Client = cfg.Askance; cfg.Askance = k }

func (k keyless) List(ctx context.Context, r toolcall.ListRequest) (toolcall.ListReply, error) {
	out, err := k.Client.List(ctx, r)
	for i, c := range out.Calls {
		if !k.known.Load() && c.Phase() == toolcall.PhaseQueued {
			out.Calls[i] = c.Clone()
			out.Calls[i].Blocked = toolcall.BlockedKey
		}
	}
	return out, err
}

func (k keyless) Begin(ctx context.Context, r toolcall.BeginRequest) (*toolcall.Call, error) {
	defer k.asked.Add(1)
	call, err := k.Client.Wait(ctx, toolcall.WaitRequest{Session: r.Session, Reply: r.Reply, Calls: []message.CallID{r.Call}, Until: toolcall.UntilRunnable})
	if k.known.Load() || err == nil && !call.Calls[0].Open() {
		return k.Client.Begin(ctx, r)
	}
	return nil, &message.Error{Code: message.CodeUnavailable, What: "the key of bob is unknown"}
}

// A call whose approver's key is unknown has not run: another gateway begins it once the key is known,
// and its client can cancel it until then.
func TestUnknownApproverKey(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		w, k := newWorld(t), keyless{known: new(atomic.Bool), asked: new(atomic.Int64)}
		first := w.connect("legacy", k.between)
		first.initialize(`{"tasks":{}}`)
		const call = `{"name":"lookup","arguments":{},"task":{}}`
		_, id, _ := strings.Cut(first.ask("tools/call", call), `"taskId":"`)
		id, _, _ = strings.Cut(id, `"`)
		until(t, "the gateway asks", func() bool { return k.asked.Load() > 0 })
		other := keyless{known: k.known, asked: new(atomic.Int64)}
		second := w.connect("legacy", other.between)
		second.initialize(`{"tasks":{}}`)
		task := `{"taskId":"` + id + `"}`
		if got := second.ask("tasks/get", task); strings.Contains(got, "unknown") || !strings.Contains(got, `"status":"working"`) {
			t.Errorf("the task is %s", got)
		}
		until(t, "the other gateway asks", func() bool { return other.asked.Load() > 0 })
		if cancel {
			wants(t, second.ask("tasks/cancel", task), `"status":"cancelled"`)
			w.A.Finished(w.only().Key)
		} else {
			k.known.Store(true)
			wants(t, second.ask("tasks/result", task), "did lookup")
		}
		first.stop()
		second.stop()
		want := map[bool]int{false: 1, true: 0}[cancel]
		if c, n := w.only(), w.runs(); c.Open() || n != want {
			t.Errorf("cancelled %t: the call is %s %s and ran %d times, want %d", cancel, c.Phase(), c.Blocked, n, want)
		}
	}
}

// A gateway that may not run a call that another one runs waits for its result.
func TestForbiddenCallRunsElsewhere(t *testing.T) {
	w := newWorld(t)
	first := w.connect("legacy")
	first.initialize("{}")
	first.start("tools/call", `{"name":"lookup","arguments":{"gate":1}}`)
	until(t, "the tool runs", func() bool { return w.runs() > 0 })
	var asked atomic.Bool
	second := w.connect("legacy", faulty{begin: func() error {
		asked.Store(true)
		return &message.Error{Code: message.CodeForbidden, Call: toolcall.ErrorCall(w.only()), What: "no longer allowed"}
	}}.between)
	second.initialize("{}")
	second.start("tools/call", `{"name":"lookup","arguments":{"gate":1}}`)
	until(t, "the second gateway asks", asked.Load)
	if err := os.WriteFile(w.ran+".open", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wants(t, first.answer(), "passed")
	wants(t, second.answer(), "passed")
	if call, n := w.only(), w.runs(); toolcall.Cause(call.Cause) != toolcall.CauseResult || n != 1 {
		t.Errorf("the call is %s %s and ran %d times", call.Phase(), call.Blocked, n)
	}
}

// A gateway that ends reports what it knows, and nothing about a call that another one runs.
func TestReportsAtTheEnd(t *testing.T) {
	known, other := newWorld(t), newWorld(t)
	var back atomic.Int64
	back.Store(time.Now().Add(time.Hour).UnixNano())
	late := known.connect("legacy", faulty{report: func(r toolcall.ReportRequest) error {
		if r.Unknown || time.Now().UnixNano() > back.Load() {
			return nil
		}
		return &message.Error{Code: message.CodeUnavailable, What: "away"}
	}}.between)
	late.initialize("{}")
	late.start("tools/call", `{"name":"lookup","arguments":{}}`)
	first := other.connect("legacy")
	first.initialize("{}")
	first.start("tools/call", `{"name":"lookup","arguments":{"hang":1}}`)
	until(t, "both tools run", func() bool { return known.runs() > 0 && other.runs() > 0 })
	var taken atomic.Bool
	second := other.connect("legacy", faulty{begin: func() error { taken.Store(true); return nil }}.between)
	second.initialize("{}")
	second.start("tools/call", `{"name":"lookup","arguments":{"hang":1}}`)
	until(t, "the call is taken", taken.Load)
	back.Store(time.Now().Add(5500 * time.Millisecond).UnixNano()) // Close waits 5 s before it ends what runs
	var wg sync.WaitGroup
	wg.Go(late.stop)
	wg.Go(second.stop)
	wg.Wait()
	if call := known.only(); toolcall.Cause(call.Cause) != toolcall.CauseResult {
		t.Errorf("the call whose result is known is %s %s", call.Phase(), call.Blocked)
	}
	call := other.only()
	if call.Phase() != toolcall.PhaseRunning {
		t.Errorf("the call that the other gateway runs is %s %s", call.Phase(), call.Blocked)
	}
	if _, err := other.A.Client(gatewaytest.Olga).Interrupt(t.Context(), toolcall.InterruptRequest{Session: call.Session, Reply: call.Reply}); err != nil {
		t.Fatal(err)
	}
	wants(t, first.read(), "interrupted")
}

// slow is a server whose reply to a begin comes late.
type slow struct {
	mcp.Client
	began chan toolcall.Key
	reply chan struct{}
}

func (s slow) Begin(ctx context.Context, r toolcall.BeginRequest) (*toolcall.Call, error) {
	call, err := s.Client.Begin(ctx, r)
	s.began <- r.Key
	<-s.reply
	return call, err
}

// A call that its client cancels while it begins does not run.
func TestCancelWhileBeginning(t *testing.T) {
	w := newWorld(t)
	s := slow{began: make(chan toolcall.Key), reply: make(chan struct{})}
	c := w.connect("legacy", func(cfg *mcp.Config) { s.Client = cfg.Askance; cfg.Askance = s })
	c.initialize("{}")
	id := c.start("tools/call", `{"name":"lookup","arguments":{}}`)
	key := <-s.began
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
	w.A.Finished(key)
	close(s.reply)
	c.stop()
	if n := w.runs(); n != 0 {
		t.Errorf("the call ran %d times", n)
	}
}
