package inbox

import (
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
)

// button is what a form is sent with.
type button struct {
	Panel       *panel
	Label, Tone string
}

// choice is an option of a list.
type choice struct{ Value, Label string }

// scopes are for whom a rule can be remembered. Without a rule that lets it be
// remembered, it is for the session at most.
func scopes(limits *message.RememberLimits) []choice {
	out := []choice{{string(message.ScopeSession), "this session"}, {string(message.ScopeCallLike), "calls with these very arguments, in this session"}}
	if limits == nil {
		return out
	}
	return append(out,
		choice{string(message.ScopeAgent), "this agent of this user"},
		choice{string(message.ScopeUser), "this user, in any session"},
		choice{string(message.ScopeSpace), "every call of the space"})
}

// lasts are for how long.
var lasts = []choice{{"", "as long as the policy lets it"}, {"15m", "15 minutes"}, {"1h", "1 hour"}, {"8h", "8 hours"}, {"24h", "1 day"}, {"168h", "7 days"}}

// limitsText says what the policy lets be remembered.
func limitsText(l *message.RememberLimits) string {
	text := "at most " + asked.Span(time.Duration(l.TTLMS)*time.Millisecond)
	if l.Uses > 0 {
		text += " and " + count(l.Uses, "call")
	}
	if len(l.Same) > 0 {
		text += ", with the same " + strings.Join(l.Same, ", ")
	}
	return text
}
