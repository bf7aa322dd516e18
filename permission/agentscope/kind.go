package agentscope

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// The parts of the kinds' checks that a decision can name as its step.
const (
	StepInjection        permission.Step = "injection"         // what runs is not known before it runs
	StepDangerousCommand permission.Step = "dangerous_command" // the text of a command that destroys
	StepSed              permission.Step = "sed"               // a sed that does more than print or replace
	StepDangerousPath    permission.Step = "dangerous_path"    // a file that holds credentials, or that others run
	StepDangerousRemoval permission.Step = "dangerous_removal" // the root, a folder in it, home, or all of a folder
	StepWorkingDirectory permission.Step = "working_directory" // an edit inside a working directory
	StepHidden           permission.Step = "hidden_character"  // a person cannot see what runs
)

// The names of the kinds, as tool files write them.
const (
	Bash       = "bash"
	Read       = "read"
	Write      = "write"
	Edit       = "edit"
	Glob       = "glob"
	Grep       = "grep"
	PowerShell = "powershell"
	MCP        = "mcp"
	Function   = "function"
)

var makers = map[string]func(Config) permission.Kind{
	Bash:       func(c Config) permission.Kind { return bash{c} },
	Read:       func(c Config) permission.Kind { return file{c, Read, false} },
	Write:      func(c Config) permission.Kind { return file{c, Write, true} },
	Edit:       func(c Config) permission.Kind { return file{c, Edit, true} },
	Glob:       func(c Config) permission.Kind { return search{c, Glob} },
	Grep:       func(c Config) permission.Kind { return search{c, Grep} },
	PowerShell: func(c Config) permission.Kind { return plain{c, PowerShell} },
	MCP:        func(c Config) permission.Kind { return plain{c, MCP} },
	Function:   func(c Config) permission.Kind { return plain{c, Function} },
}

// Names lists the kinds, sorted.
func Names() []string {
	out := make([]string, 0, len(makers))
	for name := range makers {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// ErrUnknownKind is the cause of New's error.
var ErrUnknownKind = errors.New("unknown kind of tool")

// New makes the kind of that name.
func New(name string, c Config) (permission.Kind, error) {
	maker, ok := makers[name]
	if !ok {
		return nil, fmt.Errorf("%w %q, use one of %s", ErrUnknownKind, name, strings.Join(Names(), ", "))
	}
	return maker(c), nil
}

// name is a kind's name with all that makes it decide differently.
func (c Config) name(kind string) string {
	name := "agentscope." + kind
	if c.Home != "" {
		name += " home=" + c.Home
	}
	if c.Links != nil {
		name += " links"
	}
	return name
}

// text is an argument that has to be text; "" if it is absent or null.
func (c Config) text(call permission.Call, name string) (string, error) {
	switch v := call.Input[name].(type) {
	case string:
		return v, nil
	case nil:
		return "", nil
	default:
		return "", fmt.Errorf("%s is not text", name)
	}
}

// malformed is the verdict on arguments that are not what the tool takes.
func malformed(err error) permission.ToolVerdict {
	return permission.ToolVerdict{Answer: permission.CheckAskImmune, Message: err.Error()}
}

func immune(step permission.Step, why string) permission.ToolVerdict {
	return permission.ToolVerdict{Answer: permission.CheckAskImmune, Step: step, Message: why}
}

// uncovered is the verdict on what upstream does not see: whatever the allow
// rules say it is asked about, as upstream asks where no rule allows.
func uncovered(why string) permission.ToolVerdict {
	return permission.ToolVerdict{Answer: permission.CheckUncovered, Message: why}
}

// suggest is one rule to offer with an approval request.
func suggest(c permission.Call, content *string) message.PermissionRule {
	return message.PermissionRule{ToolName: c.Tool, RuleContent: content, Behavior: message.BehaviorAllow, Source: "suggested"}
}

// editsFreely reports whether the mode lets tools edit inside the working
// directories.
func editsFreely(m permission.Mode) bool {
	return m == permission.ModeAcceptEdits || m == permission.ModeDontAsk
}

// pathPattern is the content of a rule about paths.
type pathPattern struct {
	content string
	narrow  bool // it means less than upstream
	match   func(permission.Call) (bool, error)
}

// Match implements permission.Pattern.
func (p pathPattern) Match(c permission.Call) (bool, error) { return p.match(c) }

// Notice says where an allow rule means less than upstream.
func (p pathPattern) Notice() string {
	if !p.narrow || strings.HasPrefix(p.content, "/") || strings.HasPrefix(p.content, "~/") || strings.HasPrefix(p.content, "../") {
		return ""
	}
	return "allows files in the working directories; in AgentScope it allows every path whose text matches, .. and absolute ones included"
}
