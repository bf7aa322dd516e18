// Package asked phrases approval requests and responses for people: who must agree, what was
// said, how much time is left, the outcome, which arguments run, and what an edit changes in
// them. The commands, the terminal inbox and the web inbox share it, so they all use the
// same words.
//
// Untrusted text (names, rules, reasons) is revealed with package reveal, unless a function's
// comment says otherwise. All functions are pure.
package asked

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Title describes in one line what a call would do. It is not revealed.
func Title(c *toolcall.Call) string {
	if c.Summary != "" {
		return c.Summary
	}
	if c.Request != nil && c.Request.Text != "" { // from a record
		first, _, _ := strings.Cut(c.Request.Text, "\n")
		return first
	}
	return c.Tool
}

// IsShortened reports whether the title does not show each argument whole. A summary that an
// operator wrote, or that gives sizes, leaves some out without a mark.
func IsShortened(c *toolcall.Call) bool {
	title := Title(c)
	if strings.Contains(title, "…") {
		return true
	}
	words := wordsOf([]byte(c.Input))
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) }) // a short word can be in a longer one
	for _, w := range words {
		before, after, found := strings.Cut(title, w)
		if !found {
			return true
		}
		title = before + "\x00" + after // which shows no other word
	}
	return false
}

// wordsOf returns the words in a JSON value. A member that is true is shown by its name alone.
func wordsOf(value []byte) (words []string) {
	parts, _ := strictjson.Items(value) // of an array
	switch strictjson.KindOf(value) {
	case "object":
		parts, _ = strictjson.Members(value) // arguments that cannot be read do not run
	case "string":
		text, _ := strictjson.Text(value)
		return strings.Fields(text)
	case "number", "boolean":
		return []string{string(value)}
	}
	for _, m := range parts {
		if string(m.Value) == "true" && m.Name != "" {
			words = append(words, m.Name)
			continue
		}
		words = append(words, wordsOf(m.Value)...)
	}
	return words
}

// Needs lists who must still agree, one line for each part.
func Needs(c *toolcall.Call) []string {
	t := c.Tally()
	if w, open := c.Waiting(time.Now()); open {
		t = w.Tally
	}
	out := make([]string, 0, len(t.Parts))
	for _, p := range t.Parts {
		text := fmt.Sprintf("%d of %d from %s", p.Quorum-p.Missing, p.Quorum, People(p.Users, p.Groups))
		if p.Rule != "" {
			text += " (rule " + reveal.Line(p.Rule) + ")"
		}
		if len(p.Approved) > 0 {
			text += ": " + names(Approvers(t, p))
		}
		out = append(out, text)
	}
	return append(out, Excluded(c)...)
}

// Excluded lists people whose approval does not count, one line for each reason.
func Excluded(c *toolcall.Call) []string {
	var out []string
	r := c.Request.Requirement
	if r.ExcludeRequester {
		out = append(out, orUnknown(r.Requester)+" requested this and cannot approve it")
	}
	if len(r.RequestersAround) > 0 {
		out = append(out, names(r.RequestersAround)+" requested a call around this one and cannot approve this one")
	}
	if r.ExcludeEditor {
		text := "a person who edits this cannot approve it"
		if len(r.Editors) > 0 {
			text = names(r.Editors) + " edited this and cannot approve it"
		}
		out = append(out, text)
	}
	return out
}

func orUnknown(name string) string {
	if name == "" {
		return "an unknown person"
	}
	return reveal.Name(name)
}

// People names the users and groups that are asked.
func People(users, groups []string) string {
	var out []string
	for _, g := range groups {
		out = append(out, "group "+reveal.Name(g))
	}
	for _, u := range users {
		out = append(out, reveal.Name(u))
	}
	if len(out) == 0 {
		return "any approver"
	}
	return strings.Join(out, ", ")
}

func names(all []string) string {
	out := make([]string, 0, len(all))
	for _, n := range all {
		out = append(out, reveal.Line(n))
	}
	return strings.Join(out, ", ")
}

// Votes are the responses so far, one line each.
func Votes(c *toolcall.Call, now time.Time) []string {
	var out []string
	for _, v := range c.Votes {
		text := fmt.Sprintf("%s%s, %s ago", Said(v), from(Who(v.By)), Span(now.Sub(v.At)))
		if !v.On(c.Digest) {
			text += ", for an earlier request"
		}
		text += Uncounted(v)
		if words := v.Feedback + v.Note; words != "" { // a vote has one of them
			text += ": " + words
		}
		out = append(out, reveal.Line(strings.ReplaceAll(text, "\n", " / ")))
	}
	return out
}

