package asked

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

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

// Count returns for example "1 approval request" or "2 approval requests".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

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

// Same returns what later calls must have in common with the approved one, as "path = value".
func Same(l *toolcall.StandingApproval) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(l.Same)) {
		out = append(out, reveal.Line(path+" = "+l.Same[path]))
	}
	return out
}

// Grantors names the people who granted a standing approval.
func Grantors(l *toolcall.StandingApproval) string {
	var out []string
	for _, v := range l.GrantedBy {
		out = append(out, reveal.Line(v.By.Name))
	}
	return strings.Join(out, ", ")
}
