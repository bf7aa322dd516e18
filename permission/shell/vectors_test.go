package shell_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission/shell"
)

// row is one line of bash_bypass.jsonl, which its README describes.
type row struct {
	Command    string   `json:"command"`
	AllowRules []string `json:"allow_rules"`
	Verdict    string   `json:"verdict"`
	Why        string   `json:"why"`
}

func rows(t testing.TB) []row {
	t.Helper()
	text, err := os.ReadFile("testdata/policy/bash_bypass.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []row
	for line := range strings.Lines(string(text)) {
		var r row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if len(all) != 60 {
		t.Fatalf("%d rows, want 60", len(all))
	}
	return all
}

func patterns(t testing.TB, contents ...string) []*shell.Pattern {
	t.Helper()
	var all []*shell.Pattern
	for _, c := range contents {
		p, err := shell.Compile(c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// verdict returns the decision of a policy with only allow rules in the default mode.
func verdict(l *shell.Line, allow []*shell.Pattern) string {
	switch {
	case l.Hidden != nil:
		return "deny"
	case l.Cover(allow).Covered:
		return "allow"
	}
	return "ask"
}

func TestBypassVectors(t *testing.T) {
	for _, r := range rows(t) {
		t.Run(r.Command, func(t *testing.T) {
			l := shell.Parse(r.Command)
			allow := patterns(t, r.AllowRules...)
			if got := verdict(l, allow); got != r.Verdict {
				t.Errorf("%s, want %s: %s\n%+v", got, r.Verdict, r.Why, l.Cover(allow))
			}
			if got := l.Covers(allow); got != l.Cover(allow).Covered {
				t.Errorf("Covers returns %v, Cover %v", got, !got)
			}
		})
	}
}
