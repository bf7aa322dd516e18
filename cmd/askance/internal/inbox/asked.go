package inbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
)

// may is whether a person may answer.
type may int

// A person may answer, may not, or may if they are in one of the groups, which
// only the engine knows.
const (
	no may = iota
	perhaps
	yes
)

// mayAnswer reports whether the engine would take an answer of the person.
func mayAnswer(c *message.Call, who string) may {
	if c.Question == nil {
		return no
	}
	r := c.Question.Requirement
	v := message.Vote{By: message.Principal{Role: message.RoleApprover, Name: who}, Step: c.Step}
	switch {
	case r.Accepts(v):
		return yes
	case r.ExcludeRequester && (r.Requester == "" || r.Requester == who):
		return no
	case r.NeedsGroups():
		return perhaps
	}
	return no
}

// voteOf is a person's last word on the question that is open.
func voteOf(c *message.Call, who string) (message.Vote, bool) {
	for _, v := range slices.Backward(c.Votes) {
		if v.By.Name == who && v.On(c.Digest) {
			return v, true
		}
		if v.Edited {
			break // it voids what was said before it
		}
	}
	return message.Vote{}, false
}

// needs says who must still agree, a line for each part.
func needs(c *message.Call) []string {
	t := c.Tally()
	out := make([]string, 0, len(t.Parts))
	for _, p := range t.Parts {
		text := fmt.Sprintf("%d of %d from %s", t.Quorum-p.Missing, t.Quorum, people(p.Users, p.Groups))
		if p.Rule != "" {
			text += " (rule " + reveal.Line(p.Rule) + ")"
		}
		if len(p.Approved) > 0 {
			text += ": " + names(p.Approved)
		}
		out = append(out, text)
	}
	r := c.Question.Requirement
	if r.ExcludeRequester {
		out = append(out, "not from "+orUnknown(r.Requester)+", on whose behalf it is")
	}
	if r.ExcludeEditor {
		text := "whoever edits cannot be the one who approves"
		if len(r.Editors) > 0 {
			text = "not from " + names(r.Editors) + ", who edited it"
		}
		out = append(out, text)
	}
	return out
}

func orUnknown(name string) string {
	if name == "" {
		return "somebody unknown"
	}
	return reveal.Line(name)
}

func people(users, groups []string) string {
	var out []string
	for _, g := range groups {
		out = append(out, "group "+reveal.Line(g))
	}
	for _, u := range users {
		out = append(out, reveal.Line(u))
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

// votes are what was said so far, a line each.
func votes(c *message.Call, now time.Time) []string {
	var out []string
	for _, v := range c.Votes {
		text := fmt.Sprintf("%s%s, %s ago", said(v), from(v.By.Name), span(now.Sub(v.At)))
		if v.By.Auth != "" {
			text += " (" + v.By.Auth + ")"
		}
		if !v.On(c.Digest) {
			text += ", of an earlier question"
		}
		if words := v.Feedback + v.Note; words != "" { // a vote has one of them
			text += ": " + words
		}
		out = append(out, reveal.Line(text))
	}
	return out
}

// deadline says how long there is, and what then.
func deadline(r message.Requirement, now time.Time) string {
	ends := r.Ends()
	var parts []string
	for _, at := range r.Plan() {
		if now.Before(at) {
			parts = append(parts, "asks more people in "+until(at, now))
			break
		}
	}
	switch {
	case ends.IsZero():
		parts = append(parts, "waits for ever")
	case now.Before(ends):
		parts = append(parts, "denied in "+until(ends, now)+" ("+ends.Local().Format(time.DateTime)+")")
	default:
		parts = append(parts, "its time is over")
	}
	return strings.Join(parts, ", ")
}

// ruleText is a rule that is offered to be remembered.
func ruleText(r message.PermissionRule) string {
	content := "every call"
	if r.RuleContent != nil && *r.RuleContent != "" {
		content = reveal.Line(*r.RuleContent)
	}
	return fmt.Sprintf("%s %s: %s", r.Behavior, reveal.Line(r.ToolName), content)
}
