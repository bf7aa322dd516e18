package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func answerCases() []engineCase {
	return []engineCase{
		{"approve", approved},
		{"approve edited, then allowed", editedAllowed},
		{"approve edited, denied by rule", editedDenied},
		{"approve edited, previewed", editedPreviewed},
		{"approve edited, denied by another policy than previewed", editedUnderAnotherPolicy},
		{"or is repeated by a person who approved", editedByAVoter},
		{"approve edited, asked by another rule", editedAsksAnew},
		{"approve edited, asked by a further rule", editedAsksOthers},
		{"approve edited, a rule fails", editedFails},
		{"approve edited, unfit", editedUnfit},
		{"reject with feedback", rejected},
		{"respond with the result", answeredForTool},
		{"only people who may answer", onlyNamedUsers},
		{"a rule to remember", ruleRemembered},
		{"a rule is remembered only with an allowed call", ruleNotRemembered},
		{"only suggested rules", onlySuggestedRules},
		{"an answer that comes too late", answerTooLate},
		{"an approval request expires", requestExpires},
		{"approved remote call", approvedRemote},
		{"edited remote call", editedRemote},
	}
}

func noTool(tool string) permission.Rule {
	return permission.Rule{Name: "no-" + tool, Tools: []string{tool}, Behavior: message.BehaviorDeny}
}

func approve(c *toolcall.Call) toolcall.Response {
	return toolcall.Response{Key: c.Key, Kind: toolcall.ResponseApprove, Digest: c.Digest}
}

func edit(c *toolcall.Call, input string) toolcall.Response {
	resp := approve(c)
	resp.Input = &input
	return resp
}

func reject(c *toolcall.Call) toolcall.Response {
	return toolcall.Response{Key: c.Key, Kind: toolcall.ResponseReject, Digest: c.Digest, Feedback: "not today"}
}

// ask proposes one call and checks that it asks.
func (r *replica) ask(id message.CallID, tool, input string) *toolcall.Call {
	r.w.Helper()
	c := r.propose(call(id, tool, input))[0]
	if c.State != message.ToolCallAsking || c.Request == nil || c.Digest == "" || c.Request.Input != input || c.Request.Tool != tool || c.Request.Text == "" {
		r.w.Fatalf("%s is %s with the approval request %+v", c.Key, describe(c), c.Request)
	}
	return c
}

func approved(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	w.wantRuns(q.Key, 0)
	c, err := e.ann().SubmitResponse(w.Context(), approve(q))
	w.must(err)
	if !c.Started() {
		w.Errorf("an approved call is %s", describe(c))
	}
	c = e.finished(q.Key)
	w.wantResult(c, message.ToolResultSuccess, `{"amount":500}`)
	w.wantRuns(q.Key, 1)
	w.wantPath(q.Key, "propose+ask approve+start result")
	if len(c.Votes) != 1 || c.Votes[0].By != (toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann", Auth: "test"}) || c.Votes[0].Digest != q.Digest {
		w.Errorf("the votes are %+v", c.Votes)
	}
}

func rejected(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	c, err := e.ann().SubmitResponse(w.Context(), reject(q))
	w.must(err)
	w.wantResult(c, message.ToolResultDenied, "not today")
	w.wantPath(q.Key, "propose+ask reject")
	w.wantRuns(q.Key, 0)
}

func answeredForTool(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	c, err := e.ann().SubmitResponse(w.Context(), toolcall.Response{Key: q.Key, Kind: toolcall.ResponseRespond, Digest: q.Digest, Output: "paid by hand"})
	w.must(err)
	w.wantResult(c, message.ToolResultSuccess, "paid by hand")
	w.wantPath(q.Key, "propose+ask respond")
	w.wantRuns(q.Key, 0)
}

