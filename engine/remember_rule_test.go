package engine_test

import (
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func rememberRuleCases() []engineCase {
	return []engineCase{
		{"for the same customer, in the whole space", sameCustomer},
		{"scopes", scopes},
		{"no wider than the rule permits", widerThanRule},
		{"a deny rule wins", denyWins},
		{"another rule also asks", furtherRuleAsks},
		{"the rule has become stricter", stricterRule},
		{"the rule is gone", ruleGone},
		{"its grantor must still be entitled", grantorMustMay},
		{"rules that hide values cannot be remembered", hiddenNotRemembered},
	}
}

// remembering returns a rule that asks and lets the answer be remembered for an hour.
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
	if l := q.Request.Requirement.Remember; l == nil || l.Uses != 3 || l.TTLMS != time.Hour.Milliseconds() || len(l.Same) != 1 {
		w.Errorf("the approval request does not say what may be remembered: %+v", l)
	}
	s := e.remember(q, toolcall.StandingTerms{Scope: toolcall.ScopeSpace})
	if s.Terms.Uses != 3 || !s.Terms.Until.Equal(s.GrantedAt.Add(time.Hour)) || s.Same["args.customer"] != `"k1"` {
		w.Errorf("the standing approval is %+v", s)
	}
	w.wantBy(e.propose(call("d", deploy, `{"n":2,"customer":"k1"}`))[0], s.ID)
	w.wantBy(e.propose(call("e", deploy, `{"customer":"k2"}`))[0], "")
	w.wantBy(e.propose(call("f", deploy, `{"n":2}`))[0], "")
	w.wantBy(e.propose(call("g", askRemote, `{"customer":"k1"}`))[0], "") // another tool under the same rule
	w.wantBy(e.in("other", "s2", "x", call("d", deploy, `{"customer":"k1"}`)), s.ID)
}

func scopes(w *world) {
	w.policy.use(w, remembering(nil))
	e := w.engine()
	for i, c := range []struct {
		scope                                     toolcall.StandingScope
		session, agent, user, other, differentArg bool
	}{
		{toolcall.ScopeCallLike, true, false, false, false, false},
		{toolcall.ScopeSession, true, false, false, false, true},
		{toolcall.ScopeAgent, true, true, false, false, true},
		{toolcall.ScopeUser, true, true, true, false, true},
		{toolcall.ScopeSpace, true, true, true, true, true},
	} {
		s := string(rune('a' + i))
		sa := e.remember(e.in("bot", s, "agent", call("c", deploy, `{}`)), toolcall.StandingTerms{Scope: c.scope})
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
			want := toolcall.StandingID("")
			if try.want {
				want = sa.ID
			}
			w.wantBy(e.in(try.runtime, try.session, try.agent, call(message.CallID("d"+try.input), deploy, try.input)), want)
		}
		w.must(second(e.ann().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: sa.ID})))
	}
	resp := approve(e.in("bot", "z", "", call("c", deploy, `{}`)))
	resp.Remember = &toolcall.StandingTerms{Scope: toolcall.ScopeAgent}
	_, err := e.ann().SubmitResponse(w.Context(), resp)
	w.wantErr(err, message.ErrForbidden)
}

func widerThanRule(w *world) {
	w.policy.use(w, remembering(func(r *permission.Rule) {
		r.Remember = &permission.Remember{TTL: time.Hour, Uses: 2, Scope: []string{"args.customer"}}
	}))
	e := w.engine()
	q := e.ask("c", deploy, `{"customer":1}`)
	for _, t := range []toolcall.StandingTerms{{Uses: 3}, {Until: time.Now().Add(2 * time.Hour)}, {Rules: []message.PermissionRule{{ToolName: pay, Behavior: message.BehaviorAllow}}}} {
		resp := approve(q)
		resp.Remember = &t
		e.refuses("ann", resp, message.ErrForbidden)
	}
	resp := approve(e.ask("d", deploy, `{}`)) // the argument that must be the same is missing
	resp.Remember = &toolcall.StandingTerms{}
	e.refuses("ann", resp, message.ErrForbidden)
}

