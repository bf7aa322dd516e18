package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func batchCases() []engineCase {
	return []engineCase{
		{"serial calls run one after the other", serialCalls},
		{"many short serial calls", manySerialCalls},
		{"a serial call waits for a person", serialCallWaits},
		{"safe groups between serial calls", mixedGroups},
		{"a second batch waits for the first", secondBatch},
		{"only the rest of a batch is proposed", restOfBatch},
		{"a batch whose last call is never proposed", neverProposed},
		{"a batch across two engines", batchOverEngines},
	}
}

func ids(prefix string, n int) []message.CallID {
	out := make([]message.CallID, n)
	for i := range out {
		out[i] = message.CallID(fmt.Sprint(prefix, i))
	}
	return out
}

func serialCalls(w *world) {
	e := w.engine()
	all := ids("c", 4)
	var blocks []message.ToolCallBlock
	for _, id := range all {
		blocks = append(blocks, call(id, blockTurn, `{}`))
	}
	e.propose(blocks...)
	for i, id := range all {
		e.waitFor(w.key(id), "started", (*toolcall.Call).Started)
		for _, later := range all[i+1:] {
			if c := e.state(w.key(later), message.ToolCallPending); c.Decision != nil {
				w.Errorf("%s was decided before its turn", later)
			}
			w.wantRuns(w.key(later), 0)
		}
		w.effects.release(w.key(id))
		w.wantResult(e.finished(w.key(id)), message.ToolResultSuccess, "ran")
	}
}

// manySerialCalls has serial calls end while the next ones are still being proposed. Each
// must notice that its turn has come.
func manySerialCalls(w *world) {
	e := w.engine()
	for round := range 10 {
		req := toolcall.ProposeRequest{Session: "s", Reply: message.ReplyID(fmt.Sprint("r", round))}
		for _, id := range ids("c", 10) {
			req.Calls = append(req.Calls, call(id, serial, `{}`))
		}
		_, err := e.bot().Propose(w.Context(), req)
		w.must(err)
		out, err := e.bot().Wait(w.Context(), toolcall.WaitRequest{Session: "s", Reply: req.Reply, TimeoutMS: patience.Milliseconds()})
		w.must(err)
		if !out.Done {
			for _, c := range out.Calls {
				w.Logf("%s: %s", c.Call, describe(c))
			}
			w.Fatalf("round %d: a serial call never had its turn", round)
		}
	}
}

func serialCallWaits(w *world) {
	e := w.engine()
	e.propose(call("a", note, `{}`), call("b", note, `{}`), call("c", echo, `{}`))
	for _, id := range []message.CallID{"a", "b"} {
		q := e.state(w.key(id), message.ToolCallAsking)
		if id == "a" {
			e.state(w.key("b"), message.ToolCallPending)
		}
		e.state(w.key("c"), message.ToolCallPending)
		_, err := e.ann().SubmitResponse(w.Context(), approve(q))
		w.must(err)
		e.finished(q.Key)
	}
	w.wantResult(e.finished(w.key("c")), message.ToolResultSuccess, "ran")
}

// mixedGroups proposes safe, safe, serial, safe and safe calls. The calls of one group do
// not wait for each other.
func mixedGroups(w *world) {
	e := w.engine()
	got := e.propose(call("a", block, `{}`), call("b", echo, `{}`), call("c", blockTurn, `{}`), call("d", block, `{}`), call("e", echo, `{}`))
	const shared, alone = toolcall.OrderShared, toolcall.OrderExclusive
	for i, want := range []toolcall.Order{shared, shared, alone, shared, shared} {
		if got[i].Order != want {
			w.Errorf("the order of %s is %q, want %q", got[i].Call, got[i].Order, want)
		}
	}
	e.finished(w.key("b"))
	e.state(w.key("c"), message.ToolCallPending)
	w.effects.release(w.key("a"))
	e.waitFor(w.key("c"), "started", (*toolcall.Call).Started)
	e.state(w.key("d"), message.ToolCallPending)
	w.effects.release(w.key("c"))
	e.finished(w.key("e"))
	w.effects.release(w.key("d"))
	e.finished(w.key("d"))
}

func secondBatch(w *world) {
	e := w.engine()
	e.propose(call("a", note, `{}`), call("b", echo, `{}`))
	e.propose(call("c", serial, `{}`), call("d", echo, `{}`))
	q := e.state(w.key("a"), message.ToolCallAsking)
	for _, id := range []message.CallID{"b", "c", "d"} {
		e.state(w.key(id), message.ToolCallPending)
	}
	_, err := e.ann().SubmitResponse(w.Context(), reject(q))
	w.must(err)
	for _, id := range []message.CallID{"b", "c", "d"} {
		w.wantResult(e.finished(w.key(id)), message.ToolResultSuccess, "ran")
	}
}