func onlyNamedUsers(w *world) {
	e := w.engine()
	q := e.ask("c", vip, `{}`)
	size := len(w.records())
	for _, resp := range []toolcall.Response{approve(q), reject(q), edit(q, `{"x":1}`), {Key: q.Key, Kind: toolcall.ResponseRespond, Digest: q.Digest}} {
		_, err := e.bob().SubmitResponse(w.Context(), resp)
		w.wantErr(err, message.ErrForbidden)
	}
	w.wantSize(size)
	_, err := e.ann().SubmitResponse(w.Context(), approve(q))
	w.must(err)
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, "ran")
}

func ruleRemembered(w *world) {
	e, other := w.engine(), w.engine()
	q := e.ask("c", deploy, `{}`)
	if len(q.Suggested) != 1 {
		w.Fatalf("suggested: %+v", q.Suggested)
	}
	resp := approve(q)
	resp.Rules = q.Suggested
	_, err := e.ann().SubmitResponse(w.Context(), resp)
	w.must(err)
	e.finished(q.Key)
	other.finished(q.Key)
	w.wantResult(e.finished(e.propose(call("d", deploy, `{}`))[0].Key), message.ToolResultSuccess, "ran")
	w.until("the other replica knows the rule", func() bool {
		id := message.CallID(fmt.Sprint("e", time.Now().UnixNano()))
		return other.propose(call(id, deploy, `{}`))[0].State != message.ToolCallAsking
	})
	out, err := e.bot().Propose(w.Context(), toolcall.ProposeRequest{Session: "s2", Reply: "r", Calls: []message.ToolCallBlock{call("c", deploy, `{}`)}})
	w.must(err)
	if out.Calls[0].State != message.ToolCallAsking {
		w.Errorf("the rule reached another session: %s", describe(out.Calls[0]))
	}
	later := w.engine() // a rule outlives the engine that took it
	w.wantResult(later.finished(later.propose(call("f", deploy, `{}`))[0].Key), message.ToolResultSuccess, "ran")
}

// ruleNotRemembered checks that an edit leaves no rules if it is denied, or if it asks again
// and the call is then rejected, expires or is interrupted. If the call is finally approved,
// the rules are those of the last approver.
func ruleNotRemembered(w *world) {
	w.policy.use(w,
		permission.Rule{Name: "a-low", Tools: []string{deploy}, Behavior: message.BehaviorAsk, When: "args.n == 1"},
		permission.Rule{Name: "b-high", Tools: []string{deploy}, Behavior: message.BehaviorAsk, When: "args.n == 2", Expiry: 4 * time.Second},
		permission.Rule{Name: "c-over", Tools: []string{deploy}, Behavior: message.BehaviorDeny, When: "args.n == 3"})
	e, other := w.engine(), w.engine()
	n := 0
	free := func() bool {
		n++
		c := e.propose(call(message.CallID(fmt.Sprint("free", n)), deploy, `{"n":0}`))[0]
		return c.State != message.ToolCallAsking
	}
	edited := func(id message.CallID) *toolcall.Call {
		w.Helper()
		q := e.ask(id, deploy, `{"n":1}`)
		resp := edit(q, `{"n":2}`)
		if resp.Rules = q.Suggested; len(resp.Rules) == 0 {
			w.Fatal("no rule is suggested")
		}
		c, err := e.ann().SubmitResponse(w.Context(), resp)
		w.must(err)
		if len(c.Remember) > 0 || free() {
			w.Fatalf("the rules of %s count, although the call is %s", id, describe(c))
		}
		return c
	}
	denied := edit(e.ask("denied", deploy, `{"n":1}`), `{"n":3}`)
	denied.Rules = []message.PermissionRule{}
	_, err := e.ann().SubmitResponse(w.Context(), denied)
	w.wantErr(err, message.ErrForbidden)
	_, err = e.ann().SubmitResponse(w.Context(), toolcall.Response{Key: denied.Key, Digest: denied.Digest, Kind: toolcall.ResponseReject})
	w.must(err)
	_, err = e.bob().SubmitResponse(w.Context(), reject(edited("rejected")))
	w.must(err)
	e.finished(edited("expired").Key)
	q := edited("approved")
	_, err = e.bob().SubmitResponse(w.Context(), approve(q))
	w.must(err)
	e.finished(q.Key)
	q = edited("approved with rules")
	if free() {
		w.Fatal("a rule is remembered that no person asked to remember")
	}
	resp := approve(q)
	resp.Rules = q.Suggested
	_, err = other.bob().SubmitResponse(w.Context(), resp)
	w.must(err)
	if c := e.finished(q.Key); len(c.Remember) != 1 {
		w.Fatalf("the second approver's rules are lost: %+v", c.Remember)
	}
	w.until("the rule counts", free)
	w.until("it counts after a restart", func() bool {
		later := w.engine()
		n++
		return later.propose(call(message.CallID(fmt.Sprint("later", n)), deploy, `{"n":0}`))[0].State != message.ToolCallAsking
	})
}

