package inbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/terms"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// offer is a rule that may be remembered with an approval.
type offer struct {
	rule    message.PermissionRule // as the approval request offers it
	content string                 // as the person wants it
	on      bool
}

// now is the rule as the person wants it.
func (o offer) now() message.PermissionRule {
	r := o.rule
	if o.content != contentOf(o.rule) {
		r = terms.Allow(r.ToolName, o.content)
	}
	return r
}

func contentOf(r message.PermissionRule) string {
	if r.RuleContent == nil {
		return ""
	}
	return *r.RuleContent
}

// wish is the standing approval that a person wants with one approval request, as typed.
// It belongs to the approval request with the digest.
type wish struct {
	digest               string
	offers               []offer
	scope                toolcall.StandingScope
	until, uses, budget  string
	limits               *toolcall.RememberLimits // of the rules that ask
	asked, hidden, agent bool                     // a rule asks; rules hide something; the call names an agent
}

// newWish returns a wish with all offers, and none of them selected.
func newWish(c *toolcall.Call) wish {
	w := wish{digest: c.Digest, scope: toolcall.ScopeSession, hidden: c.Hides(), agent: c.Agent != ""}
	if w.hidden { // patterns are made from arguments
		return w
	}
	for _, r := range c.Suggested {
		w.offers = append(w.offers, offer{rule: r, content: contentOf(r)})
	}
	if c.Request == nil {
		return w
	}
	w.limits, w.asked = c.Request.Requirement.Remember, c.Request.Rule != ""
	whole := func(o offer) bool { return o.content == "" }
	if w.limits != nil && !slices.ContainsFunc(w.offers, whole) { // the rule's limits bound it
		w.offers = append(w.offers, offer{rule: terms.Allow(c.Tool, "")})
	}
	return w
}

// hasAny reports whether any offer is selected.
func (w *wish) hasAny() bool {
	return slices.ContainsFunc(w.offers, func(o offer) bool { return o.on })
}

// isPlain reports whether the rules are accepted as offered, for the session and without
// limits, which every AgentScope client can do.
func (w *wish) isPlain() bool {
	return w.limits == nil && w.scope == toolcall.ScopeSession && w.until+w.uses+w.budget == "" &&
		!slices.ContainsFunc(w.offers, func(o offer) bool { return o.on && o.content != contentOf(o.rule) })
}

// obstacle says why no terms can be set for a standing approval; "" if they can. The
// engine decides; this only saves a request.
func (w *wish) obstacle() string {
	switch {
	case w.hidden:
		return "Rules hide arguments of this call, so it permits no standing approval."
	case len(w.offers) == 0:
		return "This request offers no rule for a standing approval."
	case w.asked && w.limits == nil:
		return "The rule permits no standing approval with limits."
	}
	return ""
}

// scopes returns the scopes that the person can choose.
func (w *wish) scopes() []toolcall.StandingScope {
	var out []toolcall.StandingScope
	for _, s := range terms.Scopes {
		wide := s != toolcall.ScopeSession && s != toolcall.ScopeCallLike
		if wide && w.limits == nil || s == toolcall.ScopeAgent && !w.agent {
			continue
		}
		out = append(out, s)
	}
	return out
}

// terms parses what the person typed. Errors begin with the field.
func (w *wish) terms(now time.Time) (*toolcall.StandingTerms, error) {
	t := toolcall.StandingTerms{Scope: w.scope}
	var errs [3]error
	t.Until, errs[0] = terms.Until(w.until, now)
	t.Uses, errs[1] = terms.Uses(w.uses)
	t.Budget, errs[2] = terms.Budget(w.budget)
	for i, field := range []string{"the end", "the number of uses", "the budget"} {
		if errs[i] != nil {
			return nil, fmt.Errorf("%s %w", field, errs[i])
		}
	}
	for _, o := range w.offers {
		if o.on {
			t.Rules = append(t.Rules, o.now())
		}
	}
	if len(t.Rules) == 0 {
		return nil, errors.New("no rule is selected; select one with 1 to 9")
	}
	return &t, nil
}

// into adds the standing approval to a response.
func (w *wish) into(a *toolcall.Response, now time.Time) error {
	if !w.hasAny() {
		return nil
	}
	t, err := w.terms(now)
	if err != nil {
		return err
	}
	if w.isPlain() {
		a.Rules = t.Rules
	} else {
		a.Remember = t
	}
	return nil
}

// lines returns the offers with their check marks, and the terms.
func (w *wish) lines() []string {
	var out []string
	for i, o := range w.offers {
		mark := "[ ]"
		if o.on {
			mark = "[x]"
		}
		text := fmt.Sprintf("%d %s %s", i+1, mark, asked.RuleText(o.now()))
		if o.content != contentOf(o.rule) {
			text += " (yours; offered: " + contentText(contentOf(o.rule)) + ")"
		}
		out = append(out, text)
	}
	if w.asked && w.limits == nil && len(out) > 0 {
		out = append(out, "does not apply to calls that a rule asks about, such as this one")
	}
	if w.hasAny() && !w.isPlain() {
		out = append(out, w.text())
	}
	return out
}

// text returns the terms as typed.
func (w *wish) text() string {
	out := []string{"scope " + string(w.scope)}
	for _, part := range [][2]string{{"until ", w.until}, {"uses ", w.uses}, {"budget ", w.budget}} {
		if part[1] != "" {
			out = append(out, part[0]+reveal.Line(part[1]))
		}
	}
	return strings.Join(out, ", ")
}

// bounds says which standing approvals the rules that ask permit; "" if none sets limits.
func (w *wish) bounds() string {
	if w.limits == nil {
		return ""
	}
	return "The rule permits a standing approval " + asked.Limits(w.limits) + "."
}

// termsText returns the standing approval as it will be sent.
func termsText(t *toolcall.StandingTerms, now time.Time) []string {
	var out []string
	for _, r := range t.Rules {
		out = append(out, asked.RuleText(r))
	}
	text := "scope " + string(t.Scope)
	if !t.Until.IsZero() {
		text += ", until " + t.Until.Local().Format(time.DateTime) + " (in " + asked.Until(t.Until, now) + ")"
	}
	if t.Uses > 0 {
		text += ", for " + asked.Count(t.Uses, "later call")
	}
	if b := t.Budget; b != nil {
		text += ", up to " + reveal.Line(b.Limit) + " of " + reveal.Line(b.Path)
	}
	return append(out, text)
}