// Deadline says how much time is left, and what happens then.
func Deadline(r toolcall.Requirement, now time.Time) string {
	ends := r.Ends()
	var parts []string
	for _, at := range r.Plan() {
		if now.Before(at) {
			parts = append(parts, "escalates in "+Until(at, now))
			break
		}
	}
	switch {
	case ends.IsZero():
		parts = append(parts, "no deadline")
	case now.Before(ends):
		parts = append(parts, "denied in "+Until(ends, now)+" ("+ends.Local().Format(time.DateTime)+")")
	default:
		parts = append(parts, "expired")
	}
	return strings.Join(parts, ", ")
}

// RuleText describes a rule that is offered for a standing approval.
func RuleText(r message.PermissionRule) string {
	content := "every call"
	if r.RuleContent != nil && *r.RuleContent != "" {
		content = reveal.Line(*r.RuleContent)
	}
	return fmt.Sprintf("%s %s: %s", r.Behavior, reveal.Line(r.ToolName), content)
}

// Why returns the rule and its reason.
func Why(c *toolcall.Call) []string {
	req := c.Request
	rule := "no rule"
	if req.Rule != "" {
		rule = "rule " + reveal.Line(req.Rule)
	}
	if req.Source != "" {
		rule += " (" + reveal.Line(Source(req.Source)) + ")"
	}
	out := []string{rule}
	if text := Definition(c); c.Definition.Changed() {
		out = append(out, text)
	}
	if req.Reason != "" {
		out = append(out, reveal.Line(req.Reason))
	}
	if c.Decision != nil {
		for _, e := range c.Decision.Errors {
			out = append(out, "rule error: "+reveal.Line(e))
		}
	}
	return out
}

// sourceWords describe the steps of the decision procedure.
var sourceWords = map[string]string{
	"no_policy": "no policy is loaded", "error": "a rule could not be evaluated", "read_only": "the tool is read-only",
	"tool_check": "the tool's own check", "ask_converted_to_deny": "mode dont_ask denies", "fallback_ask": "default: ask",
	"fallback_explore": "mode explore denies", "fallback_bypass": "mode bypass allows", "fallback_dont_ask": "mode dont_ask denies",
}

// Source describes where a decision comes from: the source of its rule, or the step of the
// procedure. It is not revealed.
func Source(source string) string {
	return cmp.Or(sourceWords[source], source)
}

// Definition describes the runtime's definition of the tool; "" if the tool is askance's own.
func Definition(c *toolcall.Call) string {
	switch d := c.Definition; {
	case d == nil:
		return ""
	case d.Changed():
		return "CHANGED: the runtime declares the tool as " + d.Hash + ", but first declared it in this session as " + d.First
	default:
		return "declared by the runtime as " + d.Hash
	}
}

// Origin says who proposed the call, in which folder it runs, and within which other call.
func Origin(c *toolcall.Call) string {
	text := "runtime " + reveal.Line(c.Runtime)
	if c.Agent != "" && c.Agent != c.Runtime {
		text += ", agent " + reveal.Line(c.Agent)
	}
	if c.Cwd != "" {
		text += ", in the folder " + reveal.Line(c.Cwd)
	}
	if p := c.Parent; p != nil {
		text += fmt.Sprintf(", within call %s of %s (agent %s, session %s, depth %d)", reveal.Line(string(p.Call)), reveal.Line(p.Tool), reveal.Line(cmp.Or(p.Agent, p.Runtime)), reveal.Line(string(p.Session)), p.Depth)
	}
	return text
}

// Output is the output of a result for people, each block on its own line. It names what is
// not text, as [a.png, image/png, 2.1 kB].
func Output(c message.Content) string {
	if !c.IsList() {
		return c.Text
	}
	texts := make([]string, len(c.Blocks))
	for i, block := range c.Blocks {
		switch b := block.(type) {
		case *message.TextBlock:
			texts[i] = b.Text
		case *message.DataBlock:
			texts[i] = "[" + DataName(b) + "]"
		default:
			texts[i] = "[block of the type " + string(block.Type()) + "]"
		}
	}
	return message.JoinTexts(texts)
}

// DataName is the name, type and size of data, or its address. It is not revealed.
func DataName(b *message.DataBlock) string {
	name := ""
	if b.Name != nil && *b.Name != "" {
		name = *b.Name + ", "
	}
	switch source := b.Source.(type) {
	case *message.Base64Source:
		size := len(strings.TrimRight(source.Data, "=")) * 3 / 4
		text := Count(size, "byte")
		if size >= 1000 {
			text = fmt.Sprintf("%.1f kB", float64(size)/1000)
		}
		name += source.MediaType + ", " + text
	case *message.URLSource:
		name += source.MediaType + " at " + source.URL
	}
	return name
}

