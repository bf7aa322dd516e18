package permission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/redact"
	"github.com/askance-dev/askance/permission/internal/celrule"
	"github.com/askance-dev/askance/permission/internal/display"
)

// evaluation is the state of one decision. It belongs to one goroutine.
type evaluation struct {
	variables
	errors []RuleError
	// inputField says which part inputErr is about.
	inputField string
	row        modeRow
	// tainted: something outside the rules failed, so nothing is allowed.
	tainted bool
	// unsure: an allow rule failed, so the mode's fallback must not allow.
	unsure bool
	// how is the result of handling, if looked is set.
	looked bool
	how    handling
	// unread says why the kind cannot find the command or path of the call.
	unread error

	trace *tracer // set by Explain; nil while deciding
}

var errInput = errors.New("the input cannot be evaluated")

// evaluate starts a decision. before is an evaluation of the same request by another bundle, whose
// reading of the input is reused; nil if there is none.
func (b *Bundle) evaluate(ctx context.Context, req *Request, before *evaluation) *evaluation {
	e := new(evaluation)
	e.bundle, e.req = b, *req
	e.run.Vars, e.run.Bounds, e.run.Parent = &e.variables, &b.bounds, ctx
	mode := cmp.Or(req.Mode, b.Mode())
	e.row = modeRows[mode]
	if e.tr = b.byTool[req.Tool]; e.tr == nil {
		e.tr = b.others
	}
	e.call = Call{Tool: req.Tool, Raw: req.Input, Mode: mode, Now: req.Now, Cwd: req.Cwd, WorkingDirs: req.WorkingDirs, Folder: req.Folder}
	if req.Folder == "" || path.Clean(req.Folder) == path.Clean(req.Cwd) {
		e.call.Folder = req.Cwd
	}
	if !e.row.known {
		_, err := ParseMode(string(mode))
		e.addFault("mode", err)
	}
	if err := ctx.Err(); err != nil {
		e.addFault("context", context.Cause(ctx))
	}
	if d := e.definition(); d != nil && d.Err != nil {
		e.addFault("definition", d.Err)
	}
	e.readInput(before)
	return e
}

// schema is the tool's schema, or the one that the caller's program declares.
func (e *evaluation) schema() *Schema {
	if d := e.definition(); d != nil {
		return d.Schema
	}
	return e.tr.schema()
}

// readInput decodes the input, applies the schema and lets the tool's kind read it, once for all
// bundles that would read it alike.
func (e *evaluation) readInput(before *evaluation) {
	if before != nil && before.call.Mode == e.call.Mode && before.bundle.readsAs(e.bundle) {
		e.call.Input, e.call.Prepared = before.call.Input, before.call.Prepared
		e.inputErr, e.inputField = before.inputErr, before.inputField
	} else if e.call.Input, e.inputErr = e.schema().decode(e.req.Input, e.bundle.limits); e.inputErr != nil {
		e.inputField = "input"
	} else {
		e.prepareCall()
	}
	if e.inputErr != nil {
		e.addFault(e.inputField, e.inputErr)
		return
	}
	e.unread = e.findArgument()
}

// readsAs reports whether two bundles read every input alike, because they were compiled against
// the same tool declarations.
func (b *Bundle) readsAs(other *Bundle) bool {
	same := len(b.tools) == len(other.tools) && (len(b.tools) == 0 || &b.tools[0] == &other.tools[0])
	return same && b.limits == other.limits
}

func (e *evaluation) addError(rule, field string, err error) {
	e.errors = append(e.errors, RuleError{Rule: rule, Field: field, Msg: display.Visible(display.Shorten(err.Error(), display.MaxErrorText)), Err: err})
}

func (e *evaluation) addFault(field string, err error) {
	e.tainted = true
	e.addError("", field, err)
}

// traceMatch reports whether a rule matches this call. On failure the error has been recorded, and
// the caller only has to fail closed.
func (e *evaluation) traceMatch(r *compiledRule) (matched, failed bool) {
	if e.trace != nil {
		return e.trace.rule(e, r)
	}
	return e.matchRule(r)
}

func (e *evaluation) matchRule(r *compiledRule) (matched, failed bool) {
	if r.server != "" && !isNamedAfter(e.req.Tool, r.server) {
		return false, false
	}
	if r.broken != nil {
		e.addError(r.rule.Name, cmp.Or(r.field, "rule_content"), r.broken)
		return false, true
	}
	if r.pattern == nil && r.when == nil {
		return true, false
	}
	if e.inputErr != nil {
		e.addError(r.rule.Name, "input", errInput)
		return false, true
	}
	if r.pattern != nil {
		ok, err := callSafely(func() (bool, error) { return r.pattern.Match(e.call) })
		if e.unread != nil && (!ok || r.rule.Behavior == message.BehaviorAllow) { // a deny rule for all calls needs no argument
			err = e.unread
		}
		if err != nil {
			e.addError(r.rule.Name, "rule_content", err)
			return false, true
		}
		if !ok {
			return false, false
		}
	}
	if r.when == nil {
		return true, false
	}
	ok, err := e.evalCondition(r)
	if err != nil {
		e.addError(r.rule.Name, "when", err)
		return false, true
	}
	return ok, false
}

