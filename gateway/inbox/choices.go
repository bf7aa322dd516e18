package inbox

import (
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
	all := []message.StandingScope{message.ScopeSession, message.ScopeCallLike, message.ScopeAgent, message.ScopeUser, message.ScopeSpace}
	if limits == nil {
		all = all[:2]
	}
	out := make([]choice, 0, len(all))
	for _, s := range all {
		out = append(out, choice{string(s), asked.Scope(s)})
	}
	return out
}

// lasts are for how long.
var lasts = []choice{{"", "as long as the policy permits"}, {"15m", "15 minutes"}, {"1h", "1 hour"}, {"8h", "8 hours"}, {"24h", "1 day"}, {"168h", "7 days"}}
