package enginetest

import (
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

func editedAllowed(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	_, err := e.ann().Answer(w.Context(), edit(q, `{"amount":50}`))
	w.must(err)
	c := e.finished(q.Key)
	w.wantResult(c, message.ToolResultSuccess, `{"amount":50}`)
	w.wantPath(q.Key, "propose+ask edit+allow+start result")
	if c.Input != `{"amount":50}` || c.Digest == q.Digest || !c.Votes[0].Edited || c.Proposal != q.Proposal {
		w.Errorf("the edited call is %+v", c)
	}
	// asked by the same rule again: this approver has answered that already
	q = e.ask("d", pay, `{"amount":500}`)
	_, err = e.ann().Answer(w.Context(), edit(q, `{"amount":400}`))
	w.must(err)
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, `{"amount":400}`)
	// not changed at all: an approval
	q = e.ask("e", pay, `{"amount":500}`)
	_, err = e.ann().Answer(w.Context(), edit(q, q.Input))
	w.must(err)
	e.finished(q.Key)
	w.wantPath(q.Key, "propose+ask approve+start result")
}

func editedDenied(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	c, err := e.ann().Answer(w.Context(), edit(q, `{"amount":50000}`))
	w.must(err)
	w.wantResult(c, message.ToolResultDenied, "huge")
	w.wantPath(q.Key, "propose+ask edit+deny")
	w.wantRuns(q.Key, 0)
}

func editedAsksAnew(w *world) {
	e := w.engine()
	q := e.ask("c", pay, `{"amount":500}`)
	again, err := e.ann().Answer(w.Context(), edit(q, `{"amount":50,"currency":"USD"}`))
	w.must(err)
	if again.State != message.ToolCallAsking || again.Digest == q.Digest || again.Question.Rule != "foreign" || again.Question.Input != again.Input {
		w.Fatalf("the edited call is %s with %+v", describe(again), again.Question)
	}
	w.wantRuns(q.Key, 0)
	_, err = e.bob().Answer(w.Context(), approve(q))
	if e := w.refusal(err, message.ErrDigest); e.Call == nil || e.Call.Digest != again.Digest {
		w.Errorf("an answer to the old question does not get to see the new one: %+v", e.Call)
	}
	_, err = e.bob().Answer(w.Context(), approve(again))
	w.must(err)
	c := e.finished(q.Key)
	w.wantResult(c, message.ToolResultSuccess, "USD")
	w.wantPath(q.Key, "propose+ask edit+ask approve+start result")
	if len(c.Votes) != 2 {
		w.Errorf("the votes are %+v", c.Votes)
	}
}

// editedAsksOthers: the rule that asked asks again, and one that only others
// may answer joins it. Rules that join keep the first one's name.
func editedAsksOthers(w *world) {
	w.policy.use(w,
		permission.Rule{Name: "a-all", Tools: []string{pay}, Behavior: message.BehaviorAsk, When: "args.cents > 0"},
		permission.Rule{Name: "b-large", Tools: []string{pay}, Behavior: message.BehaviorAsk, When: "args.cents > 5000",
			Approvers: permission.Approvers{Users: []string{"boss"}}})
	e := w.engine()
	q := e.ask("c", pay, `{"cents":100}`)
	again, err := e.ann().Answer(w.Context(), edit(q, `{"cents":80000}`))
	w.must(err)
	if again.State != message.ToolCallAsking || again.Digest == q.Digest || len(again.Question.Requirement.Users) != 1 || again.Question.Requirement.Users[0] != "boss" {
		w.Fatalf("the edited call is %s with %+v", describe(again), again.Question)
	}
	_, err = e.ann().Answer(w.Context(), approve(again))
	w.wantErr(err, message.ErrForbidden)
	_, err = e.ann().Answer(w.Context(), edit(again, `{"cents":100}`))
	w.wantErr(err, message.ErrForbidden)
	w.wantRuns(q.Key, 0)
	_, err = e.as(message.RoleApprover, "boss").Answer(w.Context(), edit(again, `{"cents":70000}`))
	w.must(err)
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, `{"cents":70000}`)
	w.wantPath(q.Key, "propose+ask edit+ask edit+allow+start result")
	// the same rule, which accepts others by now
	q = e.ask("d", pay, `{"cents":100}`)
	w.policy.use(w, permission.Rule{Name: "a-all", Tools: []string{pay}, Behavior: message.BehaviorAsk, When: "args.cents > 0",
		Approvers: permission.Approvers{Users: []string{"boss"}}})
	again, err = e.ann().Answer(w.Context(), edit(q, `{"cents":200}`))
	w.must(err)
	if again.State != message.ToolCallAsking || len(again.Question.Requirement.Users) != 1 {
		w.Fatalf("the edited call is %s with %+v", describe(again), again.Question)
	}
}

