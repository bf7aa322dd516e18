package asked

import (
	"fmt"
	"time"
)

// Span is a duration in one or two units, which is as much as one reads.
func Span(d time.Duration) string {
	d = max(0, d).Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Until is how long there is until an instant, or "-" if there is none.
func Until(at, now time.Time) string {
	switch {
	case at.IsZero():
		return "-"
	case !now.Before(at):
		return "over"
	}
	return Span(at.Sub(now))
}

// Count is "1 approval request" or "2 approval requests".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
