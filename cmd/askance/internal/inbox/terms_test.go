package inbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
)

// The keys that move on a form, and take a line away.
const (
	down  = "\x1b[B"
	up    = "\x1b[A"
	right = "\x1b[C"
	ctrlU = "\x15"
)

// An offered rule is narrowed and bounded before it is accepted, and what it
// answers for is exactly that.
func TestRememberEditedRule(t *testing.T) {
	w := newWorld(t)
	c := w.ask("call_1", "Bash", `{"command":"git push origin main"}`)
	x := w.inbox(80, 24)
	x.see("call_1")
	x.press(enter, "git push origin main")
	x.press("G", "1 [ ] allow Bash: git push:*")
	golden(t, "terms", x.press("w", "For which calls: < session >", "Until", "offered: git push:*", "> git push:*"))
	x.press(" ", "< call_like >")
	x.press(right, "< session >")
	x.press(down+"tomorrow"+down+"2"+down+down, "> tomorrow")
	x.press(ctrlU+"git push origin:*", "> git push origin:*")
	x.press(ctrlS, "Not yet: the end is \"tomorrow\"")
	x.press(up+up+up+ctrlU+"2h", "> 2h")
	golden(t, "terms-done", x.press(ctrlS, "1 [x] allow Bash: git push origin:* (yours; offered:", "scope session, until 2h, uses 2"))
	golden(t, "terms-confirm", x.press("a", "remember allow Bash: git push origin:*", "for 2 further"))
	x.press("  G", "y approve  esc")
	x.press("y", "approved by ann")
	w.voted(c, "ann", message.AnswerApprove)
	l := w.lease(false)
	if left := time.Until(l.Terms.Until); l.Terms.Uses != 2 || left > 2*time.Hour || left < time.Hour || len(l.Terms.Rules) != 1 || *l.Terms.Rules[0].RuleContent != "git push origin:*" {
		t.Errorf("remembered %+v", l.Terms)
	}
	if got := w.proposes("call_2", "Bash", `{"command":"git push origin dev"}`); got.State == message.ToolCallAsking {
		t.Errorf("what is covered is %s", got.State)
	}
	if got := w.proposes("call_3", "Bash", `{"command":"git push fork dev"}`); got.State != message.ToolCallAsking {
		t.Errorf("what was narrowed away is %s", got.State)
	}
}

// What the engine refuses can be mended and sent again.
func TestRememberTooWide(t *testing.T) {
	w := newWorld(t)
	w.ask("call_1", "Bash", `{"command":"git push origin main"}`)
	x := w.inbox(80, 40)
	x.see("call_1")
	x.press(enter, "1 [ ] allow Bash: git push:*")
	x.press("w", "> git push:*")
	x.press(down+down+down+down+ctrlU+"git:*"+enter, "1 [x] allow Bash: git:* (yours")
	x.press("a", "y approve  esc")
	x.press("y", "Not accepted", "not proven to be narrower")
	x.press("w", "> git:*")
	x.press(down+down+down+down+ctrlU+"git push origin main:*"+enter, "git push origin main:* (yours")
	x.press("a", "y approve  esc")
	x.press("y", "approved by ann")
	if l := w.lease(false); *l.Terms.Rules[0].RuleContent != "git push origin main:*" {
		t.Errorf("remembered %+v", l.Terms)
	}
}

// A rule of the policy says how far its answers may be remembered.
func TestRememberWithinTheRule(t *testing.T) {
	w := newWorld(t)
	w.ask("call_1", "buy", `{"cents":300,"shop":"acme"}`)
	x := w.inbox(80, 30)
	x.see("call_1")
	x.press(enter, "1 [ ] allow buy: every call")
	golden(t, "terms-limits", x.press("w", "for 2h00m at most, for 9 further calls,", "with the same args.shop"))
	x.press("   "+right, "< call_like >") // round the five scopes
	x.press("    ", "< space >")
	x.press(down+down+"3"+down+"args.cents=500"+ctrlS, "scope space, uses 3, budget args.cents=500")
	x.press("a", "scope space", "for 3 further calls, up to 500 of args.cents")
	x.press("  G", "y approve  esc")
	x.press("y", "approved by ann")
	for _, tc := range []struct {
		id, input string
		asks      bool
	}{
		{"call_2", `{"cents":400,"shop":"acme"}`, false},
		{"call_3", `{"cents":400,"shop":"acme"}`, true}, // beyond the budget
		{"call_4", `{"cents":1,"shop":"other"}`, true},
	} {
		if c := w.proposes(tc.id, "buy", tc.input); (c.State == message.ToolCallAsking) != tc.asks {
			t.Errorf("%s is %s", tc.id, c.State)
		}
	}
}

