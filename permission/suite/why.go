package suite

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission"
)

// why tells how the decision came about: what decided, what kept the expected
// rule from it, and what failed.
func why(want permission.Expect, x *permission.Explanation) []string {
	out := []string{"decided by " + string(x.Step) + ": " + x.Reason}
	for _, t := range x.Trace {
		switch {
		case want.Rule != nil && *want.Rule == t.Rule && t.Rule != x.Rule, t.Failed:
			out = append(out, RuleText(t))
		case t.Matched && t.Reached && t.Rule != x.Rule:
			out = append(out, RuleText(t))
		case want.Rule == nil && want.Behavior == t.Behavior && !t.Matched:
			out = append(out, RuleText(t))
		}
	}
	if want.Rule != nil && *want.Rule != "" && slices.Contains(x.NotEvaluated, *want.Rule+" (tool differs)") {
		out = append(out, "rule "+*want.Rule+" is about another tool")
	}
	for _, e := range x.Errors {
		if e.Rule == "" {
			out = append(out, e.Error())
		}
	}
	return out
}

// doubts finds tests that pass with any rules: nothing is expected, or
// the call could not be judged, so that it fell to the closed side.
func doubts(want permission.Expect, x *permission.Explanation) []string {
	if reflect.ValueOf(want).IsZero() {
		return []string{"it expects nothing: say what must come out, as behavior: ask"}
	}
	if want.Errors != nil || len(x.Errors) == 0 {
		return nil
	}
	return []string{"something could not be evaluated: " + x.Errors[0].Error() + " (say errors: true if that is meant)"}
}

// RuleText says in one line how a rule looked at a call.
func RuleText(t *permission.Traced) string {
	text := "rule " + t.Rule + " (" + string(t.Behavior)
	if t.Enforcement != "" {
		text += ", " + string(t.Enforcement) + " only"
	}
	text += ") "
	switch {
	case t.Failed:
		text += "could not be evaluated"
	case t.Matched && t.Reached:
		text += "matches"
	case t.Matched:
		text += "was not asked any more, and would match"
	case !t.Reached:
		text += "was not asked any more, and would not match"
	default:
		text += "does not match"
	}
	if b := t.Because; b != nil {
		text += ": " + BecauseText(b)
	}
	return text
}

// BecauseText is a part of a rule with its value and those of its variables.
func BecauseText(b *permission.Because) string {
	text := b.Expr
	switch {
	case b.Error != "":
		text += " fails: " + b.Error
	case b.Value != nil:
		text += fmt.Sprintf(" is %v", *b.Value)
	}
	var values []string
	for _, name := range slices.Sorted(maps.Keys(b.Operands)) {
		if name != b.Expr {
			values = append(values, name+" is "+value(b.Operands[name]))
		}
	}
	if len(values) > 0 {
		text += " (" + strings.Join(values, ", ") + ")"
	}
	return text
}

func value(v any) string {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