func denyWins(w *world) {
	w.policy.use(w, remembering(nil))
	e := w.engine()
	s := e.remember(e.ask("c", deploy, `{}`), toolcall.StandingTerms{Scope: toolcall.ScopeSpace})
	w.wantBy(e.propose(call("d", deploy, `{}`))[0], s.ID)
	w.policy.use(w, remembering(nil), noTool(deploy))
	w.wantResult(e.finished(e.propose(call("e", deploy, `{}`))[0].Key), message.ToolResultDenied, "no-deploy")
	w.policy.use(w, remembering(nil), permission.Rule{Name: "broken", Tools: []string{deploy}, Behavior: message.BehaviorDeny, When: "args.missing == 1"})
	if c := e.propose(call("f", deploy, `{}`))[0]; c.Decision.Standing != "" || c.State != message.ToolCallAsking && c.State != message.ToolCallFinished {
		w.Errorf("with a deny rule that cannot be evaluated the call is %s", describe(c))
	}
}

func furtherRuleAsks(w *world) {
	w.policy.use(w, remembering(nil), rule("z-large", func(r *permission.Rule) { r.When = "args.n > 10" }))
	e := w.engine()
	s := e.remember(e.ask("c", deploy, `{"n":1}`), toolcall.StandingTerms{})
	w.wantBy(e.propose(call("d", deploy, `{"n":2}`))[0], s.ID)
	w.wantBy(e.propose(call("e", deploy, `{"n":11}`))[0], "")
}

func stricterRule(w *world) {
	w.policy.use(w, remembering(nil))
	e := w.engine()
	s := e.remember(e.ask("c", deploy, `{"k":1}`), toolcall.StandingTerms{})
	for i, stricter := range []*permission.Remember{nil, {TTL: time.Nanosecond}, {TTL: time.Hour, Uses: 5}, {TTL: time.Hour, Scope: []string{"args.k"}}} {
		w.policy.use(w, remembering(func(r *permission.Rule) { r.Remember = stricter }))
		w.wantBy(e.propose(call(message.CallID(rune('d'+i)), deploy, `{"k":1}`))[0], "")
	}
	w.policy.use(w, remembering(nil))
	w.wantBy(e.propose(call("z", deploy, `{"k":1}`))[0], s.ID)
}

// ruleGone checks that a standing approval given for a rule does not apply where no rule asks,
// nor the other way round.
func ruleGone(w *world) {
	w.policy.use(w, remembering(nil))
	e := w.engine()
	s := e.remember(e.ask("c", deploy, `{}`), toolcall.StandingTerms{Scope: toolcall.ScopeSpace})
	w.policy.use(w)
	c := e.propose(call("d", deploy, `{}`))[0]
	if c.Decision.Standing == s.ID {
		w.Errorf("the standing approval applies to a call about which no rule asks: %s", describe(c))
	}
	w.policy.use(w, rules()...)
	free := e.remember(e.ask("e", deploy, `{}`), toolcall.StandingTerms{})
	w.wantBy(e.propose(call("f", deploy, `{}`))[0], free.ID)
	w.policy.use(w, rule("new", func(*permission.Rule) {}))
	w.wantBy(e.propose(call("g", deploy, `{}`))[0], "")
}

