package agentscope

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/internal/paths"
)

// The parts of the kinds' checks that a decision can name as its step.
const (
	StepInjection        permission.Step = "injection"         // what runs is unknown before it runs
	StepDangerousCommand permission.Step = "dangerous_command" // the text of a destructive command
	StepSed              permission.Step = "sed"               // a sed that does more than print or replace
	StepDangerousPath    permission.Step = "dangerous_path"    // a file with credentials, or one that other programs run
	StepDangerousRemoval permission.Step = "dangerous_removal" // the root, a folder in it, home, or everything in a folder
	StepWorkingDirectory permission.Step = "working_directory" // an edit inside a working directory
	StepHidden           permission.Step = "hidden_character"  // a person cannot see what runs
)

// The names of the kinds, as written in tool files.
const (
	Bash       = "bash"
	Read       = "read"
	Write      = "write"
	Edit       = "edit"
	Glob       = "glob"
	Grep       = "grep"
	PowerShell = "powershell"
	Cmd        = "cmd"
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
	PowerShell: func(c Config) permission.Kind { return opaque{plain{c, PowerShell}} },
	Cmd:        func(c Config) permission.Kind { return opaque{plain{c, Cmd}} },
	MCP:        func(c Config) permission.Kind { return plain{c, MCP} },
	Function:   func(c Config) permission.Kind { return plain{c, Function} },
}

// Names lists the kinds, sorted.
func Names() []string { return slices.Sorted(maps.Keys(makers)) }

// ErrUnknownKind is the cause of New's error.
var ErrUnknownKind = errors.New("unknown kind of tool")

// New returns the kind with that name.
func New(name string, c Config) (permission.Kind, error) {
	maker, ok := makers[name]
	if !ok {
		return nil, fmt.Errorf("%w %q, use one of %s", ErrUnknownKind, name, strings.Join(Names(), ", "))
	}
	k := maker(c)
	if _, reads := k.(permission.ArgumentKind); c.Argument != "" && !reads {
		return nil, fmt.Errorf("%s reads no argument, so that argument: %s has no meaning; remove it", name, c.Argument)
	}
	return k, nil
}

// name returns a kind's name with everything that makes it decide differently.
func (c Config) name(kind string) string {
	name := "agentscope." + kind
	if c.Home != "" {
		name += " home=" + c.Home
	}
	if c.Links != nil {
		name += " links"
	}
	if c.Argument != "" {
		name += " argument=" + c.Argument
	}
	return name
}

// text returns an argument that must be text; "" if it is absent or null.
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

func malformedVerdict(err error) permission.ToolVerdict {
	return permission.ToolVerdict{Answer: permission.CheckAskImmune, Message: err.Error()}
}

func immuneVerdict(step permission.Step, why string) permission.ToolVerdict {
	return permission.ToolVerdict{Answer: permission.CheckAskImmune, Step: step, Message: why}
}

// uncoveredVerdict is the verdict on what upstream does not see: no allow rule covers
// it, and it is asked about like a call that no rule allows.
func uncoveredVerdict(why string) permission.ToolVerdict {
	return permission.ToolVerdict{Answer: permission.CheckUncovered, Message: why}
}

func suggestRule(c permission.Call, content *string) message.PermissionRule {
	return message.PermissionRule{ToolName: c.Tool, RuleContent: content, Behavior: message.BehaviorAllow, Source: "suggested"}
}

// editsFreely reports whether edits in working directories need no rule. Upstream
// includes dont_ask, which would then allow what default mode asks about.
func editsFreely(m permission.Mode) bool { return m == permission.ModeAcceptEdits }

type pathPattern struct {
	content string
	allows  bool
	narrow  bool // it matches less than in upstream
	match   func(permission.Call) (bool, error)
}

func (p pathPattern) Match(c permission.Call) (bool, error) { return p.match(c) }

// Notice says where an allow rule covers less than in AgentScope.
func (p pathPattern) Notice() string {
	if p.allows && paths.IsForeign(p.content) {
		return "allows no call: it is a path of Windows, and no allow rule covers such paths; use a relative content, or when"
	}
	if !p.narrow || strings.HasPrefix(p.content, "/") || strings.HasPrefix(p.content, "~/") || strings.HasPrefix(p.content, "../") {
		return ""
	}
	return "allows files in the working directories; in AgentScope it allows every path whose text matches, .. and absolute ones included"
}

