package engine_test

import (
	"fmt"
	"strings"
	"sync"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func proposeCases() []engineCase {
	return []engineCase{
		{"a conflict within a proposal", conflictInProposal},
		{"an allowed local call runs once", allowedLocal},
		{"a batch of safe calls", safeBatch},
		{"a denied call", deniedCall},
		{"calls that cannot be decided", refusedCalls},
		{"an external call", externalCall},
		{"tools that the runtime brings", broughtTools},
		{"proposed again", proposedAgain},
		{"proposed on two engines at once", proposedTwice},
		{"the same ids in other replies", sameIDs},
		{"a foreign runtime", foreignRuntime},
		{"a session is bound once", sessionBoundOnce},
		{"a deny rule that came into force meanwhile", denyBeforeStart},
		{"a tool without a worker yet", noWorkerYet},
	}
}

// call is a block to propose.
func call(id message.CallID, tool, input string) message.ToolCallBlock {
	return message.ToolCallBlock{ID: id, Name: tool, Input: input}
}

func request(calls ...message.ToolCallBlock) toolcall.ProposeRequest {
	return toolcall.ProposeRequest{Session: "s", Reply: "r", Agent: "agent", Calls: calls}
}

// propose proposes calls of the reply r of the session s.
func (r *replica) propose(calls ...message.ToolCallBlock) []*toolcall.Call {
	r.w.Helper()
	out, err := r.bot().Propose(r.w.Context(), request(calls...))
	if err != nil {
		r.w.Fatalf("propose: %v", err)
	}
	if len(out.Calls) != len(calls) {
		r.w.Fatalf("%d calls were proposed, %d came back", len(calls), len(out.Calls))
	}
	for i, c := range out.Calls {
		if c.Call != calls[i].ID || c.Seq == 0 || c.First == 0 {
			r.w.Errorf("call %d of the reply is %s at %d, first at %d", i, c.Key, c.Seq, c.First)
		}
	}
	return out.Calls
}

// wantResult checks how a call ended.
func (w *world) wantResult(c *toolcall.Call, state message.ToolResultState, text string) {
	w.Helper()
	if c.State != message.ToolCallFinished || c.Result == nil || c.Result.State != state || !strings.Contains(c.Result.Output.String(), text) {
		w.Errorf("%s is %s, result %+v; want %s with %q", c.Key, describe(c), c.Result, state, text)
		return
	}
	if c.Result.ID != c.Call || c.Result.Name != c.Tool {
		w.Errorf("the result of %s (%s) is named %s (%s)", c.Call, c.Tool, c.Result.ID, c.Result.Name)
	}
}

// wantRuns checks how often a call had its effect.
func (w *world) wantRuns(key toolcall.Key, n int) {
	w.Helper()
	if runs := w.effects.of(key); len(runs) != n {
		w.Errorf("%s ran %d times, want %d", key, len(runs), n)
	}
}

// path returns the causes in a call's history.
func (w *world) path(key toolcall.Key) string {
	w.Helper()
	records, err := w.journal.History(w.Context(), key)
	w.must(err)
	var out []string
	for _, r := range records {
		var steps []string
		for _, s := range r.Record.Path {
			steps = append(steps, s.Cause)
		}
		if r.Record.Note != nil {
			steps = append(steps, "note")
		}
		out = append(out, strings.Join(steps, "+"))
	}
	return strings.Join(out, " ")
}

func (w *world) wantPath(key toolcall.Key, want string) {
	w.Helper()
	if got := w.path(key); got != want {
		w.Errorf("the history of %s is %q, want %q", key, got, want)
	}
}

// conflictInProposal checks that nothing of a proposal is written, neither calls nor a plan,
// if one of its calls is known with different content.
func conflictInProposal(w *world) {
	e, other := w.engine(), w.engine()
	e.finished(e.propose(call("a", echo, `{}`))[0].Key)
	size := len(w.records())
	for _, r := range []*replica{e, other, w.engine()} {
		for _, calls := range [][]message.ToolCallBlock{
			{call("b", echo, `{}`), call("a", echo, `{"n":1}`)},
			{call("b", serial, `{}`), call("a", echo, `{"n":1}`)},
			{call("a", serial, `{}`)},
		} {
			_, err := r.bot().Propose(w.Context(), request(calls...))
			if e := w.refusal(err, message.ErrConflict); toolcall.CallOf(e) == nil || toolcall.CallOf(e).Call != "a" {
				w.Errorf("the error does not show the call: %+v", toolcall.CallOf(e))
			}
			_, err = r.as(toolcall.RoleRuntime, "mallory").Propose(w.Context(), request(calls...))
			if e := w.refusal(err, message.ErrForeign); toolcall.CallOf(e) != nil {
				w.Errorf("another runtime can see the call: %+v", toolcall.CallOf(e))
			}
		}
	}
	w.wantSize(size)
	w.wantRuns(w.key("b"), 0)
	e.propose(call("b", echo, `{}`), call("a", echo, `{}`)) // proposing the same again is not a conflict
	e.finished(w.key("b"))
}

func allowedLocal(w *world) {
	e := w.engine()
	e.propose(call("c", echo, `{"n": 1}`))
	c := e.finished(w.key("c"))
	w.wantResult(c, message.ToolResultSuccess, `ran {"n": 1}`)
	w.wantRuns(c.Key, 1)
	w.wantPath(c.Key, "propose+allow+start result")
	if c.Decision == nil || c.Decision.Rule != "free" || c.Decision.Bundle != w.policy.Hash() || c.Agent != "agent" || c.Runtime != "bot" {
		w.Errorf("the call does not say who proposed and who allowed it: %+v", c)
	}
}

func safeBatch(w *world) {
	e := w.engine()
	var blocks []message.ToolCallBlock
	for i := range 20 {
		blocks = append(blocks, call(message.CallID(fmt.Sprint("c", i)), echo, fmt.Sprintf(`{"i":%d}`, i)))
	}
	for _, c := range e.propose(blocks...) {
		if c.Order != toolcall.OrderNone {
			w.Errorf("the independent call %s has an order: %s", c.Call, c.Order)
		}
	}
	for i, b := range blocks {
		w.wantResult(e.finished(w.key(b.ID)), message.ToolResultSuccess, fmt.Sprintf(`ran {"i":%d}`, i))
	}
}

func deniedCall(w *world) {
	e := w.engine()
	c := e.propose(call("c", rm, `{}`))[0]
	w.wantResult(c, message.ToolResultDenied, rm)
	w.wantRuns(c.Key, 0)
	w.wantPath(c.Key, "propose+deny")
	if c.Decision.Rule != "no-rm" {
		w.Errorf("denied by %q", c.Decision.Rule)
	}
}

// refusedCalls checks that refused calls end at once with a text that tells the model why.
func refusedCalls(w *world) {
	e := w.engine()
	for i, row := range []struct{ tool, input, text string }{
		{"nonsense", `{}`, "nonsense"},
		{echo, ``, "JSON object"},
		{echo, `[1]`, "JSON object"},
		{echo, `null`, "JSON object"},
		{echo, `{"a":1} x`, "JSON object"},
		{echo, `{"a":1,"a":2}`, "JSON object"},
		{echo, `{"a":` + strings.Repeat(`[`, 10_000), "JSON object"},
		{typed, `{}`, "schema"},
		{typed, `{"n":"1"}`, "schema"},
		{typed, `{"n":1,"m":2}`, "schema"},
		{typed, `{"N":1}`, "schema"},
	} {
		id := message.CallID(fmt.Sprint("c", i))
		c := e.propose(call(id, row.tool, row.input))[0]
		w.wantResult(c, message.ToolResultError, row.text)
		w.wantPath(c.Key, "propose+refuse")
		w.wantRuns(c.Key, 0)
	}
	w.wantResult(e.finished(e.propose(call("good", typed, `{"n":1}`))[0].Key), message.ToolResultSuccess, "ran")
}

func externalCall(w *world) {
	e := w.engine()
	c := e.propose(call("c", external, `{}`))[0]
	if c.State != message.ToolCallSubmitted || c.Placement != toolcall.PlaceExternal {
		w.Fatalf("an external call is %s", describe(c))
	}
	w.wantPath(c.Key, "propose+allow+submit")
	report := toolcall.ReportRequest{Key: c.Key, Result: message.ToolResultBlock{State: message.ToolResultSuccess, Output: message.Content{Text: "done"}, Metadata: map[string]any{"k": "v"}}}
	c, err := e.bot().Report(w.Context(), report)
	w.must(err)
	w.wantResult(c, message.ToolResultSuccess, "done")
	if c.Result.Metadata["k"] != "v" {
		w.Errorf("the result's metadata is %v", c.Result.Metadata)
	}
	again, err := e.bot().Report(w.Context(), report)
	if err != nil || again.Seq != c.Seq {
		w.Errorf("the same result again: %+v, %v", again, err)
	}
	report.Result.Output.Text = "other"
	_, err = e.bot().Report(w.Context(), report)
	if e := w.refusal(err, message.ErrFinished); toolcall.CallOf(e) == nil || toolcall.CallOf(e).Result.Output.Text != "done" {
		w.Errorf("the error for a second result does not show the first: %+v", toolcall.CallOf(e))
	}
	w.wantPath(c.Key, "propose+allow+submit result")
	for id, outcome := range map[message.CallID]toolcall.Outcome{"happened": toolcall.OutcomeHappened, "did_not": toolcall.OutcomeDidNot} { // its runtime is gone
		c := e.propose(call(id, external, `{}`))[0]
		state := toolcall.ResolveRequest{Key: c.Key, Attempt: c.Attempt.Number, Outcome: toolcall.OutcomeRunAgain}
		_, err := e.operator().Resolve(w.Context(), state)
		w.wantErr(err, message.ErrState)
		state.Outcome, state.Output = outcome, "seen"
		c, err = e.operator().Resolve(w.Context(), state)
		w.must(err)
		if outcome == toolcall.OutcomeHappened {
			w.wantResult(c, message.ToolResultSuccess, "seen")
		} else {
			w.wantResult(c, message.ToolResultError, "nothing happened")
		}
		w.wantPath(c.Key, "propose+allow+submit resolve")
	}
	for id, end := range map[message.CallID]func(*toolcall.Call) (*toolcall.Call, error){ // its runtime does not know whether it ran
		"late": func(c *toolcall.Call) (*toolcall.Call, error) {
			return e.bot().Report(w.Context(), toolcall.ReportRequest{Key: c.Key, Result: message.ToolResultBlock{State: message.ToolResultSuccess, Output: message.Content{Text: "may have taken effect"}}})
		},
		"revoked": func(c *toolcall.Call) (*toolcall.Call, error) {
			return e.operator().Revoke(w.Context(), toolcall.RevokeRequest{Key: c.Key})
		},
		"stated": func(c *toolcall.Call) (*toolcall.Call, error) {
			return e.operator().Resolve(w.Context(), toolcall.ResolveRequest{Key: c.Key, Attempt: c.Attempt.Number, Outcome: toolcall.OutcomeHappened, Output: "it may have taken effect"})
		},
	} {
		unknown := toolcall.ReportRequest{Key: e.propose(call(id, external, `{}`))[0].Key, Unknown: true}
		c, err := e.bot().Report(w.Context(), unknown)
		w.must(err)
		if c.Phase() != toolcall.PhaseBlocked || c.Blocked != toolcall.BlockedUnknown {
			w.Errorf("a call with an unknown outcome is %s", describe(c))
		}
		if again, err := e.bot().Report(w.Context(), unknown); err != nil || again.Seq != c.Seq {
			w.Errorf("unknown again: %+v, %v", again, err)
		}
		c, err = end(c)
		w.must(err)
		if text := c.Result.Output.Text; c.Open() || !strings.Contains(text, "may have taken effect") || strings.Contains(text, "earlier attempt") || c.Denial != nil {
			w.Errorf("%s: a call with an unknown outcome ends as %s: %s", id, describe(c), text)
		}
		_, err = e.bot().Report(w.Context(), unknown)
		w.wantErr(err, message.ErrFinished)
	}
	local := e.propose(call("l", block, `{}`))[0]
	_, err = e.bot().Report(w.Context(), toolcall.ReportRequest{Key: local.Key, Result: report.Result})
	w.wantErr(err, message.ErrState)
	_, err = e.bot().Report(w.Context(), toolcall.ReportRequest{Key: local.Key, Unknown: true})
	w.wantErr(err, message.ErrState)
	asking := e.propose(call("a", askOut, `{}`))[0]
	_, err = e.bot().Report(w.Context(), toolcall.ReportRequest{Key: asking.Key, Unknown: true})
	w.wantErr(err, message.ErrState)
	_, err = e.bot().Report(w.Context(), toolcall.ReportRequest{Key: asking.Key, Result: report.Result})
	w.wantErr(err, message.ErrState)
}

func broughtTools(w *world) {
	e := w.engine()
	bring := func(tools []string, calls ...message.ToolCallBlock) (toolcall.ProposeReply, error) {
		r := request(calls...)
		r.External = tools
		return e.bot().Propose(w.Context(), r)
	}
	out, err := bring([]string{"picker", external}, call("c", "picker", `{"of":2}`), call("bad", "picker", `[`), call("unknown", "other", `{}`), call("known", external, `{}`))
	w.must(err)
	if c := out.Calls[0]; c.State != message.ToolCallAsking || c.Placement != toolcall.PlaceExternal {
		w.Fatalf("a call of a tool that the runtime brought is %s", describe(c))
	}
	w.wantResult(out.Calls[1], message.ToolResultError, "are not a JSON object")
	w.wantResult(out.Calls[2], message.ToolResultError, "ToolNotFoundError")
	if c := out.Calls[3]; c.State != message.ToolCallSubmitted {
		w.Errorf("an external tool that was brought again is %s", describe(c))
	}
	edited := `{"of":3}`
	resp := approve(out.Calls[0])
	resp.Input = &edited
	c := e.answers("ann", resp)
	if c.State != message.ToolCallSubmitted || c.Placement != toolcall.PlaceExternal || c.Input != edited {
		w.Fatalf("approved with an edit it is %s with %s", describe(c), c.Input)
	}
	c, err = e.bot().Report(w.Context(), toolcall.ReportRequest{Key: c.Key, Result: message.ToolResultBlock{State: message.ToolResultSuccess, Output: message.Content{Text: "the red one"}}})
	w.must(err)
	w.wantResult(c, message.ToolResultSuccess, "the red one")
	_, err = bring([]string{"picker", echo}, call("stolen", echo, `{}`))
	w.wantErr(err, message.ErrInvalid)
	key := c.Key
	key.Call = "stolen"
	_, err = e.bot().Show(w.Context(), toolcall.ShowRequest{Key: key})
	w.wantErr(err, message.ErrNotFound)
}

func proposedAgain(w *world) {
	e := w.engine()
	blocks := []message.ToolCallBlock{call("a", deploy, `{}`), call("b", serial, `{}`), call("c", rm, `{}`)}
	e.propose(blocks...)
	size := len(w.records())
	for range 3 {
		again := e.propose(blocks...)
		if again[0].State != message.ToolCallAsking || again[1].State != message.ToolCallPending || again[2].State != message.ToolCallPending {
			w.Errorf("the states are %s, %s and %s", again[0].State, again[1].State, again[2].State)
		}
		e.propose(blocks[1])
	}
	for _, other := range []message.ToolCallBlock{call("a", deploy, `{ }`), call("a", echo, `{}`), call("c", rm, `{"x":1}`)} {
		_, err := e.bot().Propose(w.Context(), request(other))
		if e := w.refusal(err, message.ErrConflict); toolcall.CallOf(e) == nil || toolcall.CallOf(e).Call != other.ID {
			w.Errorf("the conflict does not show the call: %+v", toolcall.CallOf(e))
		}
	}
	w.wantSize(size)
}

// wantSize checks that nothing was written.
func (w *world) wantSize(n int) {
	w.Helper()
	if records := w.records(); len(records) != n {
		for _, r := range records[min(n, len(records)):] {
			if r.Record == nil {
				w.Errorf("written: the event %s of %s", r.Event, r.Key)
				continue
			}
			w.Errorf("written: %s of %s", r.Record.Kind(), r.Key)
		}
		w.Errorf("the journal has %d records, want %d", len(records), n)
	}
}

func proposedTwice(w *world) {
	engines := []*replica{w.engine(), w.engine()}
	for i := range 20 {
		id := message.CallID(fmt.Sprint("c", i))
		blocks := []message.ToolCallBlock{call(id, echo, `{}`), call(id+"-ask", deploy, `{}`), call(id+"-turn", serial, `{}`)}
		var wg sync.WaitGroup
		for _, e := range engines {
			wg.Go(func() {
				if _, err := e.bot().Propose(w.Context(), toolcall.ProposeRequest{Session: "s", Reply: message.ReplyID(fmt.Sprint("r", i)), Calls: blocks}); err != nil {
					w.Errorf("propose: %v", err)
				}
			})
		}
		wg.Wait()
		key := w.key(id)
		key.Reply = message.ReplyID(fmt.Sprint("r", i))
		engines[0].finished(key)
		w.wantRuns(key, 1)
		w.wantPath(key, "propose allow+start result")
	}
}

func sameIDs(w *world) {
	e := w.engine()
	seen := map[string]bool{}
	for _, session := range []message.SessionID{"s1", "s2"} {
		for _, reply := range []message.ReplyID{"r1", "r2"} {
			out, err := e.bot().Propose(w.Context(), toolcall.ProposeRequest{Session: session, Reply: reply, Calls: []message.ToolCallBlock{call("c", echo, `{"n":"`+string(session)+string(reply)+`"}`)}})
			w.must(err)
			c := e.finished(out.Calls[0].Key)
			w.wantResult(c, message.ToolResultSuccess, string(session)+string(reply))
			w.wantRuns(c.Key, 1)
			seen[w.effects.of(c.Key)[0].idem] = true
		}
	}
	if len(seen) != 4 {
		w.Errorf("four calls share %d idempotency keys", len(seen))
	}
}

func foreignRuntime(w *world) {
	e := w.engine()
	e.propose(call("c", external, `{}`))
	size := len(w.records())
	other := e.as(toolcall.RoleRuntime, "other")
	_, err := other.Propose(w.Context(), request(call("d", echo, `{}`)))
	w.wantErr(err, message.ErrForeign)
	_, err = other.Propose(w.Context(), request(call("c", external, `{}`)))
	w.wantErr(err, message.ErrForeign)
	_, err = other.Report(w.Context(), toolcall.ReportRequest{Key: w.key("c"), Result: message.ToolResultBlock{State: message.ToolResultSuccess}})
	w.wantErr(err, message.ErrForeign)
	_, err = other.Interrupt(w.Context(), toolcall.InterruptRequest{Session: "s", Reply: "r"})
	w.wantErr(err, message.ErrForeign)
	_, err = other.Wait(w.Context(), toolcall.WaitRequest{Session: "s", Reply: "r"})
	w.wantErr(err, message.ErrForeign)
	_, err = other.Events(w.Context(), toolcall.EventsRequest{Session: "s"})
	w.wantErr(err, message.ErrForeign)
	_, err = other.Emit(w.Context(), toolcall.EmitRequest{Session: "s", Reply: "r", Events: []message.RawJSON{event(1)}})
	w.wantErr(err, message.ErrForeign)
	_, err = other.Show(w.Context(), toolcall.ShowRequest{Key: w.key("c")})
	w.wantErr(err, message.ErrNotFound)
	list, err := other.List(w.Context(), toolcall.ListRequest{Session: "s", All: true})
	if err != nil || len(list.Calls) != 0 {
		w.Errorf("another runtime sees %d calls, %v", len(list.Calls), err)
	}
	w.wantSize(size)
}

// sessionBoundOnce lets two runtimes compete for the same new session.
func sessionBoundOnce(w *world) {
	engines := []*replica{w.engine(), w.engine()}
	for i := range 20 {
		session := message.SessionID(fmt.Sprint("s", i))
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for k, e := range engines {
			wg.Go(func() {
				_, errs[k] = e.as(toolcall.RoleRuntime, fmt.Sprint("bot", k)).Propose(w.Context(), toolcall.ProposeRequest{Session: session, Reply: "r", Calls: []message.ToolCallBlock{call(message.CallID(fmt.Sprint("c", k)), echo, `{}`)}})
			})
		}
		wg.Wait()
		switch {
		case errs[0] == nil && errs[1] == nil:
			w.Errorf("session %s has two owners", session)
		case errs[0] == nil:
			w.wantErr(errs[1], message.ErrForeign)
		default:
			w.must(errs[1])
			w.wantErr(errs[0], message.ErrForeign)
		}
	}
}

// denyBeforeStart checks that a call allowed under an older policy does not begin once a deny
// rule matches it.
func denyBeforeStart(w *world) {
	e := w.engine()
	c := e.propose(call("c", remote, `{}`))[0]
	asked := e.propose(call("d", deploy, `{}`))[0]
	w.policy.use(w, append(rules(), noTool(remote), noTool(deploy))...)
	_, err := e.worker("w1").Start(w.Context(), toolcall.StartRequest{Key: c.Key, Attempt: 1, Claim: "x"})
	w.wantErr(err, message.ErrFinished)
	w.wantResult(e.finished(c.Key), message.ToolResultDenied, "no-"+remote)
	d, err := e.ann().SubmitResponse(w.Context(), approve(asked))
	w.must(err)
	w.wantResult(d, message.ToolResultDenied, "no-"+deploy)
	w.wantRuns(d.Key, 0)
}

func noWorkerYet(w *world) {
	e := w.unstarted()
	e.tools.lacks(echo)
	w.must(e.Start(w.Context()))
	c := e.propose(call("c", echo, `{}`))[0]
	if c.State != message.ToolCallAllowed || c.Started() {
		w.Fatalf("the call is %s", describe(c))
	}
	able := w.engine() // a replica that has the tool takes it
	able.finished(c.Key)
	w.wantRuns(c.Key, 1)
	w.wantPath(c.Key, "propose+allow start result")
	later := e.propose(call("d", echo, `{}`))[0]
	e.finished(later.Key)
	w.wantRuns(later.Key, 1)
}
