package enginetest

import (
	"fmt"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

func answerCases() []testCase[*world] {
	return []testCase[*world]{
		{"approve", approved},
		{"approve edited, then allowed", editedAllowed},
		{"approve edited, denied by rule", editedDenied},
		{"approve edited, asked by another rule", editedAsksAnew},
		{"approve edited, asked by a further rule", editedAsksOthers},
		{"approve edited, a rule fails", editedFails},
		{"approve edited, unfit", editedUnfit},
		{"reject with feedback", rejected},
		{"answer for the tool", answeredForTool},
		{"only those who may", onlyNamedUsers},
		{"a rule to remember", ruleRemembered},
		{"a rule to remember comes with what is allowed", ruleNotRemembered},
		{"only suggested rules", onlySuggestedRules},
		{"an answer that comes too late", answerTooLate},
		{"a question expires", questionExpires},
		{"approved remote call", approvedRemote},
		{"edited remote call", editedRemote},
	}
}

func noTool(tool string) permission.Rule {
	return permission.Rule{Name: "no-" + tool, Tools: []string{tool}, Behavior: message.BehaviorDeny}
}

func approve(c *message.Call) message.Answer {
	return message.Answer{Key: c.Key, Kind: message.AnswerApprove, Digest: c.Digest}
}

func edit(c *message.Call, input string) message.Answer {
	a := approve(c)
	a.Input = &input
	return a
}

func reject(c *message.Call) message.Answer {
	return message.Answer{Key: c.Key, Kind: message.AnswerReject, Digest: c.Digest, Feedback: "not today"}
}

// ask proposes one call and checks that it asks.
func (r *replica) ask(id message.CallID, tool, input string) *message.Call {
	r.w.Helper()
	c := r.propose(call(id, tool, input))[0]
	if c.State != message.ToolCallAsking || c.Question == nil || c.Digest == "" || c.Question.Input != input || c.Question.Tool != tool || c.Question.Text == "" {
		r.w.Fatalf("%s is %s with the question %+v", c.Key, describe(c), c.Question)
	}
	return c
}

func approved(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	w.wantRuns(q.Key, 0)
	c, err := e.ann().Answer(w.Context(), approve(q))
	w.must(err)
	if !c.Started() {
		w.Errorf("an approved call is %s", describe(c))
	}
	c = e.finished(q.Key)
	w.wantResult(c, message.ToolResultSuccess, `{"amount":500}`)
	w.wantRuns(q.Key, 1)
	w.wantPath(q.Key, "propose+ask approve+start result")
	if len(c.Votes) != 1 || c.Votes[0].By != (message.Principal{Role: message.RoleApprover, Name: "ann", Auth: "test"}) || c.Votes[0].Digest != q.Digest {
		w.Errorf("the votes are %+v", c.Votes)
	}
}

func rejected(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	c, err := e.ann().Answer(w.Context(), reject(q))
	w.must(err)
	w.wantResult(c, message.ToolResultDenied, "not today")
	w.wantPath(q.Key, "propose+ask reject")
	w.wantRuns(q.Key, 0)
}

func answeredForTool(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	c, err := e.ann().Answer(w.Context(), message.Answer{Key: q.Key, Kind: message.AnswerForTool, Digest: q.Digest, Output: "paid by hand"})
	w.must(err)
	w.wantResult(c, message.ToolResultSuccess, "paid by hand")
	w.wantPath(q.Key, "propose+ask answer")
	w.wantRuns(q.Key, 0)
}

func onlyNamedUsers(w *world) {
	e := w.engine()
	q := e.ask("c", vip, `{}`)
	size := len(w.records())
	for _, a := range []message.Answer{approve(q), reject(q), edit(q, `{"x":1}`), {Key: q.Key, Kind: message.AnswerForTool, Digest: q.Digest}} {
		_, err := e.bob().Answer(w.Context(), a)
		w.wantErr(err, message.ErrForbidden)
	}
	w.wantSize(size)
	_, err := e.ann().Answer(w.Context(), approve(q))
	w.must(err)
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, "ran")
}

func ruleRemembered(w *world) {
	e, other := w.engine(), w.engine()
	q := e.ask("c", deploy, `{}`)
	if len(q.Suggested) != 1 {
		w.Fatalf("suggested: %+v", q.Suggested)
	}
	a := approve(q)
	a.Rules = q.Suggested
	_, err := e.ann().Answer(w.Context(), a)
	w.must(err)
	e.finished(q.Key)
	other.finished(q.Key)
	w.wantResult(e.finished(e.propose(call("d", deploy, `{}`))[0].Key), message.ToolResultSuccess, "ran")
	w.until("the other replica knows the rule", func() bool {
		id := message.CallID(fmt.Sprint("e", time.Now().UnixNano()))
		return other.propose(call(id, deploy, `{}`))[0].State != message.ToolCallAsking
	})
	out, err := e.bot().Propose(w.Context(), message.ProposeRequest{Session: "s2", Reply: "r", Calls: []message.ToolCallBlock{call("c", deploy, `{}`)}})
	w.must(err)
	if out.Calls[0].State != message.ToolCallAsking {
		w.Errorf("the rule reached another session: %s", describe(out.Calls[0]))
	}
	later := w.engine() // a rule outlives the engine that took it
	w.wantResult(later.finished(later.propose(call("f", deploy, `{}`))[0].Key), message.ToolResultSuccess, "ran")
}

