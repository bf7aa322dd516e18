package standing

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestNarrower(t *testing.T) {
	for _, c := range []struct {
		narrow, wide string
		want         bool
	}{
		{"git push origin:*", "git push:*", true},
		{"git push:*", "git push:*", false}, // the same: not narrower
		{"git:*", "git push:*", false},
		{"git pushy:*", "git push:*", false},
		{"git push origin", "git push:*", false}, // read as text that a line contains
		{"git push *", "git push:*", false},
		{"git push o; rm:*", "git push:*", false},
		{"git push $X:*", "git push:*", false},
		{"git push 'a':*", "git push:*", false},
		{"src/lib/**", "src/**", true},
		{"src/lib/a.go", "src/**", true},
		{"src/**", "src/**", false},
		{"src2/**", "src/**", false},
		{"src/../etc/**", "src/**", false},
		{"src/./a", "src/**", false},
		{"src/*", "src/**", false},
		{"src/[a]/**", "src/**", false},
		{"/etc/**", "**", false},
		{"anything", "", true},
		{"", "src/**", false},
		{"x y", "x", false},
	} {
		rule := func(content string) message.PermissionRule {
			return message.PermissionRule{ToolName: "t", RuleContent: &content, Behavior: message.BehaviorAllow}
		}
		if got := isNarrower(rule(c.narrow), rule(c.wide)); got != c.want {
			t.Errorf("isNarrower(%q, %q) = %v, want %v", c.narrow, c.wide, got, c.want)
		}
	}
}

// A long path is not cut within a character: clients get the error as JSON.
func TestErrorAboutLongBudget(t *testing.T) {
	b := &toolcall.Budget{Path: "args." + strings.Repeat("é", 60), Limit: "1"}
	err := (&Approvals{}).checkBudget(&toolcall.Call{Input: "{}"}, b)
	if err == nil || !utf8.ValidString(err.Error()) {
		t.Errorf("error %q", err)
	}
}
