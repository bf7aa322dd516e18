package enginetest

import (
	"strings"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

func rememberPlainCases() []testCase[*world] {
	return []testCase[*world]{
		{"they are listed, named and revoked like any other", plainIsLease},
		{"revoked where another replica lags", plainRevokedElsewhere},
		{"two of them together", plainTogether},
		{"beside a rule of the policy that allows", plainNotNeeded},
		{"when the journal cannot be read", plainUnreadable},
		{"of a call that hides arguments", plainHidden},
		{"a decision is explained with its leases", leasesExplained},
	}
}

// accept approves a call with the rules that its question suggests, and gives
// the lease that this makes.
func (r *replica) accept(q *message.Call) *message.Lease {
	r.w.Helper()
	a := approve(q)
	a.Rules = q.Suggested
	c := r.answers("ann", a)
	l, ok := c.PlainLease()
	if !ok || len(c.Remember) == 0 {
		r.w.Fatalf("the approved call remembers %+v", c.Remember)
	}
	return r.lease(l.ID)
}

func command(id message.CallID, line string) message.ToolCallBlock {
	return call(id, shell, `{"command":"`+line+`"}`)
}

func (r *replica) askCommand(id message.CallID, line string) *message.Call {
	r.w.Helper()
	return r.ask(id, shell, `{"command":"`+line+`"}`)
}

func plainIsLease(w *world) {
	e := w.engine()
	l := e.accept(e.askCommand("c", "npm install x"))
	if !l.Plain || l.Terms.Scope != message.ScopeSession || len(l.Terms.Rules) != 1 || l.GrantedBy[0].By.Name != "ann" || l.Counted() {
		w.Errorf("the lease is %+v", l)
	}
	if all := e.leases(false); len(all) != 1 || all[0].ID != l.ID {
		w.Errorf("listed: %+v", all)
	}
	d := e.propose(command("d", "npm install y"))[0]
	w.wantBy(d, l.ID)
	w.wantResult(e.finished(d.Key), message.ToolResultSuccess, "ran")
	w.wantPath(d.Key, "propose+allow start result")
	e.stop()
	later := w.engine()
	w.wantBy(later.propose(command("e", "npm install y"))[0], l.ID)
	_, err := later.bob().RevokeLease(w.Context(), message.RevokeLeaseRequest{ID: l.ID})
	w.wantErr(err, message.ErrForbidden)
	w.must(second(later.ann().RevokeLease(w.Context(), message.RevokeLeaseRequest{ID: l.ID, Reason: "over"})))
	w.wantBy(later.propose(command("f", "npm install y"))[0], "")
	w.wantBy(w.engine().propose(command("g", "npm install y"))[0], "")
	if len(later.leases(false)) != 0 || later.lease(l.ID).Revoked == nil {
		w.Errorf("after its end: %+v", later.lease(l.ID))
	}
}

func plainRevokedElsewhere(w *world) {
	e, other := w.engine(), w.engine()
	l := e.accept(e.askCommand("c", "npm install x"))
	other.knows(l)
	w.wantBy(other.propose(command("d", "npm install y"))[0], l.ID)
	catchUp := other.cord.lag()
	w.must(second(e.operator().RevokeLease(w.Context(), message.RevokeLeaseRequest{ID: l.ID})))
	w.wantBy(other.propose(command("e", "npm install y"))[0], "")
	catchUp()
}

// plainTogether: of a line of which each part is covered by another answer the
// decision names both, and it ends with either of them.
func plainTogether(w *world) {
	e := w.engine()
	one, two := e.accept(e.askCommand("a", "npm install x")), e.accept(e.askCommand("b", "make all"))
	c := e.propose(command("c", "npm install y && make all"))[0]
	w.wantBy(c, one.ID)
	if on := c.Decision.Leases(); len(on) != 2 || on[1] != two.ID {
		w.Errorf("it relies on %v, want %s and %s", on, one.ID, two.ID)
	}
	w.must(second(e.operator().RevokeLease(w.Context(), message.RevokeLeaseRequest{ID: two.ID})))
	w.wantBy(e.propose(command("d", "npm install y && make all"))[0], "")
	w.wantBy(e.propose(command("e", "npm install y"))[0], one.ID)
}

func plainNotNeeded(w *world) {
	e := w.engine()
	e.accept(e.ask("a", deploy, `{}`))
	w.policy.use(w, permission.Rule{Name: "free", Tools: []string{deploy}, Behavior: message.BehaviorAllow})
	c := e.propose(call("b", deploy, `{}`))[0]
	if c.Decision.Rule != "free" || c.Decision.Lease != "" {
		w.Errorf("it is allowed by %+v", c.Decision)
	}
}

func plainUnreadable(w *world) {
	e := w.engine()
	l := e.accept(e.askCommand("a", "npm install x"))
	e.cord.onLast(func(key message.Key) error {
		if key.Lease != "" {
			return cutError("last")
		}
		return nil
	})
	w.wantBy(e.propose(command("b", "npm install y"))[0], "")
	e.cord.onLast(nil)
	w.wantBy(e.propose(command("c", "npm install y"))[0], l.ID)
}

func plainHidden(w *world) {
	w.policy.use(w, pinRule())
	e := w.engine()
	a := approve(e.ask("a", deploy, `{"pin":1234}`))
	a.Rules = []message.PermissionRule{{ToolName: deploy, Behavior: message.BehaviorAllow}}
	if err := e.refusalOf("ann", a, message.ErrForbidden); !strings.Contains(err.What, "hide") {
		w.Errorf("refused with %q", err.What)
	}
}

func leasesExplained(w *world) {
	w.policy.use(w, remembering(nil), rule("never", func(r *permission.Rule) { r.Tools, r.Redact = []string{note}, []string{"args.pin"} }))
	e := w.engine()
	l := e.remember(e.ask("c", deploy, `{}`), message.LeaseTerms{Uses: 3, Scope: message.ScopeUser})
	c := e.propose(call("d", deploy, `{"n":1}`))[0]
	for _, p := range []*engine.Port{e.ann(), e.operator(), w.engine().as(message.RoleAuditor, "eve")} {
		x, err := p.Explain(w.Context(), message.ExplainRequest{Key: c.Key})
		w.must(err)
		if len(x.Leases) != 1 || x.Leases[0].Lease.ID != l.ID || x.Leases[0].State != message.LeaseActive || *x.Leases[0].UsesLeft != 2 || x.Leases[0].Lease.GrantedBy[0].By.Name != "ann" || x.Leases[0].Lease.Terms.Until.IsZero() {
			w.Errorf("the leases are %+v", x.Leases)
		}
		if x.Decision.Lease != l.ID || !strings.Contains(string(x.Trace), `"rule":"memory"`) || !strings.Contains(string(x.Trace), `"decision":"ask"`) {
			w.Errorf("it is explained with %+v, %s", x.Decision, x.Trace)
		}
	}
	_, err := e.ann().Explain(w.Context(), message.ExplainRequest{Key: w.key("unknown")})
	w.wantErr(err, message.ErrNotFound)
	q := e.ask("e", note, `{"pin":"`+secret+`"}`)
	x, err := e.ann().Explain(w.Context(), message.ExplainRequest{Key: q.Key})
	w.must(err)
	if len(x.Trace) == 0 || strings.Contains(string(x.Trace), secret) {
		w.Errorf("the trace is %s", x.Trace)
	}
	w.policy.use(w, rule("open", func(r *permission.Rule) { r.Tools, r.When = []string{note}, `args.pin == "x"` }))
	x, err = e.ann().Explain(w.Context(), message.ExplainRequest{Key: q.Key})
	w.must(err)
	if x.Trace != nil || x.Withheld == "" {
		w.Errorf("a policy that hides nothing explains %s", x.Trace)
	}
}
