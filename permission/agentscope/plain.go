package agentscope

import (
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// plain is a tool of which nothing is known but its name: a function, a tool of
// an MCP server, PowerShell. Every call asks, unless the tool is declared
// read-only.
type plain struct {
	Config
	kind string
}

func (k plain) Name() string { return k.name(k.kind) }

func (plain) Prepare(permission.Call) any { return nil }

func (plain) ReadOnly(permission.Call) bool { return false }

func (k plain) Check(permission.Call) permission.ToolVerdict {
	return permission.ToolVerdict{Answer: permission.CheckAsk}
}

func (k plain) Compile(string, message.Behavior) (permission.Pattern, error) {
	return nil, permission.ErrNoContent
}

func (k plain) Suggest(c permission.Call) []message.PermissionRule {
	if k.kind == PowerShell {
		return nil // a rule for all of PowerShell is too much to offer
	}
	return []message.PermissionRule{suggest(c, nil)}
}
