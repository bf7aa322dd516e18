package enginetest

import (
	"strings"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

func rememberEditCases() []testCase[*world] {
	return []testCase[*world]{
		{"on terms", editRemembered},
		{"by those whom a quorum still needs", editRememberedByAll},
		{"terms are held against the edited call", editedTermsRefused},
		{"what nobody is asked, or others are", editRememberedByNobody},
		{"plain rules cover the edited call", editedPlainRules},
	}
}

// editing approves a call with other arguments and terms.
func editing(q *message.Call, input string, t message.LeaseTerms) message.Answer {
	a := edit(q, input)
	a.Remember = &t
	return a
}

func editRemembered(w *world) {
	w.policy.use(w, remembering(func(r *permission.Rule) {
		r.Remember = &permission.Remember{Scope: []string{"args.customer"}, TTL: time.Hour, Uses: 3}
	}))
	e := w.engine()
	q := e.ask("c", deploy, `{"customer":"k1","cents":9000}`)
	c := e.answers("ann", editing(q, `{"customer":"k2","cents":10}`, message.LeaseTerms{Uses: 2, Budget: &message.Budget{Path: "args.cents", Limit: "25"}}))
	if len(c.Leases) != 1 || c.Digest == q.Digest {
		w.Fatalf("the edited call is %s with the leases %+v", describe(c), c.Leases)
	}
	l := e.lease(c.Leases[0].ID)
	if l.Digest != c.Digest || l.Same["args.customer"] != `"k2"` || l.Left != "25" || len(l.GrantedBy) != 1 || l.GrantedBy[0].Made != c.Digest {
		w.Errorf("the lease is %+v, want one of the edited call %s", l, c.Digest)
	}
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, `"k2"`)
	w.wantBy(e.propose(call("d", deploy, `{"customer":"k2","cents":20}`))[0], l.ID)
	w.wantBy(e.propose(call("e", deploy, `{"customer":"k1","cents":1}`))[0], "")
	w.wantBy(e.propose(call("f", deploy, `{"customer":"k2","cents":6}`))[0], "")
	w.engine().lease(l.ID) // as another replica reads it
}

// editRememberedByAll: the editor's wish counts like their approval.
func editRememberedByAll(w *world) {
	w.policy.use(w, remembering(func(r *permission.Rule) { r.Quorum = 2 }))
	e := w.engine()
	terms := message.LeaseTerms{Uses: 2}
	q := e.answers("ann", editing(e.ask("e", deploy, `{"n":1}`), `{"n":2}`, terms))
	if c := e.answers("bob", approve(q)); len(c.Leases) != 0 {
		w.Errorf("by the editor alone: %+v", c.Leases)
	}
	q = e.answers("ann", editing(e.ask("c", deploy, `{"n":1}`), `{"n":2}`, terms))
	w.wantMissing(q, ":1")
	a := approve(q)
	a.Remember = &terms
	c := e.answers("bob", a)
	if len(c.Leases) != 1 || len(c.Leases[0].GrantedBy) != 2 || c.Leases[0].Digest != q.Digest {
		w.Fatalf("by both: %s, %+v", describe(c), c.Leases)
	}
	w.wantBy(e.propose(call("d", deploy, `{"n":3}`))[0], c.Leases[0].ID)
}

