package permission_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission"
)

// The error about an undeclared tool says how to name a tool that the agent or the MCP gateway supplies.
func TestUnknownToolSaysWhatToWrite(t *testing.T) {
	for name, want := range map[string]string{
		"refund":        "there is no tool refund (declare it in the tools file, or write frontend/refund for a tool that the agent or the MCP gateway supplies)",
		"frontend/ship": "there is no tool frontend/ship (the tools file declares ship: write the name without frontend/)",
	} {
		rules := permission.Rule{Name: "small", Tools: []string{name}, Behavior: "ask"}
		_, err := permission.Compile(permission.Policy{Rules: []permission.Rule{rules}}, permission.Options{Tools: []permission.Tool{{Name: "ship"}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error about %s is %v", name, err)
		}
	}
}
