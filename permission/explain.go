package permission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
)

// Explanation is a decision with its reasons, rule by rule.
type Explanation struct {
	// Decided is the decision itself, as Decide makes it.
	Decided Decision `json:"-"`

	Decision message.Behavior `json:"decision"`
	Mode     Mode             `json:"mode"`
	Rule     string           `json:"rule"`
	Source   string           `json:"source"`
	Bundle   string           `json:"bundle"`
	Step     Step             `json:"step"`
	Reason   string           `json:"reason"`
	Message  string           `json:"message"`

	Requirement Requirement `json:"requirement"`
	// Suggested are the rules that the approval request offers to remember.
	Suggested []message.PermissionRule `json:"suggested_rules"`
	// Trace has every rule about the tool: first those that were evaluated, in order, then the
	// others.
	Trace []*Traced `json:"trace"`
	// NotEvaluated are the rules about other tools.
	NotEvaluated []string    `json:"not_evaluated"`
	Errors       []RuleError `json:"errors"`
	// NearMiss says which single part of a rule would have changed the decision; "" if there is
	// none.
	NearMiss string `json:"near_miss"`
	// Shell shows the commands of a shell line and which of them the allow rules cover together;
	// empty for other tools, and if no rule has content.
	Shell []Piece `json:"shell"`
	// Cost is the cost of the conditions, in cel-go's units.
	Cost     uint64        `json:"cost"`
	Duration time.Duration `json:"-"`
}

// Explain decides as Decide does and says why. It evaluates every rule about the tool and keeps the
// value of every part of its condition, so it takes many times as long. The first Explain of a
// bundle for a tool also compiles the conditions, which takes as long as loading them. It is
// safe for concurrent use.
//
// What it shows of the input is shortened and omits what a rule redacts.
func (b *Bundle) Explain(ctx context.Context, req Request) *Explanation {
	if b == nil || !b.ready {
		return explanationOf(denyWithoutPolicy(req))
	}
	began := time.Now() //nolint:forbidigo // how long it took is part of the answer, and decides nothing
	e := b.evaluate(ctx, &req, nil)
	defer e.run.Close()
	e.trace = &tracer{byRule: map[*compiledRule]*Traced{}, hidden: e.tr.hiddenPaths(), reached: true}
	x := explanationOf(e.decider().decide())
	x.Duration = time.Since(began) //nolint:forbidigo // as above
	x.Errors = slices.Clone(x.Errors)
	for i := range x.Errors {
		x.Errors[i].Msg = e.trace.errorText(x.Errors[i].Msg)
	}
	for _, t := range e.trace.rules {
		x.Cost += t.Cost
	}
	b.traceRest(ctx, req, e.trace)
	x.Trace = e.trace.rules
	x.NotEvaluated = b.aboutOthers(e.tr)
	x.Shell = shellOf(x)
	x.NearMiss = nearMiss(x)
	return x
}

func explanationOf(d Decision) *Explanation {
	return &Explanation{
		Decided: d, Decision: d.Behavior, Mode: d.Mode, Rule: d.Rule, Source: d.Source, Bundle: d.Bundle, Step: d.Step,
		Reason: d.Reason, Message: d.Message, Requirement: d.Requirement, Suggested: d.Suggested, Errors: d.Errors,
	}
}

// traceRest evaluates the rules that the decision did not need. It uses its own evaluation, so
// nothing in them affects the decision.
func (b *Bundle) traceRest(ctx context.Context, req Request, t *tracer) {
	e := b.evaluate(ctx, &req, nil)
	defer e.run.Close()
	e.trace, t.reached = t, false
	for _, list := range [][]*compiledRule{e.tr.deny, e.tr.ask, e.tr.allow} {
		for _, r := range list {
			if t.byRule[r] == nil {
				e.traceMatch(r)
			}
		}
	}
}

func (b *Bundle) aboutOthers(tr *toolRules) []string {
	here := map[string]bool{}
	for _, r := range slices.Concat(tr.deny, tr.ask, tr.allow) {
		here[r.rule.Name] = true
	}
	var out []string
	for _, other := range b.byTool {
		for _, r := range slices.Concat(other.deny, other.ask, other.allow) {
			if !here[r.rule.Name] {
				here[r.rule.Name] = true
				out = append(out, r.rule.Name+" (tool differs)")
			}
		}
	}
	slices.Sort(out)
	return out
}

