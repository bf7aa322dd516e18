package standing

import (
	"testing"

	"github.com/askance-dev/askance/message"
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