func editedTermsRefused(w *world) {
	w.policy.use(w, append(rules(), remembering(func(r *permission.Rule) {
		r.Tools, r.Remember = []string{note}, &permission.Remember{TTL: time.Hour, Uses: 2, Scope: []string{"args.customer"}}
	}))...)
	e := w.engine()
	sh, byRule := e.ask("a", shell, `{"command":"git push origin main"}`), e.ask("b", note, `{"customer":1,"cents":1}`)
	for name, c := range map[string]struct {
		q     *message.Call
		input string
		terms message.LeaseTerms
		want  *message.Error
	}{
		"a rule for the call as it was":    {sh, `{"command":"make release"}`, message.LeaseTerms{Rules: sh.Suggested}, message.ErrForbidden},
		"wider than the session":           {sh, `{"command":"make release"}`, message.LeaseTerms{Scope: message.ScopeSpace}, message.ErrForbidden},
		"a budget over what is edited out": {byRule, `{"customer":2}`, message.LeaseTerms{Budget: &message.Budget{Path: "args.cents", Limit: "5"}}, message.ErrInvalid},
		"without what must be the same":    {byRule, `{"cents":1}`, message.LeaseTerms{}, message.ErrForbidden},
		"more uses than the rule lets":     {byRule, `{"customer":2}`, message.LeaseTerms{Uses: 3}, message.ErrForbidden},
	} {
		if got := e.refusalOf("ann", editing(c.q, c.input, c.terms), c.want); got.Code != c.want.Code {
			w.Errorf("%s: %v", name, got)
		}
	}
	c := e.answers("ann", editing(sh, `{"command":"make release"}`, message.LeaseTerms{Uses: 1}))
	if len(c.Leases) != 1 || !strings.Contains(*c.Leases[0].Terms.Rules[0].RuleContent, "make") {
		w.Errorf("without rules of one's own those of the edited call count: %+v", c.Leases)
	}
}

func editRememberedByNobody(w *world) {
	w.policy.use(w, append(rules(), remembering(func(r *permission.Rule) {
		r.Tools, r.When = []string{note}, "args.n < 10"
	}), rule("large", func(r *permission.Rule) {
		r.Tools, r.When, r.Remember = []string{note}, "args.n >= 10 && args.n < 100", &permission.Remember{TTL: time.Hour}
	}), permission.Rule{Name: "never", Tools: []string{note}, Behavior: message.BehaviorDeny, When: "args.n >= 100"},
		remembering(func(r *permission.Rule) {
			r.Name, r.Tools, r.Approvers.ExcludeEditor = "four-eyes", []string{deploy}, true
		}))...)
	e := w.engine()
	e.refuses("ann", editing(e.ask("a", pay, `{"amount":500}`), `{"amount":5}`, message.LeaseTerms{}), message.ErrForbidden)
	q := e.ask("b", note, `{"n":1}`)
	e.refuses("ann", editing(q, `{"n":10}`, message.LeaseTerms{}), message.ErrForbidden)
	e.refuses("ann", editing(e.ask("c", deploy, `{"n":1}`), `{"n":2}`, message.LeaseTerms{}), message.ErrForbidden)
	c := e.answers("ann", editing(q, `{"n":100}`, message.LeaseTerms{}))
	w.wantResult(c, message.ToolResultDenied, "never")
	if len(c.Leases)+len(e.leases(true)) != 0 {
		w.Errorf("a denied call leaves %+v", e.leases(true))
	}
}

func editedPlainRules(w *world) {
	e := w.engine()
	accept := func(id message.CallID, input, edited string) message.Answer {
		a := edit(e.ask(id, shell, `{"command":"`+input+`"}`), `{"command":"`+edited+`"}`)
		a.Rules = w.known(a.Key).Suggested
		return a
	}
	e.refuses("ann", accept("a", "git push origin", "make all"), message.ErrForbidden)
	e.refuses("ann", accept("b", "git push && make all", "make some"), message.ErrForbidden) // the rule for git is not about it
	c := e.answers("ann", accept("c", "npm install x", "npm install y"))
	if len(c.Remember) != 1 || c.State == message.ToolCallAsking {
		w.Errorf("the edited call is %s and remembers %+v", describe(c), c.Remember)
	}
	if d := e.propose(call("d", shell, `{"command":"npm install z"}`))[0]; d.State == message.ToolCallAsking {
		w.Errorf("what the rule covers is %s", describe(d))
	}
}

// known is a call as the journal has it.
func (w *world) known(key message.Key) *message.Call {
	w.Helper()
	r, err := w.journal.Last(w.Context(), key)
	w.must(err)
	return r.Fact.Call
}