// Links resolves the symbolic links of a path that a program in the folder cwd opens,
// and makes the path absolute. permission.ResolveLinks does so on this machine.
type Links func(cwd, path string) (string, error)

// Config is what the kinds need to know about the place where their tools run.
type Config struct {
	// Home is the home directory of the user that runs the tools. If it is "", it is
	// not known, and no path that begins with ~ is harmless.
	Home string
	// Links is used to decide whether a path is inside a working directory. If it is
	// nil, no file is looked at. This is right for tools on another machine, where a
	// link may then lead out of the directory unnoticed.
	Links Links
	// Argument is the name of the argument with the command or the path. If it is "",
	// AgentScope's name applies: command, file_path or path.
	Argument string
}

// argument describes the argument with the command or the path; usual is AgentScope's name.
func (c Config) argument(usual, what string, others string) permission.Argument {
	return permission.Argument{Name: cmp.Or(c.Argument, usual), What: what, Others: strings.Fields(others)}
}

// plain is a tool with no known property except its name: a function, or a tool of an
// MCP server. Every call asks, unless the tool is declared read-only.
type plain struct {
	Config
	kind string
}

func (p plain) Name() string { return p.name(p.kind) }

func (plain) Prepare(permission.Call) any { return nil }

func (plain) ReadOnly(permission.Call) bool { return false }

func (p plain) Check(permission.Call) permission.ToolVerdict {
	return permission.ToolVerdict{Answer: permission.CheckAsk}
}

func (p plain) Compile(string, message.Behavior) (permission.Pattern, error) {
	return nil, permission.ErrNoContent
}

func (p plain) Suggest(c permission.Call) []message.PermissionRule {
	return []message.PermissionRule{suggestRule(c, nil)}
}

// opaque is a shell of Windows. Nothing reads its lines, so no rule content covers one,
// and a rule for all lines is too much to suggest.
type opaque struct{ plain }

// Opaque implements permission.OpaqueKind.
func (opaque) Opaque() {}

func (opaque) Suggest(permission.Call) []message.PermissionRule { return nil }

// file is a tool that reads or writes the file in one argument.
type file struct {
	Config
	kind   string
	writes bool
}

func (f file) Name() string { return f.name(f.kind) }

// Argument implements permission.ArgumentKind.
func (f file) Argument() permission.Argument {
	return f.argument("file_path", "path", "content old_string new_string edits")
}

func (f file) path(c permission.Call) (string, error) { return f.text(c, f.Argument().Name) }

func (file) Prepare(permission.Call) any { return nil }

func (f file) ReadOnly(c permission.Call) bool {
	path, err := f.path(c)
	return !f.writes && err == nil && f.isPlain(path)
}

func (f file) Check(c permission.Call) permission.ToolVerdict {
	path, err := f.path(c)
	switch {
	case err != nil:
		return malformedVerdict(err)
	case path == "" || !f.writes:
		return permission.ToolVerdict{}
	}
	at := f.places(c)
	if at.isDangerous(path) {
		return immuneVerdict(StepDangerousPath, "it writes the sensitive file "+path)
	}
	if at.leadsToDanger(path) {
		return uncoveredVerdict("a link may lead to a sensitive file from " + path)
	}
	if editsFreely(c.Mode) && at.isInside(path) && at.isProvenInside(path) {
		return permission.ToolVerdict{Answer: permission.CheckAllow, Step: StepWorkingDirectory, Message: "the file is in a working directory"}
	}
	return permission.ToolVerdict{}
}