// grantorMustMay checks that a standing approval does not apply to a call that its grantor
// could not approve.
func grantorMustMay(w *world) {
	w.policy.use(w, remembering(func(r *permission.Rule) { r.Approvers.ExcludeRequester = true }))
	e := w.engine(engine.WithDirectory(people))
	s := e.remember(e.ask("c", deploy, `{}`), toolcall.StandingTerms{Scope: toolcall.ScopeSpace})
	w.wantBy(e.propose(call("d", deploy, `{}`))[0], s.ID)
	w.wantBy(e.in("ann", "s2", "agent", call("c", deploy, `{}`)), "")
	w.policy.use(w, remembering(func(r *permission.Rule) { r.Approvers.Users = []string{"bob"} }))
	w.wantBy(e.propose(call("e", deploy, `{}`))[0], "")
	w.policy.use(w, remembering(func(r *permission.Rule) { r.Quorum = 2 }))
	w.wantBy(e.propose(call("f", deploy, `{}`))[0], "")
	w.policy.use(w, remembering(func(r *permission.Rule) { r.Approvers.Users = []string{"ann", "bob"} }))
	w.wantBy(e.propose(call("g", deploy, `{}`))[0], s.ID)
}

// hiddenNotRemembered checks that nothing is remembered where rules hide values: the counted
// amounts, and the arguments that must be the same, would reveal them.
func hiddenNotRemembered(w *world) {
	hides := func(r *permission.Rule) { r.Redact = []string{"args.pin"} }
	w.policy.use(w, remembering(hides))
	e := w.engine()
	resp := approve(e.ask("c", deploy, `{"pin":1}`))
	resp.Remember = &toolcall.StandingTerms{}
	e.refuses("ann", resp, message.ErrForbidden)
	w.policy.use(w, remembering(nil))
	s := e.remember(e.ask("d", deploy, `{}`), toolcall.StandingTerms{})
	w.wantBy(e.propose(call("e", deploy, `{}`))[0], s.ID)
	w.policy.use(w, remembering(hides))
	w.wantBy(e.propose(call("f", deploy, `{"pin":1}`))[0], "")
}

func rememberEditCases() []engineCase {
	return []engineCase{
		{"on terms", editRemembered},
		{"by the other approvers whom a quorum needs", editRememberedByAll},
		{"terms are checked against the edited call", editedTermsRefused},
		{"a call without an approval request, or one for others", editRememberedByNoOne},
		{"plain rules cover the edited call", editedPlainRules},
	}
}

// editing approves a call with other arguments and terms.
func editing(q *toolcall.Call, input string, t toolcall.StandingTerms) toolcall.Response {
	resp := edit(q, input)
	resp.Remember = &t
	return resp
}

func editRemembered(w *world) {
	w.policy.use(w, remembering(func(r *permission.Rule) {
		r.Remember = &permission.Remember{Scope: []string{"args.customer"}, TTL: time.Hour, Uses: 3}
	}))
	e := w.engine()
	q := e.ask("c", deploy, `{"customer":"k1","cents":9000}`)
	c := e.answers("ann", editing(q, `{"customer":"k2","cents":10}`, toolcall.StandingTerms{Uses: 2, Budget: &toolcall.Budget{Path: "args.cents", Limit: "25"}}))
	if len(c.StandingApprovals) != 1 || c.Digest == q.Digest {
		w.Fatalf("the edited call is %s with the standing approvals %+v", describe(c), c.StandingApprovals)
	}
	s := e.standingApproval(c.StandingApprovals[0].ID)
	if s.Digest != c.Digest || s.Same["args.customer"] != `"k2"` || s.Left != "25" || len(s.GrantedBy) != 1 || s.GrantedBy[0].Made != c.Digest {
		w.Errorf("the standing approval is %+v, want one for the edited call %s", s, c.Digest)
	}
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, `"k2"`)
	w.wantBy(e.propose(call("d", deploy, `{"customer":"k2","cents":20}`))[0], s.ID)
	w.wantBy(e.propose(call("e", deploy, `{"customer":"k1","cents":1}`))[0], "")
	w.wantBy(e.propose(call("f", deploy, `{"customer":"k2","cents":6}`))[0], "")
	w.engine().standingApproval(s.ID) // another replica can read it
}