func onlySuggestedRules(w *world) {
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	size := len(w.records())
	content := "x"
	for _, r := range []message.PermissionRule{
		{ToolName: rm, Behavior: message.BehaviorAllow, Source: "suggested"},
		{ToolName: deploy, Behavior: message.BehaviorDeny, Source: "suggested"},
		{ToolName: deploy, RuleContent: &content, Behavior: message.BehaviorAllow, Source: "suggested"},
		{ToolName: "*", Behavior: message.BehaviorAllow, Source: "suggested"},
		{},
	} {
		resp := approve(q)
		resp.Rules = append([]message.PermissionRule{}, append(q.Suggested, r)...)
		_, err := e.ann().SubmitResponse(w.Context(), resp)
		w.wantErr(err, message.ErrForbidden)
		resp = edit(q, `{"x":1}`)
		resp.Rules = []message.PermissionRule{r}
		_, err = e.ann().SubmitResponse(w.Context(), resp)
		w.wantErr(err, message.ErrForbidden)
	}
	w.wantSize(size)
}

// answerTooLate sends every kind of answer to an approval request that is over.
func answerTooLate(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	_, err := e.ann().SubmitResponse(w.Context(), reject(q))
	w.must(err)
	size := len(w.records())
	for _, resp := range []toolcall.Response{approve(q), reject(q), edit(q, `{"amount":1}`), {Key: q.Key, Kind: toolcall.ResponseRespond, Digest: q.Digest}} {
		_, err := e.bob().SubmitResponse(w.Context(), resp)
		e := w.refusal(err, message.ErrFinished)
		if toolcall.CallOf(e) == nil || toolcall.CallOf(e).Cause != "reject" || toolcall.CallOf(e).Votes[0].By.Name != "ann" {
			w.Errorf("the error for a late answer does not show the first answer: %+v", toolcall.CallOf(e))
		}
	}
	w.wantSize(size)
	running := e.ask("d", askRemote, `{}`)
	_, err = e.ann().SubmitResponse(w.Context(), approve(running))
	w.must(err)
	_, err = e.bob().SubmitResponse(w.Context(), reject(running))
	if e := w.refusal(err, message.ErrState); toolcall.CallOf(e) == nil || toolcall.CallOf(e).State != message.ToolCallSubmitted || toolcall.CallOf(e).Votes[0].By.Name != "ann" {
		w.Errorf("the error for a late answer does not show the first answer: %+v", toolcall.CallOf(e))
	}
}

func requestExpires(w *world) {
	w.policy.use(w, permission.Rule{Name: "quick", Tools: []string{pay}, Behavior: message.BehaviorAsk, Expiry: 100 * time.Millisecond})
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	if q.Request.Requirement.Deadline.IsZero() {
		w.Fatal("the approval request has no deadline")
	}
	c := e.finished(q.Key)
	w.wantResult(c, message.ToolResultDenied, "no approver responded")
	w.wantPath(q.Key, "propose+ask expire")
	w.wantRuns(q.Key, 0)
	_, err := e.ann().SubmitResponse(w.Context(), approve(q))
	w.wantErr(err, message.ErrFinished)
}

