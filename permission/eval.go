package permission

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
)

// evaluation is the state of one decision. It belongs to one goroutine. As the
// CEL activation it hands out the variables, building only those that a rule
// asks for.
type evaluation struct {
	bundle *Bundle
	req    Request
	tr     *toolRules
	row    modeRow
	call   Call

	parent context.Context //nolint:containedctx // an evaluation lives within one Decide
	ctx    context.Context //nolint:containedctx // parent with the deadline; nil until needed
	cancel context.CancelFunc

	cost   uint64
	errors []RuleError
	// inputErr says that the input cannot be shown to conditions, and inputField
	// whose fault that is.
	inputErr   error
	inputField string
	// tainted: something outside the rules failed; nothing ends in allow.
	tainted bool
	// unsure: an allow rule failed; the mode's fallback must not allow.
	unsure bool
	// failedDenies are deny rules that failed and ask instead.
	failedDenies []*compiledRule
	// doubt: it is only not clear whether the rules that ask are about the call.
	doubt bool

	toolVar, callerVar, ctxVar map[string]any
	// how is what handling has found, once it has looked; shownArgs stand for the
	// arguments while a text for people is made.
	how       handling
	looked    bool
	cmdVar    map[string]any
	terms     map[string]ref.Val
	shownArgs map[string]any

	trace *tracer // of Explain; nil while deciding
}

var _ interpreter.Activation = (*evaluation)(nil)

// errInput stands for the input's own error in conditions that need it.
var errInput = errors.New("the input cannot be evaluated")

// evaluate begins a decision. before is an evaluation of the same request by
// another bundle, whose reading of the input is taken over; nil: there is none.
func (b *Bundle) evaluate(ctx context.Context, req *Request, before *evaluation) *evaluation {
	e := &evaluation{bundle: b, req: *req, parent: ctx}
	mode := req.Mode
	if mode == "" {
		mode = b.Mode()
	}
	e.row = modeRows[mode]
	if e.tr = b.byTool[req.Tool]; e.tr == nil {
		e.tr = b.others
	}
	e.call = Call{Tool: req.Tool, Raw: req.Input, Mode: mode, Now: req.Now, Cwd: req.Cwd, WorkingDirs: req.WorkingDirs}
	if !e.row.known {
		_, err := ParseMode(string(mode))
		e.taint("mode", err)
	}
	if err := ctx.Err(); err != nil {
		e.taint("context", context.Cause(ctx))
	}
	e.read(before)
	return e
}

// read decodes the input, lays it on the schema and lets the tool's kind read
// it: once for all bundles that would do so alike.
func (e *evaluation) read(before *evaluation) {
	if before != nil && before.call.Mode == e.call.Mode && before.bundle.readsAs(e.bundle) {
		e.call.Input, e.call.Prepared = before.call.Input, before.call.Prepared
		e.inputErr, e.inputField = before.inputErr, before.inputField
	} else if e.call.Input, e.inputErr = e.tr.schema().decode(e.req.Input, e.bundle.limits); e.inputErr != nil {
		e.inputField = "input"
	} else {
		e.prepare()
	}
	if e.inputErr != nil {
		e.taint(e.inputField, e.inputErr)
	}
}

// readsAs reports whether two bundles read the input of every call alike: they
// were compiled against the same declarations of tools.
func (b *Bundle) readsAs(other *Bundle) bool {
	same := len(b.tools) == len(other.tools) && (len(b.tools) == 0 || &b.tools[0] == &other.tools[0])
	return same && b.limits == other.limits
}

func (e *evaluation) close() {
	if e.cancel != nil {
		e.cancel()
	}
}

// deadline is the context for expressions whose cost is not proved. It is made
// on first use: most decisions need none.
func (e *evaluation) deadline() (context.Context, error) {
	switch {
	case e.ctx != nil:
	case e.bundle.unhurried:
		e.ctx, e.cancel = context.WithCancel(e.parent)
	default:
		limit := e.bundle.limits.Deadline
		e.ctx, e.cancel = context.WithTimeoutCause(e.parent, limit, fmt.Errorf("%w: over %v", ErrDeadline, limit))
	}
	if e.ctx.Err() != nil {
		return nil, context.Cause(e.ctx)
	}
	return e.ctx, nil
}

// fail records an error of a rule.
func (e *evaluation) fail(rule, field string, err error) {
	e.errors = append(e.errors, RuleError{Rule: rule, Field: field, Msg: display.Visible(display.Shorten(err.Error(), display.MaxErrorText)), Err: err})
}

// taint records an error outside the rules.
func (e *evaluation) taint(field string, err error) {
	e.tainted = true
	e.fail("", field, err)
}

// matches reports whether a rule is about this call. An error has been
// recorded; the caller only has to fall closed.
func (e *evaluation) matches(r *compiledRule) (matched, failed bool) {
	if e.trace != nil {
		return e.trace.rule(e, r)
	}
	return e.match(r)
}