// shellOf joins what the allow rules say about a command: a piece is covered if one of them covers
// it.
func shellOf(x *Explanation) []Piece {
	var out []Piece
	for _, t := range x.Trace {
		if t.Behavior != message.BehaviorAllow || t.Shell == nil {
			continue
		}
		if out == nil {
			out = slices.Clone(t.Shell)
			for i := range out {
				if out[i].Covered && out[i].Why == "" {
					out[i].Why = "by rule " + t.Rule
				}
			}
			continue
		}
		for i, p := range t.Shell {
			if i < len(out) && p.Covered && p.Why == "" && !strings.HasPrefix(out[i].Why, "by rule ") {
				out[i] = Piece{Text: p.Text, Covered: true, Why: "by rule " + t.Rule}
			}
		}
		if !slices.ContainsFunc(t.Shell, func(p Piece) bool { return !p.Covered }) {
			out = out[:min(len(out), len(t.Shell))] // the rule covers the whole line, even if it was not read
		}
	}
	return out
}

// nearMiss looks for a rule that only one comparison kept from matching and that would have been
// checked before the deciding one.
func nearMiss(x *Explanation) string {
	for _, t := range x.Trace {
		if t.Matched || t.Failed || t.Because == nil || t.Behavior == x.Decision || !t.Reached || t.Enforcement != "" {
			continue
		}
		last := len(t.Conjuncts) - 1
		if last < 0 || !t.Because.ordering || t.Conjuncts[last].Value == nil || t.Because.Expr != t.Conjuncts[last].Expr {
			continue // more than the last part may be false
		}
		return "rule " + t.Rule + " (" + string(t.Behavior) + ") would match if " + t.Because.Expr + " were true" + operandText(t.Because)
	}
	return ""
}

func operandText(b *Because) string {
	if len(b.Operands) == 0 {
		return ""
	}
	return "; " + strings.Join(b.operands(), ", ")
}

func (b *Because) operands() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(b.Operands)) {
		text, err := strictjson.Marshal(b.Operands[name])
		if err != nil {
			text = fmt.Append(nil, b.Operands[name])
		}
		out = append(out, name+" is "+string(text))
	}
	return out
}

// String formats the part with its value and those of its variables.
func (b *Because) String() string {
	text := b.Expr
	switch {
	case b.Error != "":
		text += " fails: " + b.Error
	case b.Value != nil:
		text += fmt.Sprintf(" is %v", *b.Value)
	}
	if _, whole := b.Operands[b.Expr]; len(b.Operands) == 0 || whole {
		return text
	}
	return text + " (" + strings.Join(b.operands(), ", ") + ")"
}

// Limits on values shown to people.
const (
	maxShownText  = 200 // bytes of a text
	maxShownItems = 20  // elements of a list, members of a map
	maxShownDepth = 4
)

func shownValue(v ref.Val, depth int) any {
	switch v := v.(type) {
	case types.Bool:
		return bool(v)
	case types.Int:
		return int64(v)
	case types.Uint:
		return uint64(v)
	case types.Double:
		return float64(v)
	case types.String:
		return display.Visible(display.Shorten(string(v), maxShownText))
	case types.Null:
		return nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano)
	case types.Duration:
		return v.String()
	case *types.Optional:
		if !v.HasValue() {
			return "absent"
		}
		return shownValue(v.GetValue(), depth)
	case *types.Unknown:
		return "unknown"
	}
	if depth >= maxShownDepth {
		return "…"
	}
	switch v := v.(type) {
	case traits.Mapper:
		return shownMap(v, depth)
	case traits.Lister:
		return shownList(v, depth)
	default:
		return "a value of type " + v.Type().TypeName()
	}
}

func shownList(v traits.Lister, depth int) any {
	out := []any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		if len(out) == maxShownItems {
			return append(out, "…")
		}
		out = append(out, shownValue(it.Next(), depth+1))
	}
	return out
}

func shownMap(v traits.Mapper, depth int) any {
	out := map[string]any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		if len(out) == maxShownItems {
			out["…"] = fmt.Sprintf("%v members", v.Size().Value())
			break
		}
		key := it.Next()
		out[fmt.Sprint(key.Value())] = shownValue(v.Get(key), depth+1)
	}
	return out
}