// Deciders lists the people who decided about a finished call, each once. If none did, a standing
// approval or the policy decided, but neither interrupts or refuses a call.
func Deciders(c *toolcall.Call) string {
	if c.Open() {
		return ""
	}
	var out []string
	for _, v := range c.Votes {
		isPassed := v.Kind == toolcall.ResponseSkip || v.Kind == toolcall.ResponseDelegate
		if name := reveal.MarkedName(v.By.Name); !isPassed && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	other := "policy"
	switch cause := toolcall.Cause(c.Cause); {
	case cause == toolcall.CauseInterrupt, cause == toolcall.CauseBypass, cause == toolcall.CauseRefuse:
		other = ""
	case c.Decision != nil && c.Decision.Standing != "":
		other = "standing approval"
	}
	return cmp.Or(strings.Join(out, ", "), other)
}

// SaysMore reports whether the text of a request says more than its title. A title that is the
// first line of the text shows hidden characters in another way.
func SaysMore(c *toolcall.Call, text string) bool {
	title := Title(c)
	whole := c.Decision != nil && c.Decision.Headline && !strings.Contains(text, "\n") && !strings.HasSuffix(title, "…")
	return text != "" && text != title && !whole
}

// Span formats a duration in one or two units: 45s, 20m, 3h 58m.
func Span(d time.Duration) string {
	d = max(0, d).Round(time.Second)
	for _, u := range []struct {
		big, small time.Duration
		names      string
	}{{24 * time.Hour, time.Hour, "dh"}, {time.Hour, time.Minute, "hm"}, {time.Minute, time.Second, "ms"}} {
		switch rest := d % u.big / u.small; {
		case d >= u.big && rest > 0:
			return fmt.Sprintf("%d%c %d%c", d/u.big, u.names[0], rest, u.names[1])
		case d >= u.big:
			return fmt.Sprintf("%d%c", d/u.big, u.names[0])
		}
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}

// Took is Span with fractions for short durations: 240ms, 1.5s.
func Took(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", max(1, d.Milliseconds()))
	case d < 10*time.Second && d%time.Second >= 50*time.Millisecond:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + "s"
	}
	return Span(d)
}

// ShortSpan is Span for a narrow column: from ten of a unit on, only that unit.
func ShortSpan(d time.Duration) string {
	text := Span(d)
	if big, _, two := strings.Cut(text, " "); two && len(big) > 2 {
		return big
	}
	return text
}

// Until returns the time left until at, or "-" if at is zero.
func Until(at, now time.Time) string {
	switch {
	case at.IsZero():
		return "-"
	case !now.Before(at):
		return "over"
	}
	return Span(at.Sub(now))
}

// Number formats a count as people read it: 1,234,567.
func Number(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Rule returns the rule that asked about a call, or else the one that decided it. It is not revealed.
func Rule(c *toolcall.Call) string {
	if c.Request != nil {
		return c.Request.Rule
	}
	return c.DecidingRule()
}

// Count returns for example "1 approval request" or "2 approval requests".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Scope says which calls a standing approval covers.
func Scope(s toolcall.StandingScope) string { return scopes[s] }

var scopes = map[toolcall.StandingScope]string{
	toolcall.ScopeCallLike: "calls with the same arguments, in this session",
	toolcall.ScopeSession:  "calls in this session",
	toolcall.ScopeAgent:    "calls by this agent of this runtime",
	toolcall.ScopeUser:     "calls by this runtime, in any session",
	toolcall.ScopeSpace:    "calls in the whole space",
}

// Limits describes the standing approvals that a rule permits.
func Limits(l *toolcall.RememberLimits) string {
	text := "for at most " + Span(time.Duration(l.TTLMS)*time.Millisecond)
	if l.Uses > 0 {
		text += ", for " + Count(l.Uses, "later call")
	}
	if len(l.Same) > 0 {
		text += ", with the same " + reveal.Line(strings.Join(l.Same, ", "))
	}
	return text
}

// Allows names the calls that a standing approval allows.
func Allows(s *toolcall.StandingApproval) string {
	var out []string
	for _, r := range s.Terms.Rules {
		text := reveal.Line(r.ToolName)
		if r.RuleContent != nil && *r.RuleContent != "" {
			text += "(" + reveal.Line(*r.RuleContent) + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// Same returns what later calls must have in common with the approved one, as "path = value".
func Same(s *toolcall.StandingApproval) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(s.Same)) {
		out = append(out, reveal.Line(path+" = "+s.Same[path]))
	}
	return out
}

// Grantors names the people who granted a standing approval.
func Grantors(s *toolcall.StandingApproval) string {
	var out []string
	for _, v := range s.GrantedBy {
		out = append(out, reveal.Line(v.By.Name))
	}
	return strings.Join(out, ", ")
}