func approvedRemote(w *world) {
	e := w.engine()
	q := e.ask("c", askRemote, `{}`)
	_, err := e.worker("w1").Start(w.Context(), toolcall.StartRequest{Key: q.Key, Attempt: 1, Claim: "x"})
	if err == nil {
		w.Fatal("a worker started a call without an approval")
	}
	c, err := e.ann().SubmitResponse(w.Context(), approve(q))
	w.must(err)
	if c.State != message.ToolCallSubmitted || c.Attempt.Grant == nil {
		w.Fatalf("an approved remote call is %s", describe(c))
	}
	w.wantPath(q.Key, "propose+ask approve+submit")
	g := c.Attempt.Grant
	if len(g.Approvals) != 1 || g.Approvals[0].By.Name != "ann" || g.Digest != q.Digest {
		w.Errorf("the grant says %+v", g)
	}
}

func editedAllowed(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	_, err := e.ann().SubmitResponse(w.Context(), edit(q, `{"amount":50}`))
	w.must(err)
	c := e.finished(q.Key)
	w.wantResult(c, message.ToolResultSuccess, `{"amount":50}`)
	w.wantPath(q.Key, "propose+ask edit+allow+start result")
	if c.Input != `{"amount":50}` || c.Digest == q.Digest || !c.Votes[0].Edited || c.Proposal != q.Proposal {
		w.Errorf("the edited call is %+v", c)
	}
	// the same rule asks again, and this approver has already answered it
	q = e.ask("d", pay, `{"amount":500}`)
	_, err = e.ann().SubmitResponse(w.Context(), edit(q, `{"amount":400}`))
	w.must(err)
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, `{"amount":400}`)
	// nothing changed, so this is an approval
	q = e.ask("e", pay, `{"amount":500}`)
	_, err = e.ann().SubmitResponse(w.Context(), edit(q, q.Input))
	w.must(err)
	e.finished(q.Key)
	w.wantPath(q.Key, "propose+ask approve+start result")
}

func editedDenied(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	size := len(w.records())
	_, err := e.ann().SubmitResponse(w.Context(), edit(q, `{"amount":50000}`))
	if text := w.refusal(err, message.ErrForbidden).Error(); !strings.Contains(text, "huge") || !strings.Contains(text, "still open") {
		w.Errorf("the refusal says %s", text)
	}
	w.wantSize(size)
	w.wantRuns(q.Key, 0)
	// the request is still open for others
	_, err = e.bob().SubmitResponse(w.Context(), approve(q))
	w.must(err)
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, `{"amount":500}`)
	w.wantPath(q.Key, "propose+ask approve+start result")
}

// editedPreviewed checks that the preview of an edit predicts what the edit does.
func editedPreviewed(w *world) {
	e := w.engine()
	preview := func(p *engine.Port, q *toolcall.Call, input string) api.PreviewedCall {
		w.Helper()
		out, err := api.Preview.Call(w.Context(), p, api.PreviewRequest{ProposeRequest: toolcall.ProposeRequest{Session: q.Session, Reply: q.Reply}, Edit: &api.PreviewEdit{Call: q.Call, Digest: q.Digest, Input: input}})
		w.must(err)
		return out.Calls[0]
	}
	for i, row := range []struct {
		input string
		want  api.EditOutcome
		says  string
	}{
		{`{"amount":50}`, api.EditRuns, ""},
		{`{"amount":400}`, api.EditRuns, ""},
		{`{"amount":500}`, api.EditRuns, ""}, // nothing is changed
		{`{"amount":50,"currency":"USD"}`, api.EditAsks, ""},
		{`{"amount":50000}`, api.EditRefused, "huge"},
		{`[]`, api.EditRefused, "not a JSON object"},
	} {
		q := e.ask(message.CallID(fmt.Sprint("c", i)), pay, `{"amount":500}`)
		size := len(w.records())
		got := preview(e.ann(), q, row.input)
		w.wantSize(size)
		if got.Edit != row.want || !strings.Contains(got.Refused, row.says) || (got.Refused == "") != (row.want != api.EditRefused) || (got.Needs != nil) != (row.want == api.EditAsks) {
			w.Errorf("%s: the preview is %+v", row.input, got)
		}
		if row.want != api.EditRefused && got.Summary == "" || row.says == "huge" && (got.Decision == nil || got.Decision.Rule != "huge") {
			w.Errorf("%s: the preview has %q, %+v", row.input, got.Summary, got.Decision)
		}
		c, err := e.ann().SubmitResponse(w.Context(), edit(q, row.input))
		switch row.want {
		case api.EditRuns:
			w.must(err)
			e.finished(c.Key)
		case api.EditAsks:
			w.must(err)
			if c.State != message.ToolCallAsking {
				w.Errorf("%s: %s", row.input, describe(c))
			}
		case api.EditRefused:
			if err == nil {
				w.Errorf("%s: the edit was accepted", row.input)
			}
		}
		if row.want != api.EditRuns {
			now, err := e.operator().Show(w.Context(), toolcall.ShowRequest{Key: q.Key})
			w.must(err)
			if now.Call.State != message.ToolCallAsking || row.want == api.EditRefused && now.Call.Digest != q.Digest {
				w.Errorf("%s: the request is now %s", row.input, describe(now.Call))
			}
			_, err = e.ann().SubmitResponse(w.Context(), reject(now.Call))
			w.must(err)
		}
	}
}

