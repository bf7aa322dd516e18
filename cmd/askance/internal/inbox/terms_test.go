package inbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// The keys that move in a form and delete a line.
const (
	down  = "\x1b[B"
	up    = "\x1b[A"
	right = "\x1b[C"
	ctrlU = "\x15"
)

// A suggested rule is narrowed and limited before it is accepted. It then applies to exactly the
// narrowed calls.
func TestRememberEditedRule(t *testing.T) {
	w := newWorld(t)
	c := w.ask("call_1", "Write", `{"file_path":"/srv/docs/a.md"}`)
	x := w.inbox(80, 24)
	x.See("> ")
	x.Press(enter, "/srv/docs/a.md")
	x.Press("G", "1 [ ] allow Write: /srv/docs/**")
	golden(t, "terms", x.Press("w", "Scope: < session >", "Until", "offered: /srv/docs/**", "> /srv/docs/**"))
	x.Press(" ", "< call_like >")
	x.Press(right, "< session >")
	x.Press(down+"tomorrow"+down+"2"+down+down, "> tomorrow")
	x.Press(ctrlU+"/srv/docs/a**", "> /srv/docs/a**")
	x.Press(ctrlS, "Cannot continue: the end is \"tomorrow\"")
	x.Press(up+up+up+ctrlU+"2h", "> 2h")
	golden(t, "terms-done", x.Press(ctrlS, "1 [x] allow Write: /srv/docs/a** (yours; offered:", "scope session, until 2h, uses 2"))
	golden(t, "terms-confirm", x.Press("a", "remember allow Write: /srv/docs/a**", "for 2 later"))
	x.Press("  G", "y approve  Y")
	x.Press("y", "approved by ann")
	w.voted(c, "ann", toolcall.ResponseApprove)
	s := w.standingApproval(false)
	if left := time.Until(s.Terms.Until); s.Terms.Uses != 2 || left > 2*time.Hour || left < time.Hour || len(s.Terms.Rules) != 1 || *s.Terms.Rules[0].RuleContent != "/srv/docs/a**" {
		t.Errorf("remembered %+v", s.Terms)
	}
	if got := w.proposes("call_2", "Write", `{"file_path":"/srv/docs/ab.md"}`); got.State == message.ToolCallAsking {
		t.Errorf("a covered call is %s", got.State)
	}
	if got := w.proposes("call_3", "Write", `{"file_path":"/srv/docs/b.md"}`); got.State != message.ToolCallAsking {
		t.Errorf("a call outside the narrowed rule is %s", got.State)
	}
}

// Terms that the engine refuses can be corrected and sent again.
func TestRememberTooWide(t *testing.T) {
	w := newWorld(t)
	w.ask("call_1", "Write", `{"file_path":"/srv/docs/a.md"}`)
	x := w.inbox(80, 40)
	x.See("> ")
	x.Press(enter, "1 [ ] allow Write: /srv/docs/**")
	x.Press("w", "> /srv/docs/**")
	x.Press(down+down+down+down+ctrlU+"/srv/**"+enter, "1 [x] allow Write: /srv/** (yours")
	x.Press("a", "y approve  Y")
	x.Press("y", "Not accepted", "not proven to be narrower")
	x.Press("w", "> /srv/**")
	x.Press(down+down+down+down+ctrlU+"/srv/docs/a.md"+enter, "/srv/docs/a.md (yours")
	x.Press("a", "y approve  Y")
	x.Press("y", "approved by ann")
	if s := w.standingApproval(false); *s.Terms.Rules[0].RuleContent != "/srv/docs/a.md" {
		t.Errorf("remembered %+v", s.Terms)
	}
}