// editRememberedByAll checks that the editor's wish to remember counts like their approval.
func editRememberedByAll(w *world) {
	w.policy.use(w, remembering(func(r *permission.Rule) { r.Quorum = 2 }))
	e := w.engine()
	terms := toolcall.StandingTerms{Uses: 2}
	q := e.answers("ann", editing(e.ask("e", deploy, `{"n":1}`), `{"n":2}`, terms))
	if c := e.answers("bob", approve(q)); len(c.StandingApprovals) != 0 {
		w.Errorf("only by the editor: %+v", c.StandingApprovals)
	}
	q = e.answers("ann", editing(e.ask("c", deploy, `{"n":1}`), `{"n":2}`, terms))
	w.wantMissing(q, ":1")
	resp := approve(q)
	resp.Remember = &terms
	c := e.answers("bob", resp)
	if len(c.StandingApprovals) != 1 || len(c.StandingApprovals[0].GrantedBy) != 2 || c.StandingApprovals[0].Digest != q.Digest {
		w.Fatalf("by both: %s, %+v", describe(c), c.StandingApprovals)
	}
	w.wantBy(e.propose(call("d", deploy, `{"n":3}`))[0], c.StandingApprovals[0].ID)
}

func editedTermsRefused(w *world) {
	w.policy.use(w, append(rules(), remembering(func(r *permission.Rule) {
		r.Tools, r.Remember = []string{note}, &permission.Remember{TTL: time.Hour, Uses: 2, Scope: []string{"args.customer"}}
	}))...)
	e := w.engine()
	sh, byRule := e.ask("a", shell, `{"command":"git push origin main"}`), e.ask("b", note, `{"customer":1,"cents":1}`)
	for name, c := range map[string]struct {
		q     *toolcall.Call
		input string
		terms toolcall.StandingTerms
		want  *message.Error
	}{
		"a rule for the call as it was":    {sh, `{"command":"make release"}`, toolcall.StandingTerms{Rules: sh.Suggested}, message.ErrForbidden},
		"wider than the session":           {sh, `{"command":"make release"}`, toolcall.StandingTerms{Scope: toolcall.ScopeSpace}, message.ErrForbidden},
		"a budget over what is edited out": {byRule, `{"customer":2}`, toolcall.StandingTerms{Budget: &toolcall.Budget{Path: "args.cents", Limit: "5"}}, message.ErrInvalid},
		"without what must be the same":    {byRule, `{"cents":1}`, toolcall.StandingTerms{}, message.ErrForbidden},
		"more uses than permitted":         {byRule, `{"customer":2}`, toolcall.StandingTerms{Uses: 3}, message.ErrForbidden},
	} {
		if got := e.refusalOf("ann", editing(c.q, c.input, c.terms), c.want); got.Code != c.want.Code {
			w.Errorf("%s: %v", name, got)
		}
	}
	c := e.answers("ann", editing(sh, `{"command":"make release"}`, toolcall.StandingTerms{Uses: 1}))
	if len(c.StandingApprovals) != 1 || !strings.Contains(*c.StandingApprovals[0].Terms.Rules[0].RuleContent, "make") {
		w.Errorf("an edit without rules must remember none, not those of the edited call: %+v", c.StandingApprovals)
	}
}