// editedByAVoter checks that the preview of unchanged arguments is the request as it stands for a
// person who has already approved them.
func editedByAVoter(w *world) {
	w.policy.use(w, permission.Rule{Name: "two", Tools: []string{pay}, Behavior: message.BehaviorAsk, Quorum: 2})
	e := w.engine()
	q := e.ask("c", pay, `{"amount":5}`)
	_, err := e.ann().SubmitResponse(w.Context(), approve(q))
	w.must(err)
	out, err := api.Preview.Call(w.Context(), e.ann(), api.PreviewRequest{ProposeRequest: toolcall.ProposeRequest{Session: q.Session, Reply: q.Reply}, Edit: &api.PreviewEdit{Call: q.Call, Input: q.Input}})
	w.must(err)
	if got := out.Calls[0]; got.Edit != api.EditAsks || got.Needs == nil {
		w.Errorf("the preview is %+v", got)
	}
}

// editedUnderAnotherPolicy checks that a preview is no promise. The policy in force when the
// edit is sent decides, and an edit that it denies leaves the request open.
func editedUnderAnotherPolicy(w *world) {
	ask := permission.Rule{Name: "ask", Tools: []string{pay}, Behavior: message.BehaviorAsk}
	w.policy.use(w, ask)
	e := w.engine()
	q := e.ask("c", pay, `{"amount":5}`)
	edited := func() api.EditOutcome {
		w.Helper()
		out, err := api.Preview.Call(w.Context(), e.ann(), api.PreviewRequest{ProposeRequest: toolcall.ProposeRequest{Session: q.Session, Reply: q.Reply}, Edit: &api.PreviewEdit{Call: q.Call, Input: `{"amount":6}`}})
		w.must(err)
		return out.Calls[0].Edit
	}
	if got := edited(); got != api.EditRuns {
		w.Errorf("the preview says %s", got)
	}
	w.policy.use(w, ask, permission.Rule{Name: "six", Tools: []string{pay}, Behavior: message.BehaviorDeny, When: "args.amount == 6"})
	_, err := e.ann().SubmitResponse(w.Context(), edit(q, `{"amount":6}`))
	w.wantErr(err, message.ErrForbidden)
	if got := edited(); got != api.EditRefused {
		w.Errorf("the preview now says %s", got)
	}
	w.policy.use(w, ask)
	_, err = e.ann().SubmitResponse(w.Context(), edit(q, `{"amount":6}`))
	w.must(err)
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, `{"amount":6}`)
}

