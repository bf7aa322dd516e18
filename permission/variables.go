package permission

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/askance-dev/askance/permission/internal/celrule"
	"github.com/askance-dev/askance/permission/internal/paths"
	"github.com/askance-dev/askance/permission/shell"
)

// variables are what the expressions of one decision see. They implement the CEL activation and are
// built only when a rule reads them.
type variables struct {
	bundle *Bundle
	req    Request
	tr     *toolRules
	call   Call
	run    celrule.Run
	// inputErr says why the input cannot be shown to conditions.
	inputErr error
	// shownArgs replaces the arguments while a text for people is computed.
	shownArgs map[string]any

	toolVar, callerVar, callVar, ctxVar, cmdVar map[string]any
	terms                                       map[string]ref.Val
}

var _ interpreter.Activation = (*variables)(nil)

// ResolveName implements the CEL activation.
func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case "args":
		if v.shownArgs != nil {
			return v.shownArgs, true
		}
		return v.call.Input, true
	case "tool":
		return v.tool(), true
	case "caller":
		return v.caller(), true
	case "call":
		return v.place(), true
	case "ctx":
		if v.req.CallsThisRun < 0 && v.bundle.readsCount {
			return nil, false // a guard would treat an unread number as absent
		}
		if v.shownArgs != nil {
			return withoutResolved(v.context()), true
		}
		return v.context(), true
	case "cmd":
		return v.command()
	default:
		return v.term(name)
	}
}

// Parent implements the CEL activation.
func (*variables) Parent() interpreter.Activation { return nil }

// definition is what the caller's program declares about the tool, if that counts.
func (v *variables) definition() *Definition {
	if v.tr.tool != nil {
		return nil
	}
	return v.req.Definition
}

func (v *variables) tool() map[string]any {
	d := v.definition()
	if v.tr.vars != nil && d == nil {
		return v.tr.vars
	}
	if v.toolVar == nil {
		v.toolVar = toolVars(v.req.Tool, nil, d)
	}
	return v.toolVar
}

// place is the variable call: the position of the call among nested calls.
func (v *variables) place() map[string]any {
	if v.callVar == nil {
		v.callVar = map[string]any{"depth": v.req.Depth}
		if p := v.req.Parent; p != nil {
			v.callVar["parent"] = map[string]any{
				"tool": p.Tool, "user": p.User, "agent": p.Agent, "session": string(p.Session), "reply": string(p.Reply), "id": string(p.Call),
			}
		}
	}
	return v.callVar
}

func (v *variables) caller() map[string]any {
	if v.callerVar == nil {
		c := &v.req.Caller
		v.callerVar = map[string]any{
			"agent": c.Agent, "user": c.User, "space": string(c.Space), "session": string(c.Session),
			"reply": string(c.Reply),
		}
		if c.Roles != nil {
			v.callerVar["roles"] = c.Roles
		}
		if c.Groups != nil {
			v.callerVar["groups"] = c.Groups
		}
		setKnown(v.callerVar, "tenant", c.Tenant)
		setKnown(v.callerVar, "run_id", c.RunID)
		setKnown(v.callerVar, "parent_agent", c.ParentAgent)
	}
	return v.callerVar
}

func (v *variables) context() map[string]any {
	if v.ctxVar == nil {
		v.ctxVar = map[string]any{
			"mode": string(v.call.Mode), "now": v.req.Now, "cwd": v.call.Folder, "working_dirs": v.req.WorkingDirs,
			"resolved": v.req.Resolved,
		}
		if v.call.Folder != v.req.Cwd { // within ctx.cwd must not hold for all files because the tool runs in /
			if inside, err := paths.WithinAny(v.call.Folder, append([]string{v.req.Cwd}, v.req.WorkingDirs...)); err != nil || !inside {
				delete(v.ctxVar, "cwd")
			}
		}
		setKnown(v.ctxVar, "attempt", v.req.Attempt)
		setKnown(v.ctxVar, "calls_this_run", max(v.req.CallsThisRun, 0))
	}
	return v.ctxVar
}

// withoutResolved is ctx for a text that must not reveal hidden values through the paths in the
// input.
func withoutResolved(ctx map[string]any) map[string]any {
	out := maps.Clone(ctx)
	delete(out, "resolved")
	return out
}

// ReadsGroups reports whether an expression may read the caller's groups.
func (b *Bundle) ReadsGroups() bool { return b != nil && b.readsGroups }