// A rule of the policy limits the terms of its standing approvals.
func TestRememberWithinTheRule(t *testing.T) {
	w := newWorld(t)
	w.ask("call_1", "buy", `{"cents":300,"shop":"acme"}`)
	x := w.inbox(80, 30)
	x.See("> ")
	x.Press(enter, "1 [ ] allow buy: every call")
	golden(t, "terms-limits", x.Press("w", "for at most 2h, for 9 later calls,", "the same args.shop"))
	x.Press("   "+right, "< call_like >") // cycle through the five scopes
	x.Press("    ", "< space >")
	x.Press(down+down+"3"+down+"args.cents=500"+ctrlS, "scope space, uses 3, budget args.cents=500")
	x.Press("a", "scope space", "for 3 later calls, up to 500 of args.cents")
	x.Press("  G", "y approve  Y")
	x.Press("y", "approved by ann")
	for _, tc := range []struct {
		id, input string
		asks      bool
	}{
		{"call_2", `{"cents":400,"shop":"acme"}`, false},
		{"call_3", `{"cents":400,"shop":"acme"}`, true}, // above the budget
		{"call_4", `{"cents":1,"shop":"other"}`, true},
	} {
		if c := w.proposes(tc.id, "buy", tc.input); (c.State == message.ToolCallAsking) != tc.asks {
			t.Errorf("%s is %s", tc.id, c.State)
		}
	}
}

// If nothing can be remembered, the inbox says why; 0 clears the choice.
func TestRememberNothing(t *testing.T) {
	w := newWorld(t)
	c := w.pay("call_1", 1900)
	x := w.inbox(80, 30)
	x.See("> ")
	x.Press(enter, "1 [ ] allow pay")
	x.Press("w", "The rule permits no standing approval with limits")
	x.Press("1", "1 [x] allow pay")
	x.Press("0", "1 [ ] allow pay")
	if screen := x.Press("a", "y approve  Y"); strings.Contains(screen, "remember") {
		t.Errorf("the screen offers to remember something:\n%s", screen)
	}
	x.Press("y", "approved by ann")
	if now := w.voted(c, "ann", toolcall.ResponseApprove); len(now.Remember) != 0 || len(now.StandingApprovals) != 0 {
		t.Errorf("remembered %+v %+v", now.Remember, now.StandingApprovals)
	}
}

// A standing approval that is made with an edit is compared with the edited call.
func TestRememberWithEdit(t *testing.T) {
	w := newWorld(t)
	w.ask("call_1", "buy", `{"cents":300,"shop":"acme"}`)
	x := w.inbox(80, 40, "EDITOR=sed -i s/acme/emca/")
	x.See("> ")
	x.Press(enter, "1 [ ] allow buy: every call")
	x.Press("w", "Scope: <")
	x.Press(down+down+"1"+ctrlS, "scope session, uses 1")
	x.Press("e", `+   "shop": "emca"`, "remember allow buy: every call", "for 1 later call")
	x.Press("  G", "y approve as edited")
	x.Press("y", "edited and approved by ann")
	if s := w.standingApproval(false); s.Terms.Uses != 1 || s.Same["args.shop"] != `"emca"` {
		t.Errorf("remembered %+v, the same %v", s.Terms, s.Same)
	}
}

// A call with hidden arguments cannot be remembered.
func TestRememberNothingHidden(t *testing.T) {
	w := newWorld(t)
	w.ask("call_1", "wire", `{"to":"acme","pin":"1"}`)
	x := w.inbox(80, 40)
	x.See("> ")
	if screen := x.Press(enter, "digest"); strings.Contains(screen, "remember") {
		t.Errorf("a rule is offered:\n%s", screen)
	}
	x.Press("w", "it permits no standing approval")
}

// The list of standing approvals updates live and can revoke one.
func TestStandingApprovals(t *testing.T) {
	w := newWorld(t)
	x := w.inbox(80, 24)
	x.See("No open approval requests")
	x.Press("R", "No standing approvals")
	c := w.ask("call_1", "buy", `{"cents":300,"shop":"acme"}`)
	bob := func(resp *toolcall.Response) {
		resp.Remember = &toolcall.StandingTerms{Scope: toolcall.ScopeUser, Uses: 5}
	}
	w.answer(c, bob)
	golden(t, "standing_approvals", x.Match("Standing approvals: 1 in force", "buy", "bob", `1h 5\dm`, "scope user, 5 of 5 uses left"))
	w.proposes("call_2", "buy", `{"cents":1,"shop":"acme"}`)
	x.See("4 of 5 uses left")
	golden(t, "standing_approval", x.Press(enter, "granted  bob", `args.shop = "acme"`, "from     ticket-7/reply-call_1/call_1", "used     ticket-7/reply-call_2/call_2"))
	x.Press("d", "Reason, for the journal")
	x.Press("a mistake"+enter, "y revoke it now")
	x.Press("y", "Not revoked: ann did not grant this standing approval (ask bob or an operator)")
	x.Press(esc, "Standing approvals: 1 in force")

	mine := w.ask("call_3", "sell", `{}`) // still asks
	_ = mine
	s := w.standingApproval(false)
	w.revoke(s.ID)
	x.See("No standing approvals")
	x.Press(esc, "1 open")
}