func editedAsksAnew(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	again, err := e.ann().SubmitResponse(w.Context(), edit(q, `{"amount":50,"currency":"USD"}`))
	w.must(err)
	if again.State != message.ToolCallAsking || again.Digest == q.Digest || again.Request.Rule != "foreign" || again.Request.Input != again.Input {
		w.Fatalf("the edited call is %s with %+v", describe(again), again.Request)
	}
	w.wantRuns(q.Key, 0)
	_, err = e.bob().SubmitResponse(w.Context(), approve(q))
	if e := w.refusal(err, message.ErrDigest); toolcall.CallOf(e) == nil || toolcall.CallOf(e).Digest != again.Digest {
		w.Errorf("the error for an answer to the old approval request does not show the new one: %+v", toolcall.CallOf(e))
	}
	_, err = e.bob().SubmitResponse(w.Context(), approve(again))
	w.must(err)
	c := e.finished(q.Key)
	w.wantResult(c, message.ToolResultSuccess, "USD")
	w.wantPath(q.Key, "propose+ask edit+ask approve+start result")
	if len(c.Votes) != 2 {
		w.Errorf("the votes are %+v", c.Votes)
	}
}

// editedAsksOthers edits a call so that its rule asks again together with a rule that only
// other people may answer. Together they keep the name of the first rule.
func editedAsksOthers(w *world) {
	w.policy.use(w,
		permission.Rule{Name: "a-all", Tools: []string{pay}, Behavior: message.BehaviorAsk, When: "args.cents > 0"},
		permission.Rule{Name: "b-large", Tools: []string{pay}, Behavior: message.BehaviorAsk, When: "args.cents > 5000",
			Approvers: permission.Approvers{Users: []string{"boss"}}})
	e := w.engine()
	q := e.ask("c", pay, `{"cents":100}`)
	again, err := e.ann().SubmitResponse(w.Context(), edit(q, `{"cents":80000}`))
	w.must(err)
	if again.State != message.ToolCallAsking || again.Digest == q.Digest || len(again.Request.Requirement.Users) != 1 || again.Request.Requirement.Users[0] != "boss" {
		w.Fatalf("the edited call is %s with %+v", describe(again), again.Request)
	}
	_, err = e.ann().SubmitResponse(w.Context(), approve(again))
	w.wantErr(err, message.ErrForbidden)
	_, err = e.ann().SubmitResponse(w.Context(), edit(again, `{"cents":100}`))
	w.wantErr(err, message.ErrForbidden)
	w.wantRuns(q.Key, 0)
	_, err = e.as(toolcall.RoleApprover, "boss").SubmitResponse(w.Context(), edit(again, `{"cents":70000}`))
	w.must(err)
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, `{"cents":70000}`)
	w.wantPath(q.Key, "propose+ask edit+ask edit+allow+start result")
	// the same rule, which now accepts other people
	q = e.ask("d", pay, `{"cents":100}`)
	w.policy.use(w, permission.Rule{Name: "a-all", Tools: []string{pay}, Behavior: message.BehaviorAsk, When: "args.cents > 0",
		Approvers: permission.Approvers{Users: []string{"boss"}}})
	again, err = e.ann().SubmitResponse(w.Context(), edit(q, `{"cents":200}`))
	w.must(err)
	if again.State != message.ToolCallAsking || len(again.Request.Requirement.Users) != 1 {
		w.Fatalf("the edited call is %s with %+v", describe(again), again.Request)
	}
}

// editedFails edits a call so that a rule cannot be evaluated, which the approval request
// that the approver saw did not say.
func editedFails(w *world) {
	w.policy.use(w,
		permission.Rule{Name: "a-all", Tools: []string{pay}, Behavior: message.BehaviorAsk, When: "args.cents > 0"},
		permission.Rule{Name: "b-note", Tools: []string{pay}, Behavior: message.BehaviorAsk, When: `args.note.startsWith("urgent")`})
	e := w.engine()
	q := e.ask("c", pay, `{"cents":100,"note":"rent"}`)
	again, err := e.ann().SubmitResponse(w.Context(), edit(q, `{"cents":100,"note":7}`))
	w.must(err)
	if again.State != message.ToolCallAsking || again.Digest == q.Digest || len(again.Decision.Errors) == 0 {
		w.Fatalf("the edited call is %s with %+v", describe(again), again.Decision)
	}
	w.wantRuns(q.Key, 0)
}

