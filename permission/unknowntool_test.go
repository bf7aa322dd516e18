package permission_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission"
)

// The error about an undeclared tool says how to name a tool that the agent or the MCP gateway supplies.
func TestUnknownToolSaysWhatToWrite(t *testing.T) {
	rules := permission.Rule{Name: "small", Tools: []string{"refund"}, Behavior: "ask"}
	_, err := permission.Compile(permission.Policy{Rules: []permission.Rule{rules}}, permission.Options{Tools: []permission.Tool{{Name: "ship"}}})
	if err == nil || !strings.Contains(err.Error(), "there is no tool refund (declare it in the tools file, or write frontend/refund for a tool that the agent or the MCP gateway supplies)") {
		t.Errorf("the error is %v", err)
	}
}
