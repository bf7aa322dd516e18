package permission_test

import (
	"context"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// TestFrontendTools: rules may name tools that no tools file declares, but a misspelled name of a
// declared tool is still an error.
func TestFrontendTools(t *testing.T) {
	tools := []permission.Tool{{Name: "pay"}, {Name: "frontend/odd"}}
	compile := func(rules string) (*permission.Bundle, error) {
		p, err := permission.Parse(permission.File{Name: "a.yaml", Data: []byte("version: 1\nname: a\nrules:\n" + rules)})
		if err != nil {
			t.Fatal(err)
		}
		return permission.Compile(p, permission.Options{Tools: tools})
	}
	b, err := compile(`  - {name: picks, tool: frontend/pick, behavior: allow, when: args.n < 3}
  - {name: shows, tool: [frontend/show, pay], behavior: deny}
  - {name: odd, tool: frontend/odd, behavior: allow}
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool, input string
		want        message.Behavior
	}{
		{"pick", `{"n":1}`, message.BehaviorAllow}, {"pick", `{"n":5}`, message.BehaviorAsk}, {"show", `{}`, message.BehaviorDeny}, {"pay", `{}`, message.BehaviorDeny},
		{"frontend/odd", `{}`, message.BehaviorAllow}, {"odd", `{}`, message.BehaviorAsk}, {"frontend/pick", `{"n":1}`, message.BehaviorAsk}, {"other", `{}`, message.BehaviorAsk},
	} {
		if d := b.Decide(context.Background(), permission.Request{Tool: c.tool, Input: []byte(c.input)}); d.Behavior != c.want {
			t.Errorf("%s %s: %s (%s), want %s", c.tool, c.input, d.Behavior, d.Reason, c.want)
		}
	}
	for _, rule := range []string{`{name: x, tool: pick, behavior: allow}`, `{name: x, tool: frontend/pay, behavior: allow}`, `{name: x, tool: frontend/, behavior: deny}`, `{name: x, tool: "frontend/*", behavior: deny}`} {
		if _, err := compile("  - " + rule + "\n"); err == nil || !strings.Contains(err.Error(), "tool") {
			t.Errorf("%s: %v", rule, err)
		}
	}
}