// editedUnfit checks that the approver must correct bad arguments and that the request stays.
func editedUnfit(w *world) {
	w.policy.use(w, permission.Rule{Name: "look", Tools: []string{typed}, Behavior: message.BehaviorAsk})
	e := w.engine()
	q := e.ask("c", typed, `{"n":1}`)
	size := len(w.records())
	for _, input := range []string{``, `[]`, `{"n":"1"}`, `{"n":1,"n":2}`, `{"n":2}}`, "{\"n\":2,\"\xff\":1}"} {
		_, err := e.ann().SubmitResponse(w.Context(), edit(q, input))
		w.wantErr(err, message.ErrInvalid)
	}
	_, err := e.ann().SubmitResponse(w.Context(), edit(q, `{"n":"`+strings.Repeat("x", toolcall.MaxInputBytes)+`"}`))
	w.wantErr(err, message.ErrTooLarge)
	w.wantSize(size)
	_, err = e.ann().SubmitResponse(w.Context(), edit(q, `{"n":2}`))
	w.must(err)
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, `{"n":2}`)
}

// editedRemote checks that a grant names the people who approved what it grants, not those who
// only answered earlier approval requests.
func editedRemote(w *world) {
	w.policy.use(w,
		permission.Rule{Name: "one", Tools: []string{askRemote}, Behavior: message.BehaviorAsk, When: "args.n == 1"},
		permission.Rule{Name: "two", Tools: []string{askRemote}, Behavior: message.BehaviorAsk, When: "args.n > 1"})
	e := w.engine()
	want := func(c *toolcall.Call, err error, name string) {
		w.Helper()
		w.must(err)
		if g := c.Attempt.Grant; g == nil || len(g.Approvals) != 1 || g.Approvals[0].By.Name != name || g.Digest != c.Digest {
			w.Errorf("%s is %s with the grant %+v, want one approval by %s", c.Call, describe(c), g, name)
		}
	}
	again, err := e.ann().SubmitResponse(w.Context(), edit(e.ask("c", askRemote, `{"n":1}`), `{"n":2}`))
	w.must(err)
	c, err := e.bob().SubmitResponse(w.Context(), approve(again))
	want(c, err, "bob")
	again, err = e.ann().SubmitResponse(w.Context(), edit(e.ask("d", askRemote, `{"n":1}`), `{"n":2}`))
	w.must(err)
	c, err = e.bob().SubmitResponse(w.Context(), edit(again, `{"n":3}`))
	want(c, err, "bob")
}

func digestCases() []engineCase {
	return []engineCase{
		{"an answer to another approval request", wrongDigest},
		{"an answer to an unknown or foreign call", unknownCall},
		{"one of many answers on three engines wins", oneAnswerWins},
		{"the digest covers what is shown", digestCovers},
	}
}

func wrongDigest(w *world) {
	e := w.engine()
	q, other := e.ask("c", pay, `{"amount":500}`), e.ask("d", pay, `{"amount":501}`)
	size := len(w.records())
	for _, digest := range []string{other.Digest, "sha256:00", q.Digest + "0", strings.ToUpper(q.Digest)} {
		for _, kind := range []toolcall.ResponseKind{toolcall.ResponseApprove, toolcall.ResponseReject, toolcall.ResponseRespond} {
			_, err := e.ann().SubmitResponse(w.Context(), toolcall.Response{Key: q.Key, Kind: kind, Digest: digest})
			if e := w.refusal(err, message.ErrDigest); toolcall.CallOf(e) == nil || toolcall.CallOf(e).Digest != q.Digest || toolcall.CallOf(e).Request == nil || toolcall.CallOf(e).Request.Input != q.Input {
				w.Errorf("the error does not show the current approval request: %+v", toolcall.CallOf(e))
			}
		}
		resp := edit(q, `{"amount":1}`)
		resp.Digest = digest
		_, err := e.ann().SubmitResponse(w.Context(), resp)
		w.wantErr(err, message.ErrDigest)
	}
	w.wantSize(size)
	w.wantRuns(q.Key, 0)
}

