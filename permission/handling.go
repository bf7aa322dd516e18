package permission

import (
	"maps"
	"slices"

	"github.com/askance-dev/askance/message/redact"
	"github.com/askance-dev/askance/permission/internal/celrule"
)

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