// ruleNotRemembered: the rules of an edit that is denied, or asked anew and
// then rejected, expired or interrupted, are none; those of whoever approves
// it in the end are theirs.
func ruleNotRemembered(w *world) {
	w.policy.use(w,
		permission.Rule{Name: "a-low", Tools: []string{deploy}, Behavior: message.BehaviorAsk, When: "args.n == 1"},
		permission.Rule{Name: "b-high", Tools: []string{deploy}, Behavior: message.BehaviorAsk, When: "args.n == 2", Expiry: time.Second},
		permission.Rule{Name: "c-over", Tools: []string{deploy}, Behavior: message.BehaviorDeny, When: "args.n == 3"})
	e, other := w.engine(), w.engine()
	n := 0
	free := func() bool {
		n++
		c := e.propose(call(message.CallID(fmt.Sprint("free", n)), deploy, `{"n":0}`))[0]
		return c.State != message.ToolCallAsking
	}
	edited := func(id message.CallID, input string) *message.Call {
		w.Helper()
		q := e.ask(id, deploy, `{"n":1}`)
		a := edit(q, input)
		if a.Rules = q.Suggested; len(a.Rules) == 0 {
			w.Fatal("no rule is suggested")
		}
		c, err := e.ann().Answer(w.Context(), a)
		w.must(err)
		if len(c.Remember) > 0 || free() {
			w.Fatalf("the rules of %s count, though it is %s", id, describe(c))
		}
		return c
	}
	edited("denied", `{"n":3}`)
	_, err := e.bob().Answer(w.Context(), reject(edited("rejected", `{"n":2}`)))
	w.must(err)
	e.finished(edited("expired", `{"n":2}`).Key)
	q := edited("approved", `{"n":2}`)
	_, err = e.bob().Answer(w.Context(), approve(q))
	w.must(err)
	e.finished(q.Key)
	q = edited("approved with rules", `{"n":2}`)
	if free() {
		w.Fatal("a rule is remembered that nobody gave")
	}
	a := approve(q)
	a.Rules = q.Suggested
	_, err = other.bob().Answer(w.Context(), a)
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
		a := approve(q)
		a.Rules = append([]message.PermissionRule{}, append(q.Suggested, r)...)
		_, err := e.ann().Answer(w.Context(), a)
		w.wantErr(err, message.ErrForbidden)
		a = edit(q, `{"x":1}`)
		a.Rules = []message.PermissionRule{r}
		_, err = e.ann().Answer(w.Context(), a)
		w.wantErr(err, message.ErrForbidden)
	}
	w.wantSize(size)
}

// answerTooLate gives every kind of answer to a question that is over.
func answerTooLate(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	_, err := e.ann().Answer(w.Context(), reject(q))
	w.must(err)
	size := len(w.records())
	for _, a := range []message.Answer{approve(q), reject(q), edit(q, `{"amount":1}`), {Key: q.Key, Kind: message.AnswerForTool, Digest: q.Digest}} {
		_, err := e.bob().Answer(w.Context(), a)
		e := w.refusal(err, message.ErrFinished)
		if e.Call == nil || e.Call.Cause != "reject" || e.Call.Votes[0].By.Name != "ann" {
			w.Errorf("a late answer does not get to see the first: %+v", e.Call)
		}
	}
	w.wantSize(size)
	running := e.ask("d", askRemote, `{}`)
	_, err = e.ann().Answer(w.Context(), approve(running))
	w.must(err)
	_, err = e.bob().Answer(w.Context(), reject(running))
	if e := w.refusal(err, message.ErrState); e.Call == nil || e.Call.State != message.ToolCallSubmitted || e.Call.Votes[0].By.Name != "ann" {
		w.Errorf("a late answer does not get to see the first: %+v", e.Call)
	}
}

func questionExpires(w *world) {
	w.policy.use(w, permission.Rule{Name: "quick", Tools: []string{pay}, Behavior: message.BehaviorAsk, Expiry: 100 * time.Millisecond})
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	if q.Question.Requirement.Deadline.IsZero() {
		w.Fatal("the question has no deadline")
	}
	c := e.finished(q.Key)
	w.wantResult(c, message.ToolResultDenied, "nobody answered")
	w.wantPath(q.Key, "propose+ask expire")
	w.wantRuns(q.Key, 0)
	_, err := e.ann().Answer(w.Context(), approve(q))
	w.wantErr(err, message.ErrFinished)
}

func approvedRemote(w *world) {
	e := w.engine()
	q := e.ask("c", askRemote, `{}`)
	_, err := e.worker("w1").Start(w.Context(), message.StartRequest{Key: q.Key, Attempt: 1, Claim: "x"})
	if err == nil {
		w.Fatal("a worker started a call that nobody approved")
	}
	c, err := e.ann().Answer(w.Context(), approve(q))
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