// restOfBatch lets an engine die between two calls of a batch. The runtime then proposes only
// the missing calls.
func restOfBatch(w *world) {
	e := w.engine()
	e.cord.onAppend(refuse(func(rec *toolcall.EventRecord) bool { return rec.Call != nil && rec.Call.Call == "b" }, cutError("append")))
	_, err := e.bot().Propose(w.Context(), request(call("a", serial, `{}`), call("b", serial, `{}`)))
	w.wantErr(err, message.ErrUnavailable)
	e.cord.onAppend(nil)
	e.finished(w.key("a"))
	e.propose(call("b", serial, `{}`))
	w.wantResult(e.finished(w.key("b")), message.ToolResultSuccess, "ran")
}

// neverProposed interrupts a proposal, and the runtime continues with other calls. They do
// not wait for a call that is not recorded; if that call is proposed later, it waits for them.
func neverProposed(w *world) {
	e := w.engine()
	e.cord.onAppend(refuse(func(rec *toolcall.EventRecord) bool { return rec.Call != nil && rec.Call.Call == "b" }, cutError("append")))
	_, err := e.bot().Propose(w.Context(), request(call("a", serial, `{}`), call("b", blockTurn, `{}`)))
	w.wantErr(err, message.ErrUnavailable)
	e.cord.onAppend(nil)
	e.finished(w.key("a"))
	if c := e.propose(call("c", blockTurn, `{}`))[0]; !c.Started() {
		w.Errorf("c is %s, although no recorded call comes before it", describe(c))
	}
	e.waitFor(w.key("c"), "started", (*toolcall.Call).Started)
	again := e.propose(call("a", serial, `{}`), call("b", blockTurn, `{}`))
	if again[1].State != message.ToolCallPending {
		w.Errorf("b is %s while c runs", describe(again[1]))
	}
	w.effects.release(w.key("b"))
	w.effects.release(w.key("c"))
	for _, id := range []message.CallID{"a", "b", "c"} {
		w.wantResult(e.finished(w.key(id)), message.ToolResultSuccess, "ran")
	}
}

func batchOverEngines(w *world) {
	e, other := w.engine(), w.engine()
	for round := range 10 {
		reply := message.ReplyID(fmt.Sprint("r", round))
		req := toolcall.ProposeRequest{Session: "s", Reply: reply, Calls: []message.ToolCallBlock{call("a", note, `{}`), call("b", serial, `{}`), call("c", note, `{}`), call("d", serial, `{}`)}}
		_, err := e.bot().Propose(w.Context(), req)
		w.must(err)
		key := w.key("a")
		key.Reply = reply
		_, err = other.ann().SubmitResponse(w.Context(), approve(other.state(key, message.ToolCallAsking)))
		w.must(err)
		key.Call = "c"
		_, err = e.ann().SubmitResponse(w.Context(), approve(e.state(key, message.ToolCallAsking)))
		w.must(err)
		key.Call = "d"
		w.wantResult(other.finished(key), message.ToolResultSuccess, "ran")
	}
}

func hiddenCases() []engineCase {
	cases := []engineCase{{"behind an approval request that is edited and asked again", hiddenBehindEdited}, {"only if the suggested rule covers the call", notHidden}}
	for _, end := range []struct {
		name string
		rule bool // remembered: the hidden call is allowed
		do   func(r *replica, q *toolcall.Call) error
	}{
		{"approve with the rule", true, func(r *replica, q *toolcall.Call) error {
			resp := approve(q)
			resp.Rules = q.Suggested
			_, err := r.ann().SubmitResponse(r.w.Context(), resp)
			return err
		}},
		{"approve", false, func(r *replica, q *toolcall.Call) error {
			_, err := r.ann().SubmitResponse(r.w.Context(), approve(q))
			return err
		}},
		{"reject", false, func(r *replica, q *toolcall.Call) error {
			_, err := r.ann().SubmitResponse(r.w.Context(), reject(q))
			return err
		}},
		{"answer for the tool", false, func(r *replica, q *toolcall.Call) error {
			_, err := r.ann().SubmitResponse(r.w.Context(), toolcall.Response{Key: q.Key, Kind: toolcall.ResponseRespond, Digest: q.Digest})
			return err
		}},
	} {
		for _, engines := range []int{1, 2} {
			cases = append(cases, engineCase{fmt.Sprintf("%s, %d engines", end.name, engines), func(w *world) { hiddenUntil(w, engines, end.rule, end.do) }})
		}
	}
	return append(cases, engineCase{"interrupt", hiddenInterrupted})
}

// hiddenUntil lets calls hide behind an approval request, ends that request, and checks what
// happens to the hidden calls.
func hiddenUntil(w *world, engines int, rule bool, end func(*replica, *toolcall.Call) error) {
	e := w.engine()
	answering := e
	if engines > 1 {
		answering = w.engine()
	}
	got := e.propose(call("a", deploy, `{}`), call("b", deploy, `{}`), call("c", deploy, `{}`))
	for _, c := range got[1:] {
		if c.State != message.ToolCallPending || c.Behind != "a" {
			w.Fatalf("%s is %s", c.Call, describe(c))
		}
	}
	w.must(end(answering, answering.state(w.key("a"), message.ToolCallAsking)))
	if rule {
		for _, id := range []message.CallID{"b", "c"} {
			w.wantResult(e.finished(w.key(id)), message.ToolResultSuccess, "ran")
		}
		return
	}
	b := e.state(w.key("b"), message.ToolCallAsking) // the next in line asks
	if c := e.waitFor(w.key("c"), "behind b", func(c *toolcall.Call) bool { return c.Behind == "b" }); c.State != message.ToolCallPending {
		w.Errorf("c is %s", describe(c))
	}
	w.must(end(answering, answering.state(b.Key, message.ToolCallAsking)))
	w.must(end(e, e.state(w.key("c"), message.ToolCallAsking)))
	e.finished(w.key("c"))
}

