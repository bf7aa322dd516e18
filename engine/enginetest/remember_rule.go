package enginetest

import (
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

func rememberRuleCases() []testCase[*world] {
	return []testCase[*world]{
		{"for the same customer, in the whole space", sameCustomer},
		{"scopes", scopes},
		{"no wider than the rule lets it", widerThanRule},
		{"a deny rule wins", denyWins},
		{"another rule asks as well", furtherRuleAsks},
		{"the rule has become stricter", stricterRule},
		{"the rule is gone", ruleGone},
		{"who gave it must still be one who may", grantorMustMay},
		{"what hides anything is not remembered", hiddenNotRemembered},
	}
}

// remembering is a rule that asks and lets the answer be remembered for an hour.
func remembering(change func(*permission.Rule)) permission.Rule {
	return rule("memory", func(r *permission.Rule) {
		r.Remember = &permission.Remember{TTL: time.Hour}
		if change != nil {
			change(r)
		}
	})
}

func sameCustomer(w *world) {
	w.policy.use(w, remembering(func(r *permission.Rule) {
		r.Remember = &permission.Remember{Scope: []string{"args.customer"}, TTL: time.Hour, Uses: 3}
	}))
	e := w.engine()
	q := e.ask("c", deploy, `{"customer":"k1","n":1}`)
	if l := q.Question.Requirement.Remember; l == nil || l.Uses != 3 || l.TTLMS != time.Hour.Milliseconds() || len(l.Same) != 1 {
		w.Errorf("the question does not say what may be remembered: %+v", l)
	}
	l := e.remember(q, message.LeaseTerms{Scope: message.ScopeSpace})
	if l.Terms.Uses != 3 || !l.Terms.Until.Equal(l.GrantedAt.Add(time.Hour)) || l.Same["args.customer"] != `"k1"` {
		w.Errorf("the lease is %+v", l)
	}
	w.wantBy(e.propose(call("d", deploy, `{"n":2,"customer":"k1"}`))[0], l.ID)
	w.wantBy(e.propose(call("e", deploy, `{"customer":"k2"}`))[0], "")
	w.wantBy(e.propose(call("f", deploy, `{"n":2}`))[0], "")
	w.wantBy(e.propose(call("g", askRemote, `{"customer":"k1"}`))[0], "") // another tool of the same rule
	w.wantBy(e.in("other", "s2", "x", call("d", deploy, `{"customer":"k1"}`)), l.ID)
}

func scopes(w *world) {
	w.policy.use(w, remembering(nil))
	e := w.engine()
	for i, c := range []struct {
		scope                                     message.LeaseScope
		session, agent, user, other, differentArg bool
	}{
		{message.ScopeCallLike, true, false, false, false, false},
		{message.ScopeSession, true, false, false, false, true},
		{message.ScopeAgent, true, true, false, false, true},
		{message.ScopeUser, true, true, true, false, true},
		{message.ScopeSpace, true, true, true, true, true},
	} {
		s := string(rune('a' + i))
		l := e.remember(e.in("bot", s, "agent", call("c", deploy, `{}`)), message.LeaseTerms{Scope: c.scope})
		for _, try := range []struct {
			runtime, session, agent, input string
			want                           bool
		}{
			{"bot", s, "agent", `{}`, c.session},
			{"bot", s, "agent", `{"n":1}`, c.differentArg},
			{"bot", s + "2", "agent", `{}`, c.agent},
			{"bot", s + "3", "another", `{}`, c.user},
			{"eve", s + "4", "agent", `{}`, c.other},
		} {
			want := message.LeaseID("")
			if try.want {
				want = l.ID
			}
			w.wantBy(e.in(try.runtime, try.session, try.agent, call(message.CallID("d"+try.input), deploy, try.input)), want)
		}
		w.must(second(e.ann().RevokeLease(w.Context(), message.RevokeLeaseRequest{ID: l.ID})))
	}
	a := approve(e.in("bot", "z", "", call("c", deploy, `{}`)))
	a.Remember = &message.LeaseTerms{Scope: message.ScopeAgent}
	_, err := e.ann().Answer(w.Context(), a)
	w.wantErr(err, message.ErrForbidden)
}

func widerThanRule(w *world) {
	w.policy.use(w, remembering(func(r *permission.Rule) {
		r.Remember = &permission.Remember{TTL: time.Hour, Uses: 2, Scope: []string{"args.customer"}}
	}))
	e := w.engine()
	q := e.ask("c", deploy, `{"customer":1}`)
	for _, t := range []message.LeaseTerms{{Uses: 3}, {Until: time.Now().Add(2 * time.Hour)}, {Rules: []message.PermissionRule{{ToolName: pay, Behavior: message.BehaviorAllow}}}} {
		a := approve(q)
		a.Remember = &t
		e.refuses("ann", a, message.ErrForbidden)
	}
	a := approve(e.ask("d", deploy, `{}`)) // what must be the same is not there
	a.Remember = &message.LeaseTerms{}
	e.refuses("ann", a, message.ErrForbidden)
}

func denyWins(w *world) {
	w.policy.use(w, remembering(nil))
	e := w.engine()
	l := e.remember(e.ask("c", deploy, `{}`), message.LeaseTerms{Scope: message.ScopeSpace})
	w.wantBy(e.propose(call("d", deploy, `{}`))[0], l.ID)
	w.policy.use(w, remembering(nil), noTool(deploy))
	w.wantResult(e.finished(e.propose(call("e", deploy, `{}`))[0].Key), message.ToolResultDenied, "no-deploy")
	w.policy.use(w, remembering(nil), permission.Rule{Name: "broken", Tools: []string{deploy}, Behavior: message.BehaviorDeny, When: "args.missing == 1"})
	if c := e.propose(call("f", deploy, `{}`))[0]; c.Decision.Lease != "" || c.State != message.ToolCallAsking && c.State != message.ToolCallFinished {
		w.Errorf("beside a deny rule that cannot be evaluated the call is %s", describe(c))
	}
}

func furtherRuleAsks(w *world) {
	w.policy.use(w, remembering(nil), rule("z-large", func(r *permission.Rule) { r.When = "args.n > 10" }))
	e := w.engine()
	l := e.remember(e.ask("c", deploy, `{"n":1}`), message.LeaseTerms{})
	w.wantBy(e.propose(call("d", deploy, `{"n":2}`))[0], l.ID)
	w.wantBy(e.propose(call("e", deploy, `{"n":11}`))[0], "")
}

func stricterRule(w *world) {
	w.policy.use(w, remembering(nil))
	e := w.engine()
	l := e.remember(e.ask("c", deploy, `{"k":1}`), message.LeaseTerms{})
	for i, stricter := range []*permission.Remember{nil, {TTL: time.Nanosecond}, {TTL: time.Hour, Uses: 5}, {TTL: time.Hour, Scope: []string{"args.k"}}} {
		w.policy.use(w, remembering(func(r *permission.Rule) { r.Remember = stricter }))
		w.wantBy(e.propose(call(message.CallID(rune('d'+i)), deploy, `{"k":1}`))[0], "")
	}
	w.policy.use(w, remembering(nil))
	w.wantBy(e.propose(call("z", deploy, `{"k":1}`))[0], l.ID)
}

// ruleGone: an answer to a rule answers nothing that no rule asks, nor the
// other way round.
func ruleGone(w *world) {
	w.policy.use(w, remembering(nil))
	e := w.engine()
	l := e.remember(e.ask("c", deploy, `{}`), message.LeaseTerms{Scope: message.ScopeSpace})
	w.policy.use(w)
	c := e.propose(call("d", deploy, `{}`))[0]
	if c.Decision.Lease == l.ID {
		w.Errorf("it answers a question that no rule asks: %s", describe(c))
	}
	w.policy.use(w, rules()...)
	free := e.remember(e.ask("e", deploy, `{}`), message.LeaseTerms{})
	w.wantBy(e.propose(call("f", deploy, `{}`))[0], free.ID)
	w.policy.use(w, rule("new", func(*permission.Rule) {}))
	w.wantBy(e.propose(call("g", deploy, `{}`))[0], "")
}

// grantorMustMay: whoever could not answer for a call has not answered for it
// beforehand.
func grantorMustMay(w *world) {
	w.policy.use(w, remembering(func(r *permission.Rule) { r.Approvers.ExcludeRequester = true }))
	e := w.engine(engine.WithDirectory(people))
	l := e.remember(e.ask("c", deploy, `{}`), message.LeaseTerms{Scope: message.ScopeSpace})
	w.wantBy(e.propose(call("d", deploy, `{}`))[0], l.ID)
	w.wantBy(e.in("ann", "s2", "agent", call("c", deploy, `{}`)), "")
	w.policy.use(w, remembering(func(r *permission.Rule) { r.Approvers.Users = []string{"bob"} }))
	w.wantBy(e.propose(call("e", deploy, `{}`))[0], "")
	w.policy.use(w, remembering(func(r *permission.Rule) { r.Quorum = 2 }))
	w.wantBy(e.propose(call("f", deploy, `{}`))[0], "")
	w.policy.use(w, remembering(func(r *permission.Rule) { r.Approvers.Users = []string{"ann", "bob"} }))
	w.wantBy(e.propose(call("g", deploy, `{}`))[0], l.ID)
}

// hiddenNotRemembered: what is counted, and what must be the same, would show
// what rules hide.
func hiddenNotRemembered(w *world) {
	hides := func(r *permission.Rule) { r.Redact = []string{"args.pin"} }
	w.policy.use(w, remembering(hides))
	e := w.engine()
	a := approve(e.ask("c", deploy, `{"pin":1}`))
	a.Remember = &message.LeaseTerms{}
	e.refuses("ann", a, message.ErrForbidden)
	w.policy.use(w, remembering(nil))
	l := e.remember(e.ask("d", deploy, `{}`), message.LeaseTerms{})
	w.wantBy(e.propose(call("e", deploy, `{}`))[0], l.ID)
	w.policy.use(w, remembering(hides))
	w.wantBy(e.propose(call("f", deploy, `{"pin":1}`))[0], "")
}
