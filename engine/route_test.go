package engine_test

import (
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func routeCases() []engineCase {
	return []engineCase{
		{"a local tool is routed to workers", routedLocal},
		{"only workers of the route", onlyItsRoute},
		{"an external call cannot be routed", routedExternal},
		{"rules that name different subjects", routedApart},
		{"an edit is routed again", routedByEdit},
		{"an engine that takes over keeps route and timeout", routeOutlives},
		{"an approval under another bundle", routedAsDecided},
	}
}

// The subjects of these tests.
const (
	payments  = "exec.payments"
	elsewhere = "exec.elsewhere"
)

func routed(name, subject string, b message.Behavior, tools ...string) permission.Rule {
	return permission.Rule{Name: name, Tools: tools, Behavior: b, Executor: permission.Executor{Subject: subject}}
}

// serves returns the port of a worker that serves one queue.
func (r *replica) serves(tool, route string) *engine.Port {
	return r.Worker(toolcall.Principal{Role: toolcall.RoleWorker, Name: "w1", Auth: "test"}, toolcall.Queue{Tool: tool, Route: route})
}

// wantRoute checks the queue of a submitted call, and that its grant names the route.
func (w *world) wantRoute(c *toolcall.Call, route string) {
	w.Helper()
	rec, err := w.journal.Last(w.Context(), c.Key)
	w.must(err)
	queue := toolcall.Queue{Tool: c.Tool, Route: route}
	if got := rec.Record.WorkQueue(); got != queue {
		w.Fatalf("the call is %s in the queue %s, want %s", describe(c), got, queue)
	}
	g := rec.Record.Call.Attempt.Grant
	if g.Route != route || rec.Record.Call.Placement != toolcall.PlaceRemote {
		w.Errorf("the grant is for the route %q, the call %s", g.Route, rec.Record.Call.Placement)
	}
}

func routedLocal(w *world) {
	w.policy.use(w, routed("money", payments, message.BehaviorAllow, again))
	e := w.engine()
	c := e.submit("c", again)
	w.wantRoute(c, payments)
	keys := toolcall.NewKeySet(e.PublicKey())
	for _, queue := range []toolcall.Queue{{Tool: again}, {Tool: again, Route: elsewhere}, {Tool: remote, Route: payments}} {
		if err := c.Attempt.Grant.VerifyQueue(keys, *c.Request, queue, 1, time.Now()); err == nil {
			w.Errorf("the grant verifies for %s", queue)
		}
	}
	if err := c.Attempt.Grant.VerifyQueue(keys, *c.Request, toolcall.Queue{Tool: again, Route: payments}, 1, time.Now()); err != nil {
		w.Errorf("the grant does not verify: %v", err)
	}
	e.start(c, "w1", "x")
	// The tool's own settings apply: it is idempotent, and its lease is brief.
	c = e.waitFor(c.Key, "offered again", func(c *toolcall.Call) bool { return c.Attempt.Number == 2 && !c.Started() })
	w.wantRoute(c, payments)
	e.start(c, "w2", "y")
	_, err := e.worker("w2").Result(w.Context(), resultRequest(c, "y", "done"))
	w.must(err)
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "done")
}

func onlyItsRoute(w *world) {
	w.policy.use(w, routed("money", payments, message.BehaviorAllow, remote), permission.Rule{Name: "free", Tools: []string{once}, Behavior: message.BehaviorAllow})
	e := w.engine()
	c, plain := e.submit("c", remote), e.submit("d", once)
	w.wantRoute(c, payments)
	w.wantRoute(plain, "")
	size := len(w.records())
	strangers := map[message.CallID][]*engine.Port{
		"c": {e.serves(remote, ""), e.serves(remote, elsewhere), e.serves(once, payments)},
		"d": {e.serves(once, payments)},
	}
	refused := func(c *toolcall.Call) {
		for _, s := range strangers[c.Call] {
			_, err := s.Start(w.Context(), startRequest(c, "x"))
			w.wantErr(err, message.ErrForbidden)
			refuse := startRequest(c, "x")
			refuse.Refuse = "not for me"
			_, err = s.Start(w.Context(), refuse)
			w.wantErr(err, message.ErrForbidden)
			_, err = s.Heartbeat(w.Context(), beatRequest(c, "x"))
			w.wantErr(err, message.ErrForbidden)
			_, err = s.Result(w.Context(), resultRequest(c, "x", "forged"))
			w.wantErr(err, message.ErrForbidden)
			w.wantErr(s.Progress(w.Context(), toolcall.ProgressRequest{Key: c.Key, Attempt: 1, Claim: "x"}), message.ErrForbidden)
		}
	}
	refused(c)
	refused(plain)
	w.wantSize(size)
	e.start(c, "w1", "x")
	size = len(w.records())
	refused(c) // not even with the owner's name and claim
	w.wantSize(size)
	own := e.serves(remote, payments)
	if _, err := own.Heartbeat(w.Context(), beatRequest(c, "x")); err != nil {
		w.Errorf("the owner's heartbeat: %v", err)
	}
	_, err := own.Result(w.Context(), resultRequest(c, "x", "done"))
	w.must(err)
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "done")
}