// hiddenBehindEdited replaces the approval request that hid the others by one whose
// suggested rule does not cover them.
func hiddenBehindEdited(w *world) {
	e := w.engine()
	w.policy.use(w, append(rules(), ruleWhen("late", deploy, message.BehaviorAsk, `has(args.late)`))...)
	e.propose(call("a", deploy, `{}`), call("b", deploy, `{}`))
	q := e.state(w.key("a"), message.ToolCallAsking)
	again, err := e.ann().SubmitResponse(w.Context(), edit(q, `{"late":true}`))
	w.must(err)
	if again.State != message.ToolCallAsking || again.Request.Rule != "late" {
		w.Fatalf("a is %s with %+v", describe(again), again.Request)
	}
	_, err = e.ann().SubmitResponse(w.Context(), reject(again))
	w.must(err)
	e.state(w.key("b"), message.ToolCallAsking)
}

func notHidden(w *world) {
	e := w.engine()
	got := e.propose(call("a", pay, `{"amount":500}`), call("b", pay, `{"amount":500}`), call("c", deploy, `{}`), call("d", askRemote, `{}`))
	for _, c := range got {
		if c.State != message.ToolCallAsking {
			w.Errorf("%s is %s: an ask rule overrides a remembered one, so no call may hide behind its request", c.Call, describe(c))
		}
	}
}

func hiddenInterrupted(w *world) {
	e := w.engine()
	e.propose(call("a", deploy, `{}`), call("b", deploy, `{}`))
	out, err := e.bot().Interrupt(w.Context(), toolcall.InterruptRequest{Session: "s", Reply: "r"})
	w.must(err)
	if len(out.Calls) != 2 {
		w.Errorf("the interrupt closed %d calls", len(out.Calls))
	}
	for _, id := range []message.CallID{"a", "b"} {
		w.wantResult(e.finished(w.key(id)), message.ToolResultInterrupted, "interrupted")
	}
}

// interrupted is a policy that calls a function right after it has decided about one input.
type interrupted struct {
	engine.Policy
	input string
	mu    sync.Mutex // guards then
	then  func()     // once
}

func (i *interrupted) Decide(ctx context.Context, r permission.Request) permission.Decision {
	d := i.Policy.Decide(ctx, r)
	if string(r.Input) != i.input {
		return d
	}
	i.mu.Lock()
	then := i.then
	i.then = nil
	i.mu.Unlock()
	if then != nil {
		then()
	}
	return d
}

// The approval request that a call hides behind is answered with a rule after the policy
// decided about the call without that rule, but before the engine looks at the request.
func TestRuleArrivesWhileHiddenCallIsDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bundle, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{Name: "r", Tools: []string{"other"}, Behavior: message.BehaviorAllow}}}, permission.Options{Tools: []permission.Tool{{Name: "t"}, {Name: "other"}}})
		if err != nil {
			t.Fatal(err)
		}
		policy := &interrupted{Policy: bundle, input: `{"n":2}`}
		tool := engine.Tool{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceExternal, ConcurrencySafe: true}
		eng, err := engine.New("default", engine.NewMemory(), policy, []engine.Tool{tool})
		if err != nil {
			t.Fatal(err)
		}
		if err := eng.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = eng.Close() }()
		bot := eng.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
		ann := eng.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"})
		out, err := bot.Propose(t.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{
			{ID: "a", Name: "t", Input: `{"n":1}`}, {ID: "b", Name: "t", Input: `{"n":2}`},
		}})
		if err != nil {
			t.Fatal(err)
		}
		a, b := out.Calls[0], out.Calls[1]
		if a.State != message.ToolCallAsking || b.Behind != "a" {
			t.Fatalf("a is %s, b behind %q", a.State, b.Behind)
		}
		answered := make(chan error, 1)
		policy.mu.Lock()
		policy.then = func() {
			_, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: a.Key, Kind: toolcall.ResponseApprove, Digest: a.Digest, Rules: a.Suggested})
			answered <- err
		}
		policy.mu.Unlock()
		time.Sleep(time.Minute) // the engine looks at calls that wait
		synctest.Wait()
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
		show, err := bot.Show(t.Context(), toolcall.ShowRequest{Key: b.Key})
		if err != nil {
			t.Fatal(err)
		}
		if show.Call.State != message.ToolCallSubmitted {
			t.Errorf("b is %s by %s", show.Call.State, show.Call.Cause)
		}
	})
}