// The person who granted a standing approval revokes it with its calls that have not started.
func TestTakeBackOwn(t *testing.T) {
	w := newWorld(t)
	w.ask("call_1", "buy", `{"cents":300,"shop":"acme"}`)
	x := w.inbox(60, 20)
	x.See("buy")
	x.Press(enter, "Buy?")
	x.Press("1a", "remember allow buy: every call")
	x.Press("  G", "y approve  Y")
	x.Press("y", "approved by ann")
	allowed := w.proposes("call_2", "buy", `{"cents":1,"shop":"acme"}`)
	if allowed.State == message.ToolCallAsking {
		t.Fatalf("despite the standing approval the call is %s", allowed.State)
	}
	golden(t, "leases-narrow", x.Press("R", "buy", "ann", "8 of 9 uses"))
	x.Press("d", "Reason, for the journal")
	golden(t, "take-back", x.Press("over q y ?"+enter, "over q y ?", "y revoke it now"))
	x.Press("y", "is revoked: it allows no more calls")
	x.See("No standing approvals")
	if s := w.standingApproval(true); s.Revoked == nil || s.Revoked.By.Name != "ann" || s.Revoked.Reason != "over q y ?" {
		t.Errorf("the standing approval is %+v", s)
	}
	if now := w.call(allowed); now.State != message.ToolCallFinished {
		t.Errorf("the allowed call is %s", now.State)
	}
	if c := w.proposes("call_3", "buy", `{"cents":1,"shop":"acme"}`); c.State != message.ToolCallAsking {
		t.Errorf("after the revocation a call is %s", c.State)
	}
}

// In 60 columns and 20 rows nothing necessary is lost: each line shows who and what, every screen
// shows the keys to continue and to go back, and an edit, a search and another person's response
// work as on a large screen.
func TestNarrow(t *testing.T) {
	w := newWorld(t)
	c := w.ask("call_1", "pay", `{"cents":1900,"lines":[{"sku":"A-1","note":"one that is longer than what a narrow screen has"}],"to":"ACME"}`)
	wire := w.ask("call_2", "wire", `{"to":"acme","pin":"1"}`)
	w.ask("call_3", "soon", `{}`)
	x := w.inbox(60, 20, "EDITOR=sed -i s/1900/1500/")
	x.See("3 open", "pay", "wire", "soon")
	w.answer(wire, func(*toolcall.Response) {})
	golden(t, "narrow-list", x.See("(bob approved) to acme", "? help  q quit"))
	golden(t, "narrow-help", x.Press("?", "LIST", "space more"))
	x.Press(esc)
	x.Match(`> 1h 5\dm`)
	golden(t, "narrow-detail", x.Press("G"+enter, "arguments", "A-1", "? keys  esc back"))
	x.Press("e", `-   "cents": 1900`, `+   "cents": 1500`, "space more, then y")
	x.Press("   ", "y approve as edited")
	x.Press(esc, "arguments")
	w.answer(c, func(resp *toolcall.Response) {
		resp.Kind, resp.Feedback = toolcall.ResponseReject, "the budget of this month is spent"
	})
	golden(t, "narrow-resolved", x.See("Closed: rejected by bob (in process): the budget of", "n next  ? keys  esc back"))
	x.Press(esc, "TOOL")
	x.Press("/so", "filter: so")
	x.Miss("wire")
	x.Press(enter)
	x.Match(`> 1h 5\dm soon`)
	golden(t, "narrow-form", x.Press(enter+"h", "Delegate to", "enter continue  esc back"))
}
