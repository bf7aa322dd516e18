package rulefile

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// DurationPattern matches positive durations, for JSON Schemas.
const DurationPattern = `^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`

const day = 24 * time.Hour

// ParseDuration is time.ParseDuration plus days of 24 hours, which come first: 7d, 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	whole, err := time.ParseDuration(days + "h")
	if err != nil || strings.Trim(days, "+-.0123456789") != "" || whole > math.MaxInt64/24 || whole < math.MinInt64/24 {
		return 0, fmt.Errorf("%.40q is not a duration", text)
	}
	whole *= 24
	if rest == "" {
		return whole, nil
	}
	part, err := time.ParseDuration(rest)
	if err != nil || rest[0] == '-' || rest[0] == '+' || whole > math.MaxInt64-part {
		return 0, fmt.Errorf("%.40q is not a duration", text)
	}
	if strings.HasPrefix(text, "-") {
		part = -part
	}
	return whole + part, nil
}

// FormatDuration omits zero parts, and uses days from two days on: 1h, 36h, 7d, 2d12h.
func FormatDuration(d time.Duration) string {
	days := ""
	if d >= 2*day {
		days = fmt.Sprintf("%dd", d/day)
		if d %= day; d == 0 {
			return days
		}
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return days + text
}