// Where nothing can be had on terms, the inbox says why; 0 takes a wish back.
func TestRememberNothing(t *testing.T) {
	w := newWorld(t)
	c := w.pay("call_1", 1900)
	x := w.inbox(80, 30)
	x.see("call_1")
	x.press(enter, "1 [ ] allow pay")
	x.press("w", "The rule that asks lets no answer be remembered on terms")
	x.press("1", "1 [x] allow pay")
	x.press("0", "1 [ ] allow pay")
	if screen := x.press("a", "y approve  esc"); strings.Contains(screen, "remember") {
		t.Errorf("something is remembered:\n%s", screen)
	}
	x.press("y", "approved by ann")
	if now := w.voted(c, "ann", message.AnswerApprove); len(now.Remember) != 0 || len(now.Leases) != 0 {
		t.Errorf("remembered %+v %+v", now.Remember, now.Leases)
	}
}

// What goes with an edit is held against the edited call.
func TestRememberWithEdit(t *testing.T) {
	w := newWorld(t)
	w.ask("call_1", "buy", `{"cents":300,"shop":"acme"}`)
	x := w.inbox(80, 40, "EDITOR=sed -i s/acme/emca/")
	x.see("call_1")
	x.press(enter, "1 [ ] allow buy: every call")
	x.press("w", "For which calls")
	x.press(down+down+"1"+ctrlS, "scope session, uses 1")
	x.press("e", `+   "shop": "emca"`, "remember allow buy: every call", "for 1 further call")
	x.press("  G", "y approve as edited")
	x.press("y", "edited and approved by ann")
	if l := w.lease(false); l.Terms.Uses != 1 || l.Same["args.shop"] != `"emca"` {
		t.Errorf("remembered %+v, the same %v", l.Terms, l.Same)
	}
}

// Of a call that hides something nothing is remembered.
func TestRememberNothingHidden(t *testing.T) {
	w := newWorld(t)
	w.ask("call_1", "wire", `{"to":"acme","pin":"1"}`)
	x := w.inbox(80, 40)
	x.see("call_1")
	if screen := x.press(enter, "digest"); strings.Contains(screen, "remember") {
		t.Errorf("a rule is offered:\n%s", screen)
	}
	x.press("w", "of such a call nothing is remembered")
}

// The list of what is remembered lives, and takes a rule back.
func TestLeases(t *testing.T) {
	w := newWorld(t)
	x := w.inbox(80, 24)
	x.see("No open questions")
	x.press("r", "Nothing is remembered")
	c := w.ask("call_1", "buy", `{"cents":300,"shop":"acme"}`)
	bob := func(a *message.Answer) {
		a.Remember = &message.LeaseTerms{Scope: message.ScopeUser, Uses: 5}
	}
	w.answer(c, bob)
	golden(t, "leases", x.see("1 rule in force", "> buy", "bob", "1h59m", "scope user, 5 of 5 uses left"))
	w.proposes("call_2", "buy", `{"cents":1,"shop":"acme"}`)
	x.see("4 of 5 uses left")
	golden(t, "lease", x.press(enter, "given by bob", `args.shop = "acme"`, "from     ticket-7/reply-call_1/call_1", "used     ticket-7/reply-call_2/call_2"))
	x.press("d", "Why, for the record")
	x.press("a mistake"+enter, "y take it back at once")
	x.press("y", "Not taken back: ann has not given this remembered rule (ask bob or an operator)")
	x.press(esc, "1 rule in force")

	mine := w.ask("call_3", "sell", `{}`) // still asks
	_ = mine
	l := w.lease(false)
	w.revoke(l.ID)
	x.see("Nothing is remembered")
	x.press(esc, "call_3")
}

// Whoever gave a rule takes it back: what it allowed and did not begin goes too.
func TestTakeBackOwn(t *testing.T) {
	w := newWorld(t)
	w.ask("call_1", "buy", `{"cents":300,"shop":"acme"}`)
	x := w.inbox(60, 20)
	x.see("> buy")
	x.press(enter, "Buy?")
	x.press("1a", "remember allow buy: every call")
	x.press("  G", "y approve  esc")
	x.press("y", "approved by ann")
	allowed := w.proposes("call_2", "buy", `{"cents":1,"shop":"acme"}`)
	if allowed.State == message.ToolCallAsking {
		t.Fatalf("what is remembered leaves the call %s", allowed.State)
	}
	golden(t, "leases-narrow", x.press("r", "> buy", "ann", "8 of 9 uses"))
	x.press("d", "Why, for the record")
	golden(t, "take-back", x.press("over q y ?"+enter, "over q y ?", "y take it back at once"))
	x.press("y", "is revoked: it allows nothing more")
	x.see("Nothing is remembered")
	if l := w.lease(true); l.Revoked == nil || l.Revoked.By.Name != "ann" || l.Revoked.Reason != "over q y ?" {
		t.Errorf("the rule is %+v", l)
	}
	if now := w.call(allowed); now.State != message.ToolCallFinished {
		t.Errorf("what it allowed is %s", now.State)
	}
	if c := w.proposes("call_3", "buy", `{"cents":1,"shop":"acme"}`); c.State != message.ToolCallAsking {
		t.Errorf("after that a call is %s", c.State)
	}
}
