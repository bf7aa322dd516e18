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

// malformedVerdict is the verdict on arguments that are not what the tool takes.
func malformedVerdict(err error) permission.ToolVerdict {
	return permission.ToolVerdict{Answer: permission.CheckAskImmune, Message: err.Error()}
}

func immuneVerdict(step permission.Step, why string) permission.ToolVerdict {
	return permission.ToolVerdict{Answer: permission.CheckAskImmune, Step: step, Message: why}
}

// uncoveredVerdict is the verdict on what upstream does not see: no allow rule
// covers it and it is asked about, as upstream asks where no rule allows.
func uncoveredVerdict(why string) permission.ToolVerdict {
	return permission.ToolVerdict{Answer: permission.CheckUncovered, Message: why}
}

// suggestRule is one rule to offer with an approval request.
func suggestRule(c permission.Call, content *string) message.PermissionRule {
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

// Links follows the symbolic links of a path that a program in the folder cwd
// opens, and makes it absolute. permission.ResolveLinks does so on this
// machine.
type Links func(cwd, path string) (string, error)

// Config is what the kinds have to know of the place where their tools run.
type Config struct {
	// Home is the home directory of the user as whom the tools run; "": not
	// known, and then no path that begins with ~ counts as harmless.
	Home string
	// Links is used for deciding whether a path is inside a working directory.
	// nil looks at no file: right for tools that run on another machine, where a
	// link can lead out of the directory unseen.
	Links Links
}

// plain is a tool with no known property but its name: a function, a tool of
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
	return []message.PermissionRule{suggestRule(c, nil)}
}
