package permission

import (
	"cel.dev/cel-go/cel"

	"github.com/askance-dev/askance/permission/shell"
)

// The variable cmd: what the line of a shell tool would run.

// ShellKind is a Kind of tools that take a line for a shell. Conditions about
// such tools see it as cmd.
type ShellKind interface {
	Kind
	// Line is the line that the call would run; nil if the call has none.
	// Call.Prepared is at hand: the line need not be read twice.
	Line(Call) *shell.Line
}

const (
	commandType       = "askance.Command"
	simpleCommandType = "askance.SimpleCommand"
)

var commandFields = map[string]*cel.Type{
	"static":  cel.BoolType,
	"calls":   cel.ListType(cel.ObjectType(simpleCommandType)),
	"reasons": cel.ListType(cel.StringType),
}

var simpleCommandFields = map[string]*cel.Type{
	"argv":      cel.ListType(cel.StringType),
	"assigns":   cel.ListType(cel.StringType),
	"redirects": cel.ListType(cel.StringType),
	"via":       cel.ListType(cel.StringType),
}

// Usual sizes of command lines, by which the cost of a condition is judged at
// load; longer lines are stopped at run time.
const (
	usualCommands = 30
	usualWords    = 16
	usualWord     = 64
)

var (
	wordList = &argType{kind: kindList, maxLen: -1, usual: usualWords, elem: &argType{kind: kindString, maxLen: -1, usual: usualWord}}
	cmdSizes = &argType{kind: kindStruct, fields: map[string]*argType{
		"reasons": wordList,
		"calls": {kind: kindList, maxLen: -1, usual: usualCommands, elem: &argType{kind: kindStruct, fields: map[string]*argType{
			"argv": wordList, "assigns": wordList, "redirects": wordList, "via": wordList,
		}}},
	}}
)

// The shells that may run the text of shell tools. Lines are judged so that the
// rules hold under both.
const defaultShell = "bash"

var shells = []string{"bash", "sh"}

// shellKind is the kind of a shell tool; nil for other tools.
func shellKind(t *Tool) ShellKind {
	if t == nil {
		return nil
	}
	k, _ := t.Kind.(ShellKind)
	return k
}

// command is the value of cmd; false: there is none, and asking for it is an
// error.
func (e *evaluation) command() (any, bool) {
	if e.shownArgs != nil {
		return nil, false // a text for people must not show by it what is hidden
	}
	if e.cmdVar != nil {
		return e.cmdVar, true
	}
	k := shellKind(e.tr.tool)
	if k == nil || e.inputErr != nil {
		return nil, false
	}
	line, err := safely(func() (*shell.Line, error) { return k.Line(e.call), nil })
	if err != nil || line == nil {
		return nil, false
	}
	e.cmdVar = commandVar(line)
	return e.cmdVar, true
}

// commandVar shows a line to conditions. The nested commands are among the
// calls: a condition that looks at all of them must see those behind env too.
func commandVar(line *shell.Line) map[string]any {
	calls := make([]any, 0, len(line.Commands)+len(line.Nested))
	for _, list := range [][]shell.Command{line.Commands, line.Nested} {
		for i := range list {
			calls = append(calls, map[string]any{
				"argv": list[i].Args(), "assigns": texts(list[i].Assigns),
				"redirects": texts(list[i].Redirects), "via": texts(list[i].Via),
			})
		}
	}
	reasons := make([]string, len(line.Reasons))
	for i, r := range line.Reasons {
		reasons[i] = string(r.Code)
	}
	return map[string]any{"static": line.Static() && line.Hidden == nil, "calls": calls, "reasons": reasons}
}

// texts is a list that is not null, which CEL would not take for a list.
func texts(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