func editRememberedByNoOne(w *world) {
	w.policy.use(w, append(rules(), remembering(func(r *permission.Rule) {
		r.Tools, r.When = []string{note}, "args.n < 10"
	}), rule("large", func(r *permission.Rule) {
		r.Tools, r.When, r.Remember = []string{note}, "args.n >= 10 && args.n < 100", &permission.Remember{TTL: time.Hour}
	}), permission.Rule{Name: "never", Tools: []string{note}, Behavior: message.BehaviorDeny, When: "args.n >= 100"},
		remembering(func(r *permission.Rule) {
			r.Name, r.Tools, r.Approvers.ExcludeEditor = "four-eyes", []string{deploy}, true
		}))...)
	e := w.engine()
	e.refuses("ann", editing(e.ask("a", pay, `{"amount":500}`), `{"amount":5}`, toolcall.StandingTerms{}), message.ErrForbidden)
	plain := edit(e.ask("d", pay, `{"amount":500}`), `{"amount":5}`)
	if plain.Rules = w.known(plain.Key).Suggested; len(plain.Rules) == 0 {
		w.Fatal("no rule is suggested")
	}
	e.refuses("ann", plain, message.ErrForbidden)
	q := e.ask("b", note, `{"n":1}`)
	e.refuses("ann", editing(q, `{"n":10}`, toolcall.StandingTerms{}), message.ErrForbidden)
	e.refuses("ann", editing(e.ask("c", deploy, `{"n":1}`), `{"n":2}`, toolcall.StandingTerms{}), message.ErrForbidden)
	e.refuses("ann", editing(q, `{"n":100}`, toolcall.StandingTerms{}), message.ErrForbidden)
	if len(e.standingApprovals(true)) != 0 {
		w.Errorf("a denied edit leaves the standing approvals %+v", e.standingApprovals(true))
	}
}

func editedPlainRules(w *world) {
	e := w.engine()
	accept := func(id message.CallID, input, edited string) toolcall.Response {
		resp := edit(e.ask(id, shell, `{"command":"`+input+`"}`), `{"command":"`+edited+`"}`)
		resp.Rules = w.known(resp.Key).Suggested
		return resp
	}
	e.refuses("ann", accept("a", "git push origin", "make all"), message.ErrForbidden)
	e.refuses("ann", accept("b", "git push && make all", "make some"), message.ErrForbidden) // the rule for git does not cover it
	c := e.answers("ann", accept("c", "npm install x", "npm install y"))
	if len(c.Remember) != 1 || c.State == message.ToolCallAsking {
		w.Errorf("the edited call is %s and remembers %+v", describe(c), c.Remember)
	}
	if d := e.propose(call("d", shell, `{"command":"npm install z"}`))[0]; d.State == message.ToolCallAsking {
		w.Errorf("a call that the rule covers is %s", describe(d))
	}
}

// known returns a call from the journal.
func (w *world) known(key toolcall.Key) *toolcall.Call {
	w.Helper()
	r, err := w.journal.Last(w.Context(), key)
	w.must(err)
	return r.Record.Call
}

func rememberPlainCases() []engineCase {
	return []engineCase{
		{"they are listed, named and revoked like any other", plainIsStandingApproval},
		{"revoked where another replica lags", plainRevokedElsewhere},
		{"two of them together", plainTogether},
		{"in addition to a policy rule that allows", plainNotNeeded},
		{"a remembered command covers no other command", plainOfACommand},
		{"when the journal cannot be read", plainUnreadable},
		{"of a call that hides arguments", plainHidden},
		{"a decision is explained with its standing approvals", standingApprovalsExplained},
	}
}

// accept approves a call with the rules that its approval request suggests, and returns the
// resulting standing approval.
func (r *replica) accept(q *toolcall.Call) *toolcall.StandingApproval {
	r.w.Helper()
	resp := approve(q)
	resp.Rules = q.Suggested
	c := r.answers("ann", resp)
	s, ok := c.PlainStandingApproval()
	if !ok || len(c.Remember) == 0 {
		r.w.Fatalf("the approved call remembers %+v", c.Remember)
	}
	return r.standingApproval(s.ID)
}

func command(id message.CallID, line string) message.ToolCallBlock {
	return call(id, shell, `{"command":"`+line+`"}`)
}

func (r *replica) askCommand(id message.CallID, line string) *toolcall.Call {
	r.w.Helper()
	return r.ask(id, shell, `{"command":"`+line+`"}`)
}