func (e *evaluation) evalCondition(r *compiledRule) (bool, error) {
	if e.trace != nil {
		return e.trace.condition(e, r)
	}
	if r.when.Excludes(&e.variables) {
		return false, nil
	}
	return r.when.Bool(&e.run)
}

// sessionRules compiles the session's rules of one behavior. Most sessions have none.
func (e *evaluation) sessionRules(behavior message.Behavior) []*compiledRule {
	var out []*compiledRule
	for i := range e.req.SessionRules {
		sr := &e.req.SessionRules[i]
		other := sr.ToolName != e.req.Tool
		if sr.Behavior != behavior || other && behavior == message.BehaviorAllow {
			continue
		}
		r := &Rule{Name: SessionRuleName, RuleContent: sr.RuleContent, Behavior: behavior, Source: sr.Source}
		cr := &compiledRule{rule: r, reason: ruleReason(r)}
		if other {
			if cr.pattern, cr.broken = e.sessionPathPattern(sr); cr.pattern != nil || cr.broken != nil {
				out = append(out, cr)
			}
			continue
		}
		if content, ok := r.content(); ok {
			cr.pattern, cr.broken = e.sessionPattern(content, behavior)
		}
		out = append(out, cr)
	}
	return out
}

func (e *evaluation) sessionPattern(content string, behavior message.Behavior) (Pattern, error) {
	if e.tr.matcher == nil {
		return nil, fmt.Errorf("no matcher can interpret the content for %s", display.Quoted(e.req.Tool))
	}
	return e.tr.compilePattern(e.req.Tool, content, behavior)
}

func (t *toolRules) kind() Kind {
	if t.tool == nil {
		return nil
	}
	return t.tool.Kind
}

func (t *toolRules) check() func(Call) ToolVerdict {
	switch {
	case t.tool == nil:
		return nil
	case t.tool.Kind != nil:
		return t.tool.Kind.Check
	default:
		return t.tool.Check
	}
}

func (e *evaluation) prepareCall() {
	k := e.tr.kind()
	if k == nil {
		return
	}
	prepared, err := callSafely(func() (any, error) { return k.Prepare(e.call), nil })
	if err != nil {
		e.inputErr, e.inputField = err, "check"
		return
	}
	e.call.Prepared = prepared
}

// readOnly says why the call changes nothing, or returns "" if that is not proven.
func (e *evaluation) readOnly() string {
	if e.tr.tool != nil && e.tr.tool.ReadOnly {
		return "the tool is read-only"
	}
	k := e.tr.kind()
	if k == nil || e.tainted || e.unread != nil {
		return ""
	}
	proven, err := callSafely(func() (bool, error) { return k.ReadOnly(e.call), nil })
	if err != nil {
		e.addFault("check", err)
		return ""
	}
	if !proven {
		return ""
	}
	return "the call is proven to change nothing"
}

// finishPattern passes the rule's options to the pattern, and the pattern's notice to the rule's
// author.
func (c *compiler) finishPattern(r *Rule, tr *toolRules, p Pattern) Pattern {
	for _, key := range []string{"options", "trust_options"} {
		if key == "options" && r.Options == "" || key == "trust_options" && !r.TrustOptions {
			continue
		}
		t, ok := p.(OptionTruster)
		if !ok {
			c.addFault(r, key, "has no meaning for "+display.Quoted(tr.name)+", whose rules have no options", "remove it")
			return nil
		}
		if key == "trust_options" {
			p = t.TrustOptions()
			continue
		}
		var err error
		if p, err = t.AddOptions(r.Options); err != nil {
			c.addFault(r, key, err.Error(), "list options and operands as options.txt does, such as \"--fix --ext= <local>...\"")
			return nil
		}
	}
	if own, ok := p.(PolicyPattern); ok && !r.imported {
		p = own.OfPolicy()
	}
	n, ok := p.(Noticer)
	if !ok {
		return p
	}
	if text := n.Notice(); text != "" {
		c.addNotice(r, tr.name, text)
	}
	return p
}

func (c *compiler) addNotice(r *Rule, tool, text string) {
	c.bundle.notices = append(c.bundle.notices, Notice{Place: r.FieldPlace("rule_content"), Rule: r.Name, Tool: tool, Text: text})
}

// Notices returns what the authors of the rules should know. Notices decide nothing.
func (b *Bundle) Notices() []Notice {
	if b == nil {
		return nil
	}
	return slices.Clone(b.notices)
}

// jointAllow looks for allow rules that each cover a part of the call and together cover all of it.
// It runs after no single rule did.
func (e *decider) jointAllow(among []*compiledRule) (Decision, bool) {
	covers := e.findJointRules(among)
	if len(covers) == 0 {
		return Decision{}, false
	}
	e.handleAll(covers)
	d := e.allow(StepAllowRule, covers[0], "each of its parts is covered by one of the rules "+ruleNames(covers))
	d.Recheck = recheckOf(covers...)
	return d, true
}

