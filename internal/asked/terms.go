package asked

import (
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
)

// Scope says which calls a standing approval covers.
func Scope(s message.StandingScope) string {
	switch s {
	case message.ScopeCallLike:
		return "calls with the same arguments, in this session"
	case message.ScopeSession:
		return "calls in this session"
	case message.ScopeAgent:
		return "calls by this agent of this runtime"
	case message.ScopeUser:
		return "calls by this runtime, in any session"
	case message.ScopeSpace:
		return "calls in the whole space"
	}
	return ""
}

// Limits describes the standing approvals that a rule permits.
func Limits(l *message.RememberLimits) string {
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
func Allows(l *message.StandingApproval) string {
	var out []string
	for _, r := range l.Terms.Rules {
		text := reveal.Line(r.ToolName)
		if r.RuleContent != nil && *r.RuleContent != "" {
			text += "(" + reveal.Line(*r.RuleContent) + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// Grantors names the people who granted a standing approval.
func Grantors(l *message.StandingApproval) string {
	var out []string
	for _, v := range l.GrantedBy {
		out = append(out, reveal.Line(v.By.Name))
	}
	return strings.Join(out, ", ")
}
