package permission_test

import (
	"testing"
	"time"

	"github.com/askance-dev/askance/permission"
)

func TestDurations(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"7d": 7 * day, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, "0d": 0, "+2d": 2 * day, "-1d12h": -36 * time.Hour, "1d1h30m": 25*time.Hour + 30*time.Minute,
		"90s": 90 * time.Second, "24h": day, "-5m": -5 * time.Minute,
	} {
		got, err := permission.ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
		again, err := permission.ParseDuration(permission.FormatDuration(want))
		if err != nil || again != want {
			t.Errorf("%v is formatted as %q, which parses as %v, %v", want, permission.FormatDuration(want), again, err)
		}
	}
	for _, text := range []string{"", "d", "7", "1d-12h", "1d+12h", "12h1d", "1d2", "1dd", "1 d", "7D", "one d", "200000d", "106751d24h", "1w"} {
		if got, err := permission.ParseDuration(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for d, want := range map[time.Duration]string{7 * day: "7d", day: "24h", 36 * time.Hour: "36h", 60 * time.Hour: "2d12h", time.Hour: "1h", 90 * time.Minute: "1h30m", 2*day + time.Second: "2d1s", 0: "0s"} {
		if got := permission.FormatDuration(d); got != want {
			t.Errorf("%v is formatted as %q, want %q", d, got, want)
		}
	}
}

// Every duration in a rule file can be in days.
func TestDaysInRuleFiles(t *testing.T) {
	p, err := permission.Parse(permission.File{Name: "a", Data: []byte(`version: 1
name: days
defaults: {expiry: 7d}
rules:
  - {name: a, tool: t, behavior: ask}
  - {name: b, tool: t, behavior: ask, expiry: 2d, approvers: {groups: [g]}, escalation: [{after: 1d12h, to: {groups: [h]}}], remember: {scope: [args.x], ttl: 30d}, executor: {timeout: 1d}}
tests:
  - {name: n, call: {tool: t}, expect: {behavior: ask, expiry: 2d}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	b := p.Rules[1]
	if p.Expiry != 7*day || b.Expiry != 2*day || b.Escalation[0].After != 36*time.Hour || b.Remember.TTL != 30*day || b.Executor.Timeout != day || *p.Tests[0].Expect.Expiry != 2*day {
		t.Errorf("%v, %+v", p.Expiry, b)
	}
	for _, text := range []string{"0d", "367d", "-1d", "7"} {
		if _, err := permission.Parse(permission.File{Name: "a", Data: []byte("version: 1\nname: x\ndefaults: {expiry: " + text + "}\nrules: []\n")}); err == nil {
			t.Errorf("expiry %s is accepted", text)
		}
	}
}
