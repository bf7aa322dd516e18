package asked

import (
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
)

// Scope says for which calls a standing approval answers.
func Scope(s message.StandingScope) string {
	switch s {
	case message.ScopeCallLike:
		return "the same arguments, in this session"
	case message.ScopeSession:
		return "in this session"
	case message.ScopeAgent:
		return "of this agent of this runtime"
	case message.ScopeUser:
		return "of this runtime, in any session"
	case message.ScopeSpace:
		return "of the whole space"
	}
	return ""
}

// Limits says how far the rule that asks lets an answer be remembered.
func Limits(l *message.RememberLimits) string {
	text := "for " + Span(time.Duration(l.TTLMS)*time.Millisecond) + " at most"
	if l.Uses > 0 {
		text += ", for " + Count(l.Uses, "further call")
	}
	if len(l.Same) > 0 {
		text += ", with the same " + reveal.Line(strings.Join(l.Same, ", "))
	}
	return text
}
