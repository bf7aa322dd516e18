package lint

import (
	"regexp"
	"slices"
	"strings"

	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"

	"github.com/askance-dev/askance/permission"
)

// interpreters run other programs, or any text they are given: allowing one allows everything.
var interpreters = []string{
	"sh", "bash", "zsh", "dash", "ksh", "fish", "csh", "tcsh", "pwsh", "powershell", "cmd",
	"python", "python2", "python3", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "tclsh", "osascript",
	"env", "sudo", "su", "doas", "xargs", "eval", "exec", "source", ".", "command", "builtin", "nohup", "timeout", "nice",
	"setsid", "stdbuf", "time", "watch", "chroot", "flock", "busybox", "ssh", "docker", "podman", "kubectl exec",
	"make", "npx", "uvx", "pipx", "awk", "gawk", "mawk", "ed", "vi", "vim", "emacs", "gdb", "script", "parallel", "expect",
}

// shells are AgentScope's tools that take a command line.
var shells = []string{"Bash", "PowerShell"}

// writers are AgentScope's tools that change files.
var writers = []string{"Write", "Edit", "MultiEdit", "NotebookEdit"}

// isShell reports whether a tool takes a command line, by its kind or by its AgentScope name.
func (l *linter) isShell(tool string) bool {
	return slices.Contains(shells, tool) || slices.ContainsFunc(l.opts.Tools, func(t permission.Tool) bool {
		_, shell := t.Kind.(permission.ShellKind)
		_, opaque := t.Kind.(permission.OpaqueKind)
		return t.Name == tool && (shell || opaque)
	})
}

// checkBroad looks for allow rules that match every call of a tool.
func (l *linter) checkBroad(r *permission.Rule) {
	if !isAllow(r) || r.When != "" || r.HasContent() || r.IKnow || !r.IsEnforced() {
		return
	}
	for _, t := range l.broadTools(r) {
		switch {
		case t.ReadOnly:
		case l.isShell(t.Name):
			l.add(AlwaysTrue, Error, r, "tool_name", "allows every command line of "+t.Name, "add rule_content, or write i_know: true")
		case slices.Contains(writers, t.Name):
			l.add(AlwaysTrue, Error, r, "tool_name", "allows "+t.Name+" everywhere", "add rule_content, or write i_know: true")
		case t.Destructive:
			l.add(AlwaysTrue, Error, r, "tool_name", "allows every call of "+t.Name+", which is declared destructive", "add a condition, or write i_know: true")
		case !t.Idempotent && t.Kind == nil && slices.ContainsFunc(l.opts.Tools, func(d permission.Tool) bool { return d.Name == t.Name }):
			l.add(AlwaysTrue, Warning, r, "tool_name", "allows every call of "+t.Name+", which nothing declares harmless",
				"add a condition, or write i_know: true")
		}
	}
}

func (l *linter) broadTools(r *permission.Rule) []permission.Tool {
	out := l.tools(r)
	for _, name := range r.Tools {
		if !slices.ContainsFunc(out, func(t permission.Tool) bool { return t.Name == name }) {
			out = append(out, permission.Tool{Name: name})
		}
	}
	return out
}

