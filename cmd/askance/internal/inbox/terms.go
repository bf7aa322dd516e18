package inbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/cmd/askance/internal/terms"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// termsScreen edits the terms of a standing approval: the rules, for which calls they are, until
// when, how often and up to what sum. It works on a copy, which esc discards.
type termsScreen struct {
	detail *detailScreen
	wish   wish
	at     int // 0 is the scope, the fields follow
	fields []field[wish]
}

func newTerms(d *detailScreen) *termsScreen {
	s := &termsScreen{detail: d, wish: d.wish}
	s.wish.offers = slices.Clone(d.wish.offers)
	if !s.wish.hasAny() {
		for i := range s.wish.offers {
			s.wish.offers[i].on = true
		}
	}
	s.add("Until (such as 2h or 2026-01-31T18:00:00Z; empty: as long as permitted)", s.wish.until, func(w *wish, t string) { w.until = t })
	s.add("Number of later calls (empty: as many as permitted)", s.wish.uses, func(w *wish, t string) { w.uses = t })
	s.add("Budget (such as args.cents=10000; empty: none)", s.wish.budget, func(w *wish, t string) { w.budget = t })
	for i, o := range s.wish.offers {
		if o.on {
			label := fmt.Sprintf("Rule %d for %s (offered: %s; empty: every call)", i+1, reveal.Line(o.rule.ToolName), contentText(contentOf(o.rule)))
			s.add(label, o.content, func(w *wish, t string) { w.offers[i].content = t })
		}
	}
	return s
}

func contentText(content string) string {
	if content == "" {
		return "every call"
	}
	return reveal.Line(content)
}

func (s *termsScreen) add(label, value string, set func(*wish, string)) {
	f := newField(label, toolcall.MaxStandingBytes, set)
	f.in.SetValue(scrub(value))
	s.fields = append(s.fields, f)
}

func (s *termsScreen) writes() {}

func (s *termsScreen) holds(k toolcall.Key) bool { return k == s.detail.request }

// stale says why the terms no longer apply.
func (s *termsScreen) stale(m *model) string {
	q := m.qs.get(s.detail.request)
	if q == nil || !q.open() || q.call.Digest != s.wish.digest {
		return "The request changed: go back to review it."
	}
	return ""
}

func (s *termsScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	switch {
	case k.Type == tea.KeyEsc:
		m.pop()
	case s.stale(m) != "":
	case k.Type == tea.KeyCtrlS, k.Type == tea.KeyEnter && s.at == len(s.fields):
		s.done(m)
	case k.Type == tea.KeyEnter, k.Type == tea.KeyTab, k.Type == tea.KeyDown:
		return s.move(1)
	case k.Type == tea.KeyShiftTab, k.Type == tea.KeyUp:
		return s.move(-1)
	case s.at == 0:
		s.choose(k.String())
	default:
		return update(&s.fields[s.at-1].in, k)
	}
	return nil
}

func (s *termsScreen) move(d int) tea.Cmd {
	if s.at > 0 {
		s.fields[s.at-1].in.Blur()
	}
	s.at = max(0, min(len(s.fields), s.at+d))
	if s.at > 0 {
		return s.fields[s.at-1].in.Focus()
	}
	return nil
}

// choose takes the next scope, or the one before.
func (s *termsScreen) choose(key string) {
	all := s.wish.scopes()
	i := slices.Index(all, s.wish.scope)
	switch key {
	case " ", "right", "l":
		i++
	case "left", "h":
		i += len(all) - 1
	default:
		return
	}
	s.wish.scope = all[i%len(all)]
}

// done accepts the terms, if they are valid.
func (s *termsScreen) done(m *model) {
	for i := range s.fields {
		s.fields[i].set(&s.wish, strings.TrimSpace(s.fields[i].in.Value()))
	}
	if _, err := s.wish.terms(m.now); err != nil {
		m.say(m.out.Bad, "Cannot continue: %v", err)
		return
	}
	s.detail.wish = s.wish
	m.pop()
	m.say(m.out.Good, "Your approval creates this standing approval: a approves, 0 removes it.")
}

func (s *termsScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	title = "Standing approval"
	if bad := s.stale(m); bad != "" {
		return title, paintAll(m.out.Bad, wrap(bad, w)), "esc back"
	}
	line := func(i int, label string) {
		paint := m.out.Dim
		if i == s.at {
			paint = m.out.Bold
		}
		body = append(body, paintAll(paint, wrap(label, w))...)
	}
	at := 0 // the line on which the person writes
	line(0, "Scope: < "+string(s.wish.scope)+" > "+asked.Scope(s.wish.scope))
	for i := range s.fields {
		f := &s.fields[i]
		f.in.Width = max(1, w-4)
		line(i+1, f.label)
		body = append(body, f.in.View())
		if s.at == i+1 {
			at = len(body) - 1
		}
	}
	if s.wish.limits != nil {
		body = append(body, paintAll(m.out.Dim, wrap("The rule permits a standing approval "+asked.Limits(s.wish.limits)+".", w))...)
	}
	if s.at == 0 {
		keys = "space next scope  down next field  ctrl+s done  esc back"
	} else {
		keys = "enter next  up previous  ctrl+s done  esc back"
	}
	return title, body[max(0, min(at-h+2, len(body)-h)):], keys
}

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
	for _, s := range toolcall.Scopes() {
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
		return nil, errors.New("no rule is selected; press 1 to 9 to select one")
	}
	return &t, nil
}

// into adds the standing approval to a response.
func (w *wish) into(resp *toolcall.Response, now time.Time) error {
	if !w.hasAny() {
		return nil
	}
	t, err := w.terms(now)
	if err != nil {
		return err
	}
	if w.isPlain() {
		resp.Rules = t.Rules
	} else {
		resp.Remember = t
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

func (w *wish) text() string {
	out := []string{"scope " + string(w.scope)}
	for _, part := range [][2]string{{"until ", w.until}, {"uses ", w.uses}, {"budget ", w.budget}} {
		if part[1] != "" {
			out = append(out, part[0]+reveal.Line(part[1]))
		}
	}
	return strings.Join(out, ", ")
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