// A remembered command runs again, but its program does not run with another namespace,
// sub-command, option or target.
func plainOfACommand(w *world) {
	e := w.engine()
	for line, others := range map[string][]string{
		"kubectl -n dev get pods":   {"kubectl -n prod delete deploy --all", "kubectl -n prod get pods", "kubectl -n dev get pods -A", "kubectl -n dev get secrets"},
		"git --no-pager fetch":      {"git --no-pager push", "git --no-pager fetch --all"},
		"npm run lint && make dist": {"npm run lint && make deploy", "npm run lint; make dist", "make dist"},
	} {
		id := message.CallID(strings.Map(func(r rune) rune { return max(r, '-') }, strings.ReplaceAll(line, "&", "-")))
		q := e.ask(id, bash, `{"command":"`+line+`"}`)
		if len(q.Suggested) != 1 {
			w.Fatalf("%s: the suggested rules are %v", line, q.Suggested)
		}
		s := e.accept(q)
		again := e.propose(call(id+"-2", bash, `{"command":"`+line+`"}`))[0]
		w.wantBy(again, s.ID)
		w.wantResult(e.finished(again.Key), message.ToolResultSuccess, "ran")
		for i, other := range others {
			c := e.propose(call(id+message.CallID("-other-"+strconv.Itoa(i)), bash, `{"command":"`+other+`"}`))[0]
			if c.State != message.ToolCallAsking {
				w.Errorf("after %q was remembered, %q is %s", line, other, c.State)
			}
		}
	}
}

func plainIsStandingApproval(w *world) {
	e := w.engine()
	s := e.accept(e.askCommand("c", "npm install x"))
	if !s.Plain || s.Terms.Scope != toolcall.ScopeSession || len(s.Terms.Rules) != 1 || s.GrantedBy[0].By.Name != "ann" || s.Counted() {
		w.Errorf("the standing approval is %+v", s)
	}
	if all := e.standingApprovals(false); len(all) != 1 || all[0].ID != s.ID {
		w.Errorf("listed: %+v", all)
	}
	d := e.propose(command("d", "npm install y"))[0]
	w.wantBy(d, s.ID)
	w.wantResult(e.finished(d.Key), message.ToolResultSuccess, "ran")
	w.wantPath(d.Key, "propose+allow start result")
	e.stop()
	later := w.engine()
	w.wantBy(later.propose(command("e", "npm install y"))[0], s.ID)
	_, err := later.bob().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: s.ID})
	w.wantErr(err, message.ErrForbidden)
	w.must(second(later.ann().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: s.ID, Reason: "over"})))
	w.wantBy(later.propose(command("f", "npm install y"))[0], "")
	w.wantBy(w.engine().propose(command("g", "npm install y"))[0], "")
	if len(later.standingApprovals(false)) != 0 || later.standingApproval(s.ID).Revoked == nil {
		w.Errorf("after its end: %+v", later.standingApproval(s.ID))
	}
}

func plainRevokedElsewhere(w *world) {
	e, other := w.engine(), w.engine()
	s := e.accept(e.askCommand("c", "npm install x"))
	other.knows(s)
	w.wantBy(other.propose(command("d", "npm install y"))[0], s.ID)
	catchUp := other.cord.lag()
	w.must(second(e.operator().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: s.ID})))
	w.wantBy(other.propose(command("e", "npm install y"))[0], "")
	catchUp()
}

// plainTogether covers the parts of a line by two different answers. The decision names both,
// and it no longer applies when either of them is revoked.
func plainTogether(w *world) {
	e := w.engine()
	one, two := e.accept(e.askCommand("a", "npm install x")), e.accept(e.askCommand("b", "make all"))
	c := e.propose(command("c", "npm install y && make all"))[0]
	w.wantBy(c, one.ID)
	if on := c.Decision.StandingApprovals(); len(on) != 2 || on[1] != two.ID {
		w.Errorf("the decision relies on %v, want %s and %s", on, one.ID, two.ID)
	}
	w.must(second(e.operator().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: two.ID})))
	w.wantBy(e.propose(command("d", "npm install y && make all"))[0], "")
	w.wantBy(e.propose(command("e", "npm install y"))[0], one.ID)
}

