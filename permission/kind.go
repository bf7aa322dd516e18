package permission

import (
	"errors"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
)

// This file asks a tool's Kind. A failure in it ends in an approval request or a
// denial.

// kind is nil for a tool without one.
func (t *toolRules) kind() Kind {
	if t.tool == nil {
		return nil
	}
	return t.tool.Kind
}

// check is the tool's own check; nil: it has none.
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

// prepareCall lets the kind read the call, once.
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

// readOnly says why the call changes nothing; "" if that is not proven.
func (e *evaluation) readOnly() string {
	if e.tr.tool != nil && e.tr.tool.ReadOnly {
		return "the tool is read-only"
	}
	k := e.tr.kind()
	if k == nil || e.tainted {
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

// finishPattern tells a pattern what the rule says about it, and the rule's
// author what the pattern has to say.
func (c *compiler) finishPattern(r *Rule, tr *toolRules, p Pattern) Pattern {
	if r.TrustOptions {
		t, ok := p.(OptionTruster)
		if !ok {
			c.addFault(r, "trust_options", "has no meaning for "+display.Quoted(tr.name)+", whose rules know no options", "")
			return nil
		}
		p = t.TrustOptions()
	}
	n, ok := p.(Noticer)
	if !ok {
		return p
	}
	if text := n.Notice(); text != "" {
		at := Place{File: r.at.FileName()}
		at.Line, at.Col = r.at.Start("rule_content")
		c.bundle.notices = append(c.bundle.notices, Notice{Place: at, Rule: r.Name, Tool: tr.name, Text: text})
	}
	return p
}

// Notices are what the authors of the rules should know. They decide nothing.
func (b *Bundle) Notices() []Notice {
	if b == nil {
		return nil
	}
	return slices.Clone(b.notices)
}

// jointAllow looks for allow rules that each cover a part of the call, and
// all together the whole. It runs after none did so alone.
func (e *decider) jointAllow() (Decision, bool) {
	joint, ok := e.tr.matcher.(JointMatcher)
	if !ok || e.inputErr != nil {
		return Decision{}, false
	}
	var rules []*compiledRule
	var patterns []Pattern
	for _, list := range [][]*compiledRule{e.tr.allow, e.sessionRules(message.BehaviorAllow)} {
		for _, r := range list {
			if r.pattern != nil && r.broken == nil && r.rule.isEnforced() && e.conditionHolds(r) {
				rules, patterns = append(rules, r), append(patterns, r.pattern)
			}
		}
	}
	if len(rules) < 2 {
		return Decision{}, false
	}
	by, err := findCovering(joint, e.call, patterns)
	if err != nil {
		e.addError(rules[0].rule.Name, "rule_content", err)
		e.unsure = true
		return Decision{}, false
	}
	if len(by) == 0 {
		return Decision{}, false
	}
	covers := make([]*compiledRule, len(by))
	for i, at := range by {
		covers[i] = rules[at]
	}
	e.handleAll(covers)
	return e.allow(StepAllowRule, covers[0], "each of its parts is covered by one of the rules "+ruleNames(covers)), true
}

// findCovering asks a matcher which patterns cover a call together.
func findCovering(joint JointMatcher, c Call, patterns []Pattern) ([]int, error) {
	return callSafely(func() ([]int, error) {
		by, err := joint.Covered(c, patterns)
		if slices.ContainsFunc(by, func(i int) bool { return i < 0 || i >= len(patterns) }) {
			return nil, errors.New("the matcher names a pattern that it was not given")
		}
		return by, err
	})
}

// conditionHolds evaluates a rule's condition without its content.
func (e *evaluation) conditionHolds(r *compiledRule) bool {
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

// ResolveLinks gives the absolute path that a program running in the folder
// cwd of this machine opens for a path, all symbolic links followed. It fails
// for what the operating system would not open either.
func ResolveLinks(cwd, path string) (string, error) { return resolvePath(cwd, path) }
