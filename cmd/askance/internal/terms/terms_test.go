package terms_test

import (
	"testing"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/terms"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestUntil(t *testing.T) {
	for _, tc := range []struct {
		text string
		want time.Time
		bad  bool
	}{
		{"", time.Time{}, false},
		{"2h", now.Add(2 * time.Hour), false},
		{"2026-11-22T13:00:00+01:00", now.Add(24 * time.Hour), false},
		{"-2h", time.Time{}, true},
		{"0s", time.Time{}, true},
		{"tomorrow", time.Time{}, true},
	} {
		got, err := terms.Until(tc.text, now)
		if !got.Equal(tc.want) || (err != nil) != tc.bad {
			t.Errorf("Until(%q) = %v, %v", tc.text, got, err)
		}
	}
}

func TestUses(t *testing.T) {
	for text, want := range map[string]int{"": 0, "0": 0, "3": 3, "1000": 1000, "1001": -1, "-1": -1, "some": -1, "3.5": -1} {
		got, err := terms.Uses(text)
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("Uses(%q) = %d, %v", text, got, err)
		}
	}
}

func TestBudget(t *testing.T) {
	for text, want := range map[string]toolcall.Budget{
		"args.cents=100":    {Path: "args.cents", Limit: "100"},
		" args.x = 99.95 ":  {Path: "args.x", Limit: "99.95"},
		"args.cents":        {},
		"=100":              {},
		"args.cents=":       {},
		"args.a=1=2":        {Path: "args.a", Limit: "1=2"}, // not a number: the engine reports it
		"args.cents = none": {Path: "args.cents", Limit: "none"},
	} {
		got, err := terms.Budget(text)
		if want == (toolcall.Budget{}) && err == nil || want != (toolcall.Budget{}) && (err != nil || *got != want) {
			t.Errorf("Budget(%q) = %v, %v", text, got, err)
		}
	}
	if got, err := terms.Budget(""); got != nil || err != nil {
		t.Errorf("no budget is %v, %v", got, err)
	}
}

func TestScope(t *testing.T) {
	if s, err := terms.Scope(""); s != toolcall.ScopeSession || err != nil {
		t.Errorf("the default is %q, %v", s, err)
	}
	for _, s := range toolcall.Scopes() {
		if got, err := terms.Scope(string(s)); got != s || err != nil {
			t.Errorf("%q is %q, %v", s, got, err)
		}
	}
	if _, err := terms.Scope("world"); err == nil {
		t.Error("the scope world is accepted")
	}
}

func TestAllow(t *testing.T) {
	if r := terms.Allow("pay", ""); r.RuleContent != nil || r.ToolName != "pay" || r.Behavior != message.BehaviorAllow {
		t.Errorf("%+v", r)
	}
	if r := terms.Allow("Bash", "git push:*"); r.RuleContent == nil || *r.RuleContent != "git push:*" {
		t.Errorf("%+v", r)
	}
}