// findJointRules returns the rules that cover the call together, or none if they do not.
func (e *evaluation) findJointRules(among []*compiledRule) []*compiledRule {
	joint, ok := e.tr.matcher.(JointMatcher)
	if !ok || e.inputErr != nil || e.unread != nil {
		return nil
	}
	var rules []*compiledRule
	var patterns []Pattern
	for _, r := range among {
		if r.pattern != nil && r.broken == nil && r.rule.Budget == nil && r.rule.IsEnforced() && e.isConditionTrue(r) {
			rules, patterns = append(rules, r), append(patterns, r.pattern)
		}
	}
	if len(rules) < 2 {
		return nil
	}
	by, err := findCovering(joint, e.call, patterns)
	if err != nil {
		e.addError(rules[0].rule.Name, "rule_content", err)
		e.unsure = true
		return nil
	}
	covers := make([]*compiledRule, len(by))
	for i, at := range by {
		covers[i] = rules[at]
	}
	return covers
}

func findCovering(joint JointMatcher, c Call, patterns []Pattern) ([]int, error) {
	return callSafely(func() ([]int, error) {
		by, err := joint.Covered(c, patterns)
		if slices.ContainsFunc(by, func(i int) bool { return i < 0 || i >= len(patterns) }) {
			return nil, errors.New("the matcher returned a pattern that it was not given")
		}
		return by, err
	})
}

func (e *evaluation) isConditionTrue(r *compiledRule) bool {
	if r.when == nil {
		return true
	}
	ok, err := r.when.Bool(&e.run)
	if err != nil {
		e.addError(r.rule.Name, "when", err)
		e.unsure = true
	}
	return err == nil && ok
}

func (r *Rule) hasHandling() bool {
	return len(r.Redact) > 0 || r.Executor != Executor{} || r.Audit == AuditFull
}

// joinHandling joins all rules that match the call, whether or not they take part in the decision:
// what one of them hides must stay hidden even if another decided first.
func (e *evaluation) joinHandling() *handling {
	if e.looked {
		return &e.how
	}
	e.looked = true
	errs, trace := e.errors, e.trace // the steps record errors themselves
	e.trace = nil
	for _, r := range e.tr.handlers {
		if matched, failed := e.traceMatch(r); matched || failed {
			e.how.addRule(r.rule, failed)
		}
	}
	e.errors, e.trace = errs, trace
	slices.Sort(e.how.redact)
	return &e.how
}

func (e *evaluation) handleAll(rules []*compiledRule) {
	h := e.joinHandling()
	for _, r := range rules {
		h.addRule(r.rule, false)
	}
	slices.Sort(h.redact)
}

// evalShown evaluates a text for people, without the hidden arguments.
func (e *evaluation) evalShown(p *celrule.Program) (string, error) {
	if hidden := e.joinHandling().hidden; len(hidden) > 0 {
		e.shownArgs, _ = maskValue(e.call.Input, redact.Below(hidden...)).(map[string]any)
		if e.shownArgs == nil {
			e.shownArgs = map[string]any{}
		}
		defer func() { e.shownArgs = nil }()
	}
	return p.Text(&e.run)
}

// withoutHidden removes error texts, which may quote the arguments, if rules hide something.
func (e *evaluation) withoutHidden(errs []RuleError) []RuleError {
	if len(errs) == 0 || len(e.joinHandling().hidden) == 0 {
		return errs
	}
	out := slices.Clone(errs)
	for i := range out {
		if out[i].Field != "mode" && out[i].Field != "context" {
			out[i].Msg = "could not be evaluated; the cause is hidden with the arguments"
		}
	}
	return out
}

// watchRules evaluates the rules that do not decide. It runs last, so that it cannot affect the
// decision.
func (e *evaluation) watchRules() []Watched {
	errs := e.errors
	var out []Watched
	for _, r := range e.tr.watched {
		if matched, failed := e.traceMatch(r); matched || failed {
			out = append(out, Watched{Rule: r.rule.Name, Behavior: r.rule.Behavior, Enforcement: r.rule.Enforcement, Failed: failed})
		}
	}
	e.errors = errs
	return out
}

const hiddenText = "[redacted]"

// maskValue copies a value without what is at the paths: texts and list elements are replaced,
// other members are left out.
func maskValue(v any, paths redact.Paths) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for name, sub := range v {
			hidden, below := paths.Member(name, isLeaf(sub))
			_, text := sub.(string)
			switch {
			case len(below) == 0:
			case !hidden:
				out[name] = maskValue(sub, below)
			case text:
				out[name] = hiddenText
			default:
				delete(out, name)
			}
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, sub := range v {
			hidden, below := paths.Element(i, isLeaf(sub))
			if hidden {
				out[i] = hiddenText
			} else {
				out[i] = maskValue(sub, below)
			}
		}
		return out
	default:
		return v
	}
}

func isLeaf(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	default:
		return true
	}
}