func (e *evaluation) match(r *compiledRule) (matched, failed bool) {
	if r.broken != nil {
		e.fail(r.rule.Name, "rule_content", r.broken)
		return false, true
	}
	if r.server != "" && !namedAfter(e.req.Tool, r.server) {
		return false, false
	}
	if r.pattern == nil && r.when == nil {
		return true, false
	}
	if e.inputErr != nil {
		e.fail(r.rule.Name, "input", errInput)
		return false, true
	}
	if r.pattern != nil {
		ok, err := safely(func() (bool, error) { return r.pattern.Match(e.call) })
		if err != nil {
			e.fail(r.rule.Name, "rule_content", err)
			return false, true
		}
		if !ok {
			return false, false
		}
	}
	if r.when == nil {
		return true, false
	}
	ok, err := e.condition(r)
	if err != nil {
		e.fail(r.rule.Name, "when", err)
		return false, true
	}
	return ok, false
}

func (e *evaluation) condition(r *compiledRule) (bool, error) {
	if e.trace != nil {
		return e.trace.condition(e, r)
	}
	if r.when.excludes(e) {
		return false, nil
	}
	return r.when.boolean(e)
}

// sessionRules makes the session's rules of one behavior ready. They are few,
// and most sessions have none.
func (e *evaluation) sessionRules(behavior message.Behavior) []*compiledRule {
	var out []*compiledRule
	for i := range e.req.SessionRules {
		sr := &e.req.SessionRules[i]
		if sr.ToolName != e.req.Tool || sr.Behavior != behavior {
			continue
		}
		r := &Rule{Name: SessionRuleName, RuleContent: sr.RuleContent, Behavior: behavior, Source: sr.Source}
		cr := &compiledRule{rule: r, reason: ruleReason(r)}
		if content, ok := r.content(); ok {
			cr.pattern, cr.broken = e.sessionPattern(content, behavior)
		}
		out = append(out, cr)
	}
	return out
}

func (e *evaluation) sessionPattern(content string, behavior message.Behavior) (Pattern, error) {
	m := e.tr.matcher
	if m == nil {
		return nil, fmt.Errorf("no matcher gives meaning to the content for %s", display.Quoted(e.req.Tool))
	}
	p, err := safely(func() (Pattern, error) { return m.Compile(content, behavior) })
	if err == nil && p == nil {
		err = fmt.Errorf("the matcher of %s gave no pattern", display.Quoted(e.req.Tool))
	}
	return p, err
}

// ResolveName implements the CEL activation.
func (e *evaluation) ResolveName(name string) (any, bool) {
	switch name {
	case "args":
		if e.shownArgs != nil {
			return e.shownArgs, true
		}
		return e.call.Input, true
	case "tool":
		return e.tool(), true
	case "caller":
		return e.caller(), true
	case "ctx":
		if e.shownArgs != nil {
			return withoutResolved(e.context()), true
		}
		return e.context(), true
	case "cmd":
		return e.command()
	default:
		return e.term(name)
	}
}

// Parent implements the CEL activation.
func (*evaluation) Parent() interpreter.Activation { return nil }

func (e *evaluation) tool() map[string]any {
	if e.tr.vars != nil {
		return e.tr.vars
	}
	if e.toolVar == nil {
		e.toolVar = toolVars(e.req.Tool, nil)
	}
	return e.toolVar
}

func (e *evaluation) caller() map[string]any {
	if e.callerVar == nil {
		c := &e.req.Caller
		e.callerVar = map[string]any{
			"agent": c.Agent, "user": c.User, "space": string(c.Space), "session": string(c.Session),
			"reply": string(c.Reply),
		}
		if c.Roles != nil {
			e.callerVar["roles"] = c.Roles
		}
		setKnown(e.callerVar, "tenant", c.Tenant)
		setKnown(e.callerVar, "run_id", c.RunID)
		setKnown(e.callerVar, "parent_agent", c.ParentAgent)
	}
	return e.callerVar
}

func (e *evaluation) context() map[string]any {
	if e.ctxVar == nil {
		e.ctxVar = map[string]any{
			"mode": string(e.call.Mode), "now": e.req.Now, "cwd": e.req.Cwd, "working_dirs": e.req.WorkingDirs,
			"resolved": e.req.Resolved,
		}
		setKnown(e.ctxVar, "attempt", e.req.Attempt)
		setKnown(e.ctxVar, "calls_this_run", e.req.CallsThisRun)
	}
	return e.ctxVar
}

// withoutResolved is ctx for a text that must not show by the paths in the input
// what is hidden.
func withoutResolved(ctx map[string]any) map[string]any {
	out := maps.Clone(ctx)
	delete(out, "resolved")
	return out
}

// setKnown leaves out what the request does not say, so that a rule that asks
// for it fails instead of comparing with nothing.
func setKnown[T comparable](vars map[string]any, name string, v T) {
	var unknown T
	if v != unknown {
		vars[name] = v
	}
}