// Suggest suggests a rule for the folder of the file.
func (f file) Suggest(c permission.Call) []message.PermissionRule {
	path, err := f.path(c)
	if err != nil || path == "" || !f.isPlain(path) {
		return nil
	}
	content := "**"
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		content = strings.TrimRight(path[:i], `/\`) + "/**"
	}
	if f.checkHome(content, message.BehaviorAllow) != nil {
		return nil // the rule would not load
	}
	return []message.PermissionRule{suggestRule(c, &content)}
}

// Compile compiles the content of a rule. Reading needs no allow rule, so an allow rule
// about reading is as wide as in upstream.
func (f file) Compile(content string, behavior message.Behavior) (permission.Pattern, error) {
	allows := behavior == message.BehaviorAllow
	raw := allows && !f.writes
	match := func(c permission.Call) (bool, error) {
		path, err := f.path(c)
		switch {
		case err != nil || path == "":
			return false, err
		case !allows:
			return f.places(c).isDenied(content, path)
		case !f.isPlain(path) || !matchName(content, path):
			return false, nil
		default:
			return raw || f.places(c).isCovered(content, path), nil
		}
	}
	return pathPattern{content: content, allows: allows, narrow: allows && !raw, match: match}, f.checkHome(content, behavior)
}

// search is a tool that searches for files or text below the folder in one argument, or
// below the current folder.
type search struct {
	Config
	kind string
}

func (s search) Name() string { return s.name(s.kind) }

// Argument implements permission.ArgumentKind.
func (s search) Argument() permission.Argument {
	a := s.argument("path", "path", "pattern glob include exclude type output_mode")
	a.Default = true
	return a
}

func (search) Prepare(permission.Call) any { return nil }

func (s search) ReadOnly(c permission.Call) bool {
	if s.wellFormed(c) != nil {
		return false
	}
	folder, _ := s.path(c)
	looked, _ := s.text(c, "pattern")
	return s.isPlain(folder) && (s.kind != Glob || s.isPlain(looked))
}

func (s search) Check(c permission.Call) permission.ToolVerdict {
	if err := s.wellFormed(c); err != nil {
		return malformedVerdict(err)
	}
	return permission.ToolVerdict{}
}

func (s search) wellFormed(c permission.Call) error {
	_, badPath := s.path(c)
	_, badPattern := s.text(c, "pattern")
	return errors.Join(badPath, badPattern)
}

func (s search) path(c permission.Call) (string, error) { return s.text(c, s.Argument().Name) }

func (s search) folder(c permission.Call) (string, error) {
	path, err := s.path(c)
	return cmp.Or(path, c.Folder, c.Cwd), err
}

// Suggest suggests a rule for the folder.
func (s search) Suggest(c permission.Call) []message.PermissionRule {
	folder, err := s.folder(c)
	if err != nil || !s.ReadOnly(c) {
		return nil
	}
	content := strings.TrimRight(s.places(c).absolute(folder), `/\`) + "/**"
	return []message.PermissionRule{suggestRule(c, &content)}
}

// Compile compiles the content of a rule. Searching needs no allow rule, so an allow
// rule is as wide as in upstream.
func (s search) Compile(content string, behavior message.Behavior) (permission.Pattern, error) {
	match := func(c permission.Call) (bool, error) {
		folder, badPath := s.folder(c)
		looked, badPattern := s.text(c, "pattern")
		raw, at, bad := s.matchText(content, c, folder, looked), s.places(c), errors.Join(badPath, badPattern)
		if behavior == message.BehaviorAllow {
			return raw && bad == nil && s.ReadOnly(c), bad
		}
		// Upstream treats an argument of another type as absent.
		denied, err := at.isDenied(content, folder)
		err = errors.Join(err, bad)
		if s.kind == Glob && looked != "" { // the pattern of Glob may also name the folder
			below, bad := at.isDenied(content, pathBelow(folder, looked))
			denied, err = denied || below, errors.Join(err, bad)
		}
		if raw || denied {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		return s.reaches(content, c, folder, looked)
	}
	return pathPattern{content: content, allows: behavior == message.BehaviorAllow, match: match}, s.checkHome(content, behavior)
}

// matchText matches as upstream does: for Grep the folder, for Glob the given path and
// then the pattern.
func (s search) matchText(content string, c permission.Call, folder, looked string) bool {
	if s.kind == Grep {
		return matchName(content, folder)
	}
	given, _ := s.path(c) // folder was read from it
	return given != "" && matchName(content, given) || looked != "" && matchName(content, looked)
}

func pathBelow(folder, name string) string {
	if strings.HasPrefix(name, "/") || paths.IsForeign(name) && !strings.HasPrefix(name, ".") {
		return name
	}
	return folder + "/" + name
}