func routedExternal(w *world) {
	w.policy.use(w, routed("money", payments, message.BehaviorAllow, external), routed("asks", payments, message.BehaviorAsk, askOut))
	e := w.engine()
	for _, tool := range []string{external, askOut} {
		c := e.propose(call(message.CallID(tool), tool, `{}`))[0]
		if c.State != message.ToolCallFinished || c.Cause != "deny" || !strings.Contains(c.Decision.Reason, "workers on "+payments) || c.Decision.Route != "" {
			w.Errorf("%s is %s: %+v", tool, describe(c), c.Decision)
		}
	}
}

func routedApart(w *world) {
	w.policy.use(w, routed("money", payments, message.BehaviorAllow, remote), routed("other", elsewhere, message.BehaviorAllow, remote),
		routed("asks", payments, message.BehaviorAsk, askRemote), routed("and", elsewhere, message.BehaviorAsk, askRemote))
	e := w.engine()
	for _, tool := range []string{remote, askRemote} {
		c := e.propose(call(message.CallID(tool), tool, `{}`))[0]
		if c.State != message.ToolCallFinished || c.Cause != "deny" || !strings.Contains(c.Decision.Reason, elsewhere+", "+payments) {
			w.Errorf("%s is %s: %+v", tool, describe(c), c.Decision)
		}
	}
}

func routedByEdit(w *world) {
	big := routed("big", payments, message.BehaviorAsk, pay)
	big.When = "args.amount > 100"
	w.policy.use(w, permission.Rule{Name: "free", Tools: []string{pay}, Behavior: message.BehaviorAllow}, big)
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	_, err := e.ann().SubmitResponse(w.Context(), edit(q, `{"amount":50}`))
	w.must(err)
	c := e.finished(q.Key) // in the engine, because no rule routes the call any more
	w.wantResult(c, message.ToolResultSuccess, `{"amount":50}`)
	if c.Decision.Route != "" || c.Placement != toolcall.PlaceLocal {
		w.Errorf("the edited call ran %s, route %q", c.Placement, c.Decision.Route)
	}
	q = e.ask("d", pay, `{"amount":500}`)
	c, err = e.ann().SubmitResponse(w.Context(), edit(q, `{"amount":400}`))
	w.must(err)
	w.wantRoute(c, payments)
	w.wantRuns(q.Key, 0)
	e.start(c, "w1", "x")
	_, err = e.serves(pay, payments).Result(w.Context(), resultRequest(c, "x", "done"))
	w.must(err)
}

func routeOutlives(w *world) {
	money := routed("money", payments, message.BehaviorAllow, idem)
	money.Executor.Timeout = time.Hour
	w.policy.use(w, money)
	e := w.engine()
	c := e.submit("c", idem)
	e.start(c, "w1", "x")
	e.kill() // the worker dies as well
	w.policy.use(w, permission.Rule{Name: "free", Tools: []string{idem}, Behavior: message.BehaviorAllow})
	other := w.engine()
	c = other.waitFor(c.Key, "offered again", func(c *toolcall.Call) bool { return c.Attempt.Number == 2 && !c.Started() })
	w.wantRoute(c, payments)
	_, err := other.serves(idem, "").Start(w.Context(), startRequest(c, "y"))
	w.wantErr(err, message.ErrForbidden)
	if reply := other.start(c, "w2", "y"); reply.Deadline.IsZero() || time.Until(reply.Deadline) > time.Hour {
		w.Errorf("the second attempt may run until %s", reply.Deadline)
	}
	_, err = other.worker("w2").Result(w.Context(), resultRequest(c, "y", "done"))
	w.must(err)
	w.wantResult(other.finished(c.Key), message.ToolResultSuccess, "done")
}

// An approval request and its route stay as they were when the request was made.
func routedAsDecided(w *world) {
	w.policy.use(w, routed("look", payments, message.BehaviorAsk, askRemote))
	e := w.engine()
	q := e.ask("c", askRemote, `{}`)
	w.policy.use(w, routed("look", elsewhere, message.BehaviorAsk, askRemote))
	c, err := e.ann().SubmitResponse(w.Context(), approve(q))
	w.must(err)
	w.wantRoute(c, payments)
}