func plainNotNeeded(w *world) {
	e := w.engine()
	e.accept(e.ask("a", deploy, `{}`))
	w.policy.use(w, permission.Rule{Name: "free", Tools: []string{deploy}, Behavior: message.BehaviorAllow})
	c := e.propose(call("b", deploy, `{}`))[0]
	if c.Decision.Rule != "free" || c.Decision.Standing != "" {
		w.Errorf("the call is allowed by %+v", c.Decision)
	}
}

func plainUnreadable(w *world) {
	e := w.engine()
	s := e.accept(e.askCommand("a", "npm install x"))
	e.cord.onLast(func(key toolcall.Key) error {
		if key.Entity != "" {
			return cutError("last")
		}
		return nil
	})
	w.wantBy(e.propose(command("b", "npm install y"))[0], "")
	e.cord.onLast(nil)
	w.wantBy(e.propose(command("c", "npm install y"))[0], s.ID)
}

func plainHidden(w *world) {
	w.policy.use(w, pinRule())
	e := w.engine()
	resp := approve(e.ask("a", deploy, `{"pin":1234}`))
	resp.Rules = []message.PermissionRule{{ToolName: deploy, Behavior: message.BehaviorAllow}}
	if err := e.refusalOf("ann", resp, message.ErrForbidden); !strings.Contains(err.What, "hide") {
		w.Errorf("refused with %q", err.What)
	}
}

func standingApprovalsExplained(w *world) {
	w.policy.use(w, remembering(nil), rule("never", func(r *permission.Rule) { r.Tools, r.Redact = []string{note}, []string{"args.pin"} }))
	e := w.engine()
	s := e.remember(e.ask("c", deploy, `{}`), toolcall.StandingTerms{Uses: 3, Scope: toolcall.ScopeUser})
	c := e.propose(call("d", deploy, `{"n":1}`))[0]
	for _, p := range []*engine.Port{e.ann(), e.operator(), w.engine().as(toolcall.RoleAuditor, "eve")} {
		x, err := p.Explain(w.Context(), toolcall.ExplainRequest{Key: c.Key})
		w.must(err)
		if len(x.StandingApprovals) != 1 || x.StandingApprovals[0].Standing.ID != s.ID || x.StandingApprovals[0].State != toolcall.StandingActive || *x.StandingApprovals[0].UsesLeft != 2 || x.StandingApprovals[0].Standing.GrantedBy[0].By.Name != "ann" || x.StandingApprovals[0].Standing.Terms.Until.IsZero() {
			w.Errorf("the standing approvals are %+v", x.StandingApprovals)
		}
		if x.Decision.Standing != s.ID || !strings.Contains(string(x.Trace), `"rule":"memory"`) || !strings.Contains(string(x.Trace), `"decision":"ask"`) {
			w.Errorf("the decision is explained with %+v, %s", x.Decision, x.Trace)
		}
	}
	_, err := e.ann().Explain(w.Context(), toolcall.ExplainRequest{Key: w.key("unknown")})
	w.wantErr(err, message.ErrNotFound)
	q := e.ask("e", note, `{"pin":"`+secret+`"}`)
	x, err := e.ann().Explain(w.Context(), toolcall.ExplainRequest{Key: q.Key})
	w.must(err)
	if len(x.Trace) == 0 || strings.Contains(string(x.Trace), secret) {
		w.Errorf("the trace is %s", x.Trace)
	}
	w.policy.use(w, rule("open", func(r *permission.Rule) { r.Tools, r.When = []string{note}, `args.pin == "x"` }))
	x, err = e.ann().Explain(w.Context(), toolcall.ExplainRequest{Key: q.Key})
	w.must(err)
	if x.Trace != nil || x.Withheld == "" {
		w.Errorf("the explanation by a policy that hides nothing is %s", x.Trace)
	}
}
