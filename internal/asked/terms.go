package asked

import (
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

// Scope says which calls a standing approval covers.
func Scope(s toolcall.StandingScope) string {
	switch s {
	case toolcall.ScopeCallLike:
		return "calls with the same arguments, in this session"
	case toolcall.ScopeSession:
		return "calls in this session"
	case toolcall.ScopeAgent:
		return "calls by this agent of this runtime"
	case toolcall.ScopeUser:
		return "calls by this runtime, in any session"
	case toolcall.ScopeSpace:
		return "calls in the whole space"
	}
	return ""
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
func Allows(l *toolcall.StandingApproval) string {
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
func Grantors(l *toolcall.StandingApproval) string {
	var out []string
	for _, v := range l.GrantedBy {
		out = append(out, reveal.Line(v.By.Name))
	}
	return strings.Join(out, ", ")
}