// ReadsGroups reports whether a policy in force, including the shadow, may read the caller's
// groups.
func (l *Live) ReadsGroups() bool {
	return l.Bundle().ReadsGroups() || l.shadow != nil && l.shadow.live.Bundle().ReadsGroups()
}

// readsGroups looks for the name in the text of all expressions: none can read the field without
// naming it.
func (c *compiler) readsGroups() bool {
	return c.hasExpression(func(text string) bool { return strings.Contains(text, "groups") })
}

func (c *compiler) hasExpression(names func(text string) bool) bool {
	return slices.ContainsFunc(c.rules, func(r *Rule) bool { return names(r.When) || names(r.Message) }) ||
		slices.ContainsFunc(c.terms, func(t Term) bool { return names(t.Expr) })
}

// ReadsCallsThisRun reports whether an expression may read how many calls the run has made.
func (b *Bundle) ReadsCallsThisRun() bool { return b != nil && b.readsCount }

// ReadsCallsThisRun is Bundle.ReadsCallsThisRun for the policies in force, including the shadow.
func (l *Live) ReadsCallsThisRun() bool {
	return l.Bundle().ReadsCallsThisRun() || l.shadow != nil && l.shadow.live.Bundle().ReadsCallsThisRun()
}

// readingCount finds expressions that name the field or use ctx as a whole: no others read it.
var readingCount = regexp.MustCompile(`calls_this_run|\bctx\s*([^.\s\w]|$)`)

// setKnown leaves out what the request does not say, so that a rule that reads it fails instead of
// comparing with nothing.
func setKnown[T comparable](vars map[string]any, name string, value T) {
	var unknown T
	if value != unknown {
		vars[name] = value
	}
}

func (v *variables) term(name string) (any, bool) {
	p := v.bundle.terms[name]
	if p == nil {
		return nil, false
	}
	shown := v.shownArgs != nil // then ctx has less
	if known, ok := v.terms[name]; ok && !shown {
		return known, true
	}
	value, err := p.Value(&v.run)
	if err != nil {
		value = types.WrapErr(fmt.Errorf("%s: %w", name, err))
	}
	if shown {
		return value, true
	}
	if v.terms == nil {
		v.terms = map[string]ref.Val{}
	}
	v.terms[name] = value
	return value, true
}

// command is the value of cmd; false means that there is none and reading it is an error.
func (v *variables) command() (any, bool) {
	if v.shownArgs != nil {
		return nil, false // cmd could reveal hidden values in a text for people
	}
	if v.cmdVar != nil {
		return v.cmdVar, true
	}
	k := shellKind(v.tr.tool)
	if k == nil || v.inputErr != nil {
		return nil, false
	}
	line, err := callSafely(func() (*shell.Line, error) { return k.Line(v.call), nil })
	if err != nil || line == nil {
		return nil, false
	}
	v.cmdVar = commandVar(line)
	return v.cmdVar, true
}

// commandVar shows a line to conditions. Nested commands are among the calls: a condition that
// checks all of them must also see those run by env.
func commandVar(line *shell.Line) map[string]any {
	static := line.Static() && line.Hidden == nil
	calls := make([]any, 0, len(line.Commands)+len(line.Nested))
	for _, list := range [][]shell.Command{line.Commands, line.Nested} {
		for i := range list {
			calls = append(calls, map[string]any{
				"argv": list[i].Args(), "assigns": notNil(list[i].Assigns),
				"redirects": notNil(list[i].Redirects), "via": notNil(list[i].Via),
				"options_admitted": static && list[i].AdmitsOptions(),
			})
		}
	}
	reasons := make([]string, len(line.Reasons))
	for i, r := range line.Reasons {
		reasons[i] = string(r.Code)
	}
	return map[string]any{"static": static, "calls": calls, "reasons": reasons}
}

// notNil returns a list that is not nil, which CEL would not treat as a list.
func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// Field returns the value at the path; false if there is none.
func (v *variables) Field(path []string) (any, bool) {
	if len(path) == 2 && path[0] == "args" { // as most guards: a tenth of a decision among 1,000 rules
		arg, ok := v.call.Input[path[1]]
		return arg, ok
	}
	var at any = v.call.Input
	if path[0] != "args" {
		at, _ = v.ResolveName(path[0])
	}
	for _, name := range path[1:] {
		m, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		if at, ok = m[name]; !ok {
			return nil, false
		}
	}
	return at, true
}