// editedFails: a rule that cannot be evaluated for the new arguments was not
// part of the question that the approver saw.
func editedFails(w *world) {
	w.policy.use(w,
		permission.Rule{Name: "a-all", Tools: []string{pay}, Behavior: message.BehaviorAsk, When: "args.cents > 0"},
		permission.Rule{Name: "b-note", Tools: []string{pay}, Behavior: message.BehaviorAsk, When: `args.note.startsWith("urgent")`})
	e := w.engine()
	q := e.ask("c", pay, `{"cents":100,"note":"rent"}`)
	again, err := e.ann().Answer(w.Context(), edit(q, `{"cents":100,"note":7}`))
	w.must(err)
	if again.State != message.ToolCallAsking || again.Digest == q.Digest || len(again.Decision.Errors) == 0 {
		w.Fatalf("the edited call is %s with %+v", describe(again), again.Decision)
	}
	w.wantRuns(q.Key, 0)
}

// editedUnfit: bad arguments are the approver's to mend, the question stays.
func editedUnfit(w *world) {
	w.policy.use(w, permission.Rule{Name: "look", Tools: []string{typed}, Behavior: message.BehaviorAsk})
	e := w.engine()
	q := e.ask("c", typed, `{"n":1}`)
	size := len(w.records())
	for _, input := range []string{``, `[]`, `{"n":"1"}`, `{"n":1,"n":2}`, `{"n":2}}`, "{\"n\":2,\"\xff\":1}"} {
		_, err := e.ann().Answer(w.Context(), edit(q, input))
		w.wantErr(err, message.ErrInvalid)
	}
	_, err := e.ann().Answer(w.Context(), edit(q, `{"n":"`+strings.Repeat("x", message.MaxInputBytes)+`"}`))
	w.wantErr(err, message.ErrTooLarge)
	w.wantSize(size)
	_, err = e.ann().Answer(w.Context(), edit(q, `{"n":2}`))
	w.must(err)
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, `{"n":2}`)
}

// editedRemote: a grant names those who agreed to what it grants, not who had
// a part in earlier questions.
func editedRemote(w *world) {
	w.policy.use(w,
		permission.Rule{Name: "one", Tools: []string{askRemote}, Behavior: message.BehaviorAsk, When: "args.n == 1"},
		permission.Rule{Name: "two", Tools: []string{askRemote}, Behavior: message.BehaviorAsk, When: "args.n > 1"})
	e := w.engine()
	want := func(c *message.Call, err error, name string) {
		w.Helper()
		w.must(err)
		if g := c.Attempt.Grant; g == nil || len(g.Approvals) != 1 || g.Approvals[0].By.Name != name || g.Digest != c.Digest {
			w.Errorf("%s is %s with the grant %+v, want one approval by %s", c.Call, describe(c), g, name)
		}
	}
	again, err := e.ann().Answer(w.Context(), edit(e.ask("c", askRemote, `{"n":1}`), `{"n":2}`))
	w.must(err)
	c, err := e.bob().Answer(w.Context(), approve(again))
	want(c, err, "bob")
	again, err = e.ann().Answer(w.Context(), edit(e.ask("d", askRemote, `{"n":1}`), `{"n":2}`))
	w.must(err)
	c, err = e.bob().Answer(w.Context(), edit(again, `{"n":3}`))
	want(c, err, "bob")
}
