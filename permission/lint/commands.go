package lint

import (
	"slices"
	"strings"

	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"

	"github.com/askance-dev/askance/permission"
)

// commandList is the variable with the commands of a line.
const commandList = "cmd.calls"

// commandCheck checks conditions on the commands of a line.
type commandCheck struct{ *expr }

// readsCalls reports whether the expression reads the commands of a line.
func (c commandCheck) readsCalls() bool {
	found := false
	c.eachPart(func(e celast.Expr) { found = found || e.Kind() == celast.SelectKind && c.text(e) == commandList })
	return found
}

// checkCommandParts looks for allow rules that check the commands of a line but leave part of them
// open.
func (c commandCheck) checkCommandParts() {
	if !isAllow(c.Rule) || c.Rule.IKnow || hasContent(c.Rule) || !isDeciding(c.Rule) || !c.readsCalls() {
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