func unknownCall(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	size := len(w.records())
	for _, change := range []func(*toolcall.Response){
		func(resp *toolcall.Response) { resp.Call = "unknown" },
		func(resp *toolcall.Response) { resp.Reply = "unknown" },
		func(resp *toolcall.Response) { resp.Session = "unknown" },
	} {
		resp := approve(q)
		change(&resp)
		_, err := e.ann().SubmitResponse(w.Context(), resp)
		w.wantErr(err, message.ErrNotFound)
	}
	w.wantSize(size)
	resp := approve(q)
	resp.Space = "another" // the engine uses its own space, not the one in the request
	_, err := e.ann().SubmitResponse(w.Context(), resp)
	w.must(err)
	e.finished(q.Key)
}

// oneAnswerWins sends 64 answers to three engines at once.
func oneAnswerWins(w *world) {
	engines := []*replica{w.engine(), w.engine(), w.engine()}
	for round := range 3 {
		q := engines[0].ask(message.CallID(fmt.Sprint("c", round)), pay, `{"amount":500}`)
		var won atomic.Int64
		var winner atomic.Value
		var mu sync.Mutex
		seen := map[string]int{}
		var wg sync.WaitGroup
		for i := range 64 {
			resp := []toolcall.Response{approve(q), reject(q), edit(q, `{"amount":1}`), {Key: q.Key, Kind: toolcall.ResponseRespond, Digest: q.Digest}}[i%4]
			name := fmt.Sprint("person", i)
			wg.Go(func() {
				c, err := engines[i%3].as(toolcall.RoleApprover, name).SubmitResponse(w.Context(), resp)
				if err == nil {
					won.Add(1)
					winner.Store(name)
				} else if c = toolcall.CallOf(err); c == nil {
					w.Errorf("a loser got %v without the winner's outcome", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				seen[c.Votes[0].By.Name]++
			})
		}
		wg.Wait()
		if won.Load() != 1 || len(seen) != 1 || seen[winner.Load().(string)] != 64 {
			w.Errorf("%d answers won, the outcomes seen are %v", won.Load(), seen)
		}
		for _, e := range engines {
			if c := e.finished(q.Key); c.Votes[0].By.Name != winner.Load() {
				w.Errorf("%s says that %s answered, but it was %s", e.ID(), c.Votes[0].By.Name, winner.Load())
			}
		}
	}
}

// digestCovers recomputes the digest from what the person sees, then changes each part and
// checks that the digest changes.
func digestCovers(w *world) {
	e := w.engine()
	q := e.ask("c", vip, `{"amount": 500}`)
	for name, change := range map[string]func(*toolcall.ApprovalRequest){
		"nothing": func(*toolcall.ApprovalRequest) {},
		"key":     func(req *toolcall.ApprovalRequest) { req.Call = "d" },
		"tool":    func(req *toolcall.ApprovalRequest) { req.Tool = rm },
		"input":   func(req *toolcall.ApprovalRequest) { req.Input = `{"amount":500}` },
		"text":    func(req *toolcall.ApprovalRequest) { req.Text += " " },
		"rule":    func(req *toolcall.ApprovalRequest) { req.Rule = "" },
		"source":  func(req *toolcall.ApprovalRequest) { req.Source = "x" },
		"reason":  func(req *toolcall.ApprovalRequest) { req.Reason = "x" },
		"users":   func(req *toolcall.ApprovalRequest) { req.Requirement.Users = []string{"ann", "bob"} },
		"deadline": func(req *toolcall.ApprovalRequest) {
			req.Requirement.Deadline = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		},
		"bundle": func(req *toolcall.ApprovalRequest) { req.Bundle = "x" },
	} {
		copied := *q.Request
		change(&copied)
		digest, err := copied.Digest()
		w.must(err)
		if (digest == q.Digest) != (name == "nothing") {
			w.Errorf("after a change of %s the digest is %s, was %s", name, digest, q.Digest)
		}
	}
}