func (l *linter) checkContent(r *permission.Rule) {
	if !r.HasContent() || !slices.ContainsFunc(r.Tools, l.isShell) {
		return
	}
	content := *r.RuleContent
	if isAllow(r) && !r.IKnow {
		if content == "*" || content == ":*" {
			l.add(AlwaysTrue, Error, r, "rule_content", "allows every command line", "name the programs, or write i_know: true")
		} else if program := runsProgram(content); program != "" {
			l.add(Interpreter, Error, r, "rule_content", "allows "+program+", which runs any text it is given",
				"allow the exact command, or write i_know: true")
		}
	}
	switch {
	case strings.HasSuffix(content, ":*"), isExactCommand(content):
	case !strings.Contains(content, "*"):
		l.add(Boundary, Warning, r, "rule_content", "without * the text matches anywhere in the command: "+content+" is found inside longer words",
			"write "+content+":*")
	case strings.ContainsAny(content, "|;&<>") && !strings.ContainsAny(content, `'"\`):
		l.add(Boundary, Warning, r, "rule_content", "has an operator, so it matches only a line written in exactly this way: one space more or less evades it",
			"name the program: curl:*")
	case hasGluedStar(content):
		l.add(Boundary, Warning, r, "rule_content", "the * continues inside a word: "+content+" also matches longer names",
			"put a space before the *, or write :*")
	}
}

// A path that bareNames matches is one of a folder, unless bareFiles matches it.
var (
	bareNames = regexp.MustCompile(`^(?:[^*]*/)?(?:\.{1,2}|\.(?:ssh|aws|gnupg|kube|docker|git|config)|[^./*]+)$`)
	bareFiles = regexp.MustCompile(`(?:^|/)(?:Makefile|Dockerfile|LICENSE|README|passwd|shadow|group|hosts|sudoers|id_\w+|authorized_keys|known_hosts|credentials|\.(?:kube|ssh|aws|git)/config)$`)
)

// checkFolder looks for deny and ask rules that are meant for the files in a folder.
func (l *linter) checkFolder(r *permission.Rule) {
	if isAllow(r) || !r.HasContent() || !slices.ContainsFunc(l.broadTools(r), takesFile) {
		return
	}
	if folder, ends := strings.CutSuffix(*r.RuleContent, "/"); ends {
		l.add(Folder, Error, r, "rule_content", "names a folder, and matches no file in it", "write "+folder+"/**")
	} else if bareNames.MatchString(folder) && !bareFiles.MatchString(folder) {
		l.add(Folder, Warning, r, "rule_content", "matches "+folder+" itself, and no file in it if it is a folder", "for a folder, write "+folder+"/**")
	}
}

func takesFile(t permission.Tool) bool {
	k, ok := t.Kind.(permission.PathKind)
	return ok && k.Files() != permission.FilesShown || t.Name == permission.AnyTool || t.Name == "Read" || slices.Contains(writers, t.Name)
}

// isExactCommand reports whether content names a whole command with options, which allow rules read
// as words.
func isExactCommand(content string) bool {
	return strings.Contains(content, " ") && !strings.Contains(content, "*")
}

// hasGluedStar reports whether a star follows a letter of a name.
func hasGluedStar(content string) bool {
	for i := 1; i < len(content); i++ {
		if content[i] == '*' && content[i-1] != ' ' && content[i-1] != '\\' && content[i-1] != '/' && content[i-1] != '*' {
			return true
		}
	}
	return false
}

func runsProgram(content string) string {
	words := strings.Fields(strings.TrimSuffix(content, ":*"))
	if len(words) == 0 {
		return ""
	}
	program := words[0]
	if i := strings.LastIndexByte(program, '/'); i >= 0 {
		program = program[i+1:]
	}
	program = strings.TrimRight(program, "*")
	if slices.Contains(interpreters, program) && !strings.HasPrefix(content, "time:") {
		return program
	}
	if len(words) > 1 && slices.Contains(interpreters, program+" "+strings.TrimRight(words[1], "*")) {
		return program + " " + words[1]
	}
	// python3.12 is also python.
	for _, known := range []string{"python", "ruby", "perl", "php", "lua", "node"} {
		if rest, ok := strings.CutPrefix(program, known); ok && strings.Trim(rest, "0123456789.") == "" {
			return program
		}
	}
	return ""
}

// checkCommandWords looks at the programs that a condition compares with, as in c.argv[0] == "python"
// and c.argv[0] in ["sh"]: for interpreters in an allow rule, and for those that a deny or ask rule
// is about.
func (c *expr) checkCommandWords() {
	if c.Rule.IKnow || !isAllow(c.Rule) && c.Rule.HasContent() {
		return
	}
	negated := map[int64]bool{}
	c.eachCall(func(e celast.Expr, name string) {
		if name == operators.LogicalNot {
			celast.PostOrderVisit(e, celast.NewExprVisitor(func(part celast.Expr) { negated[part.ID()] = true }))
		}
	})
	c.eachCall(func(e celast.Expr, name string) {
		if name != operators.Equals && name != operators.In || !isAllow(c.Rule) && negated[e.ID()] {
			return
		}
		words, other := e.AsCall().Args()[0], e.AsCall().Args()[1]
		if !strings.HasSuffix(c.text(words), ".argv[0]") {
			words, other = other, words
		}
		if !strings.HasSuffix(c.text(words), ".argv[0]") {
			return
		}
		programs := []celast.Expr{other}
		if other.Kind() == celast.ListKind {
			programs = other.AsList().Elements()
		}
		for _, p := range programs {
			word, ok := textLiteral(p)
			switch {
			case !ok:
			case !isAllow(c.Rule):
				c.report(Boundary, Warning, p, "sees only a program that is written "+word+": /bin/"+word+", upper case and $X evade it", "write rule_content: \""+word+":*\", also next to when")
			case runsProgram(word) != "":
				c.report(Interpreter, Error, p, "allows "+word+", which runs any text it is given", "allow the exact command, or write i_know: true")
			}
		}
	})
}

// commandList is the variable with the commands of a line.
const commandList = "cmd.calls"

// commandCheck checks conditions on the commands of a line.
type commandCheck struct{ *expr }

func (c commandCheck) readsCalls() bool {
	found := false
	c.eachPart(func(e celast.Expr) { found = found || e.Kind() == celast.SelectKind && c.text(e) == commandList })
	return found
}

// checkCommandParts looks for allow rules that check the commands of a line but leave part of them
// open.
func (c commandCheck) checkCommandParts() {
	if !isAllow(c.Rule) || c.Rule.IKnow || c.Rule.HasContent() || !c.Rule.IsEnforced() || !c.readsCalls() {
		return
	}
	if !c.demands(c.root(), func(e celast.Expr) bool { return c.text(e) == "cmd.static" }) {
		c.report(NotStatic, Error, c.root(), "allows commands without cmd.static: also with redirections, variables and $(…)", "add cmd.static &&; or write i_know: true")
	}
	if !c.demands(c.root(), c.limitsArguments) {
		c.report(OpenOptions, Error, c.root(), "allows every option of the commands, or further commands: an option can run another program or write a file",
			"write "+commandList+".all(c, … && c.options_admitted), or compare the whole c.argv; or write i_know: true")
	}
}

// demands reports whether the expression can be true only if a part that the check accepts is true.
func (c commandCheck) demands(e celast.Expr, accepts func(celast.Expr) bool) bool {
	holds := func(part celast.Expr) bool { return c.demands(part, accepts) }
	switch {
	case isCall(e, operators.LogicalAnd):
		return slices.ContainsFunc(allOf(e), holds)
	case isCall(e, operators.LogicalOr):
		return !slices.ContainsFunc(anyOf(e), func(part celast.Expr) bool { return !holds(part) })
	case isCall(e, operators.Conditional):
		return holds(e.AsCall().Args()[1]) && holds(e.AsCall().Args()[2])
	default:
		return accepts(e)
	}
}

// limitsArguments reports whether a part holds only for lines in which every command has admitted
// options or fixed arguments.
func (c commandCheck) limitsArguments(e celast.Expr) bool {
	if macro, ok := c.AST.NativeRep().SourceInfo().GetMacroCall(e.ID()); ok && isCall(macro, operators.All) && e.Kind() == celast.ComprehensionKind {
		loop := macro.AsCall()
		return c.text(e.AsComprehension().IterRange()) == commandList && c.demands(loop.Args()[len(loop.Args())-1], c.limitsCommand)
	}
	if !isCall(e, operators.Equals) { // cmd.calls.map(c, c.argv) == [["ls"]]
		return false
	}
	return slices.ContainsFunc(e.AsCall().Args(), func(side celast.Expr) bool { return c.text(side) == commandList+".map(c, c.argv)" })
}

// limitsCommand is limitsArguments for one command.
func (c commandCheck) limitsCommand(e celast.Expr) bool {
	switch {
	case e.Kind() == celast.SelectKind:
		return e.AsSelect().FieldName() == "options_admitted"
	case isCall(e, operators.Equals):
		a, b := e.AsCall().Args()[0], e.AsCall().Args()[1]
		return isArgv(a) && b.Kind() == celast.ListKind || isArgv(b) && a.Kind() == celast.ListKind
	case isCall(e, operators.In):
		return isArgv(e.AsCall().Args()[0]) && e.AsCall().Args()[1].Kind() == celast.ListKind
	default:
		return false
	}
}

func isArgv(e celast.Expr) bool {
	return e.Kind() == celast.SelectKind && e.AsSelect().FieldName() == "argv"
}

// Names of tools that take a command line, and of the arguments with it.
var (
	shellTools = []string{"bash", "sh", "zsh", "shell", "terminal", "powershell", "pwsh", "cmd", "exec", "run_command", "run_shell", "run_shell_command",
		"execute_command", "shell_exec", "run_terminal_cmd", "exec_command", "run_in_terminal", "local_shell"}
	lineArguments = []string{"command", "cmd", "command_line", "commandline", "shell_command", "bash_command"}
)

// checkShellsWithoutKind looks for rules about tools that take a command line which nothing can
// read.
func (l *linter) checkShellsWithoutKind() {
	for _, t := range l.opts.Tools {
		if t.Kind != nil || l.opts.Matchers[t.Name] != nil || !takesLine(t) {
			continue
		}
		at := slices.IndexFunc(l.policy.Rules, func(r permission.Rule) bool { return slices.Contains(r.Tools, t.Name) })
		if at >= 0 {
			l.add(NoKind, Warning, &l.policy.Rules[at], "tool_name", t.Name+" takes a command line but has no kind: rules can only compare the line as text",
				"write kind: bash in the tools file, and argument if the line is not in command")
		}
	}
}

func takesLine(t permission.Tool) bool {
	if slices.Contains(shellTools, strings.ToLower(t.Name)) {
		return true
	}
	return slices.ContainsFunc(t.Schema.Fields(permission.ArgsType), func(f permission.Field) bool {
		return slices.Contains(lineArguments, strings.ToLower(f.Name)) && slices.Contains(f.JSONTypes, "string") && len(f.Enum) == 0
	})
}
