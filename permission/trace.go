package permission

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/redact"
	"github.com/askance-dev/askance/permission/internal/celrule"
	"github.com/askance-dev/askance/permission/internal/display"
)

// Traced is how one rule evaluated a call.
type Traced struct {
	Rule     string           `json:"rule"`
	Source   string           `json:"source"`
	Behavior message.Behavior `json:"behavior"`
	// Matched says whether the rule matches the call, Failed that it could not be evaluated.
	Matched bool `json:"matched"`
	Failed  bool `json:"failed"`
	// Enforcement is empty for a rule that decides, and set for one that is only watched.
	Enforcement Enforcement `json:"enforcement,omitzero"`
	// Reached is false for a rule that did not matter because an earlier step had decided. It was
	// evaluated only for the explanation.
	Reached bool `json:"reached"`
	// Because is the part that decided the match: the first false part of a condition, the part
	// that failed, or the whole condition if the rule matched. nil means that the rule matches
	// every call of the tool.
	Because *Because `json:"because"`
	// Conjuncts are all parts of the condition joined by &&, in order of evaluation.
	Conjuncts []Because `json:"conjuncts"`
	// Shell shows how rule_content judges a command, piece by piece.
	Shell []Piece `json:"shell"`
	// Budget says what the call takes from the rule's budget, or why there is no room; "" if the
	// budget was not checked.
	Budget string `json:"budget,omitzero"`
	// Cost is the cost of evaluating the condition, in cel-go's units.
	Cost uint64 `json:"cost"`
}

// Because is a part of a rule with its value for one call.
type Because struct {
	Expr string `json:"expr"`
	// Value is true, false, or null if the part was not evaluated or failed.
	Value *bool  `json:"value"`
	Error string `json:"error,omitzero"`
	// Operands are the variables in it, by their text, with their values.
	Operands map[string]any `json:"operands,omitzero"`
	File     string         `json:"file,omitzero"`
	Line     int            `json:"line,omitzero"`
	Col      int            `json:"col,omitzero"`

	ordering bool // it compares with <, <=, > or >=, so a value can be close
}

// Piece is one part of what a tool's input does, such as one command of a shell line, as a rule's
// content sees it.
type Piece struct {
	Text    string `json:"text"`
	Covered bool   `json:"covered"`
	Why     string `json:"why"`
}

// Explainer is a Pattern that can explain how it judged a call, piece by piece.
type Explainer interface {
	Explain(Call) []Piece
}

// tracer stands between an evaluation and its rules. It runs programs compiled to keep the value of
// every part.
type tracer struct {
	rules   []*Traced
	byRule  map[*compiledRule]*Traced
	hidden  []redact.Path // arguments that are not shown
	reached bool
	current *Traced
}

func (t *tracer) rule(e *evaluation, r *compiledRule) (matched, failed bool) {
	tr := &Traced{Rule: r.rule.Name, Source: r.rule.Source, Behavior: r.rule.Behavior, Reached: t.reached}
	if !r.rule.IsEnforced() {
		tr.Enforcement = r.rule.Enforcement
	}
	t.rules = append(t.rules, tr)
	t.byRule[r] = tr
	t.current = tr
	before := len(e.errors)
	tr.Matched, tr.Failed = e.matchRule(r)
	if r.when == nil || tr.Conjuncts == nil {
		tr.Because = contentReason(r, tr.Matched)
	}
	if tr.Failed && len(e.errors) > before {
		err := e.errors[len(e.errors)-1]
		if tr.Because == nil {
			tr.Because = &Because{Expr: err.Field, File: r.rule.at.FileName()}
		}
		tr.Because.Value, tr.Because.Error = nil, t.errorText(err.Msg)
	}
	if x, ok := r.pattern.(Explainer); ok && e.inputErr == nil {
		pieces, err := callSafely(func() ([]Piece, error) { return x.Explain(e.call), nil })
		if err == nil {
			tr.Shell = t.pieces(e, pieces)
		}
	}
	return tr.Matched, tr.Failed
}

// errorText returns the text of an error, unless it could quote hidden arguments.
func (t *tracer) errorText(text string) string {
	if len(t.hidden) > 0 {
		return "the cause is hidden with the arguments"
	}
	return display.Visible(display.Shorten(text, display.MaxErrorText))
}

// contentReason is the reason for a rule whose condition was not evaluated.
func contentReason(r *compiledRule, matched bool) *Because {
	content, ok := r.rule.content()
	if !ok {
		return nil
	}
	b := &Because{Expr: "rule_content " + display.Visible(display.Shorten(display.OneLine(content), display.MaxReasonExpr)), Value: &matched, File: r.rule.at.FileName()}
	b.Line, b.Col = r.rule.at.Start("rule_content")
	return b
}

func (t *tracer) pieces(e *evaluation, pieces []Piece) []Piece {
	out := make([]Piece, len(pieces))
	for i, p := range pieces {
		out[i] = Piece{Text: display.Visible(display.Shorten(p.Text, display.MaxReasonExpr)), Covered: p.Covered, Why: display.Visible(display.Shorten(p.Why, display.MaxErrorText))}
		if isHidden(t.hidden, []string{"args", argumentOf(e.tr.tool).Name}) {
			out[i].Text, out[i].Why = hiddenText, ""
		}
	}
	return out
}

func (t *tracer) condition(e *evaluation, r *compiledRule) (bool, error) {
	tr := t.current
	ast, p, err := r.when.Traceable(*e.run.Bounds)
	if err != nil {
		return false, err
	}
	cost, terms, excluded := e.run.Cost, maps.Clone(e.terms), r.when.Excludes(&e.variables)
	if excluded {
		e.run.Cost = 0 // evaluated only for the explanation
	}
	v, det, err := p.Details(&e.run)
	state := interpreter.NewEvalState()
	if det != nil {
		if det.State() != nil {
			state = det.State()
		}
		if c := det.ActualCost(); c != nil {
			tr.Cost = *c
		}
	}
	for _, part := range celrule.Conjuncts(ast.NativeRep().Expr()) {
		tr.Conjuncts = append(tr.Conjuncts, t.part(ast, part, state, r.rule))
	}
	tr.Because = decidingPart(tr.Conjuncts)
	if excluded {
		e.run.Cost, e.terms = cost, terms
		return false, nil // as in a decision, which evaluates and pays for nothing else then
	}
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, celrule.NotBool(v)
	}
	if bool(b) && len(tr.Conjuncts) > 1 {
		whole := t.part(ast, ast.NativeRep().Expr(), state, r.rule)
		tr.Because = &whole
	}
	return bool(b), nil
}

func (t *tracer) part(ast *cel.Ast, e celast.Expr, state interpreter.EvalState, r *Rule) Because {
	b := Because{Expr: celrule.TextOf(ast, e), File: r.at.FileName(), ordering: celrule.IsOrdering(e)}
	line, col := celrule.StartOf(ast, e)
	b.Line, b.Col = r.at.Inside("when", line, col)
	v, ok := state.Value(e.ID())
	if !ok {
		return b
	}
	switch v := v.(type) {
	case types.Bool:
		value := bool(v)
		b.Value = &value
	case *types.Err:
		b.Error = t.errorText(v.Error())
	}
	for _, op := range celrule.Operands(e) {
		if v, ok := state.Value(op.ID()); ok && !types.IsError(v) {
			if b.Operands == nil {
				b.Operands = map[string]any{}
			}
			name := celrule.TextOf(ast, op)
			b.Operands[name] = shownValue(v, 0)
			if isHidden(t.hidden, variableSteps(op)) {
				b.Operands[name] = hiddenText
			}
		}
	}
	return b
}

// decidingPart returns the part that determined the result: a false one decides even if others
// failed.
func decidingPart(parts []Because) *Because {
	for i := range parts {
		if v := parts[i].Value; v != nil && !*v {
			return &parts[i]
		}
	}
	for i := range parts {
		if parts[i].Error != "" {
			return &parts[i]
		}
	}
	if len(parts) == 1 {
		return &parts[0]
	}
	return nil
}

// Redacts reports whether any rule of the bundle hides arguments.
func (b *Bundle) Redacts() bool {
	if b == nil {
		return false
	}
	hides := func(t *toolRules) bool {
		return t != nil && slices.ContainsFunc(t.handlers, func(r *compiledRule) bool { return len(r.rule.Redact) > 0 })
	}
	for _, t := range b.byTool {
		if hides(t) {
			return true
		}
	}
	return hides(b.others)
}

// Redacts reports whether any rule of the policy in force hides arguments.
func (l *Live) Redacts() bool { return l.Bundle().Redacts() }

// hiddenPaths are what any rule about the tool redacts. An explanation shows more than an approval
// request, so it hides more.
func (t *toolRules) hiddenPaths() []redact.Path {
	var out []redact.Path
	for _, r := range slices.Concat(t.deny, t.ask, t.allow) {
		for _, text := range r.rule.Redact {
			if p, err := parsePath(text); err == nil {
				out = append(out, p)
			}
		}
	}
	return out
}

// isHidden reports whether a variable, given by its steps, shows something at one of the paths, or
// may show it because it is derived from the arguments: the commands of a line, the paths in the
// input, and terms that use them.
func isHidden(paths []redact.Path, variable []string) bool {
	switch variable[0] {
	case "args":
	case "tool", "caller", "call":
		return false
	case "ctx":
		return len(paths) > 0 && (len(variable) == 1 || variable[1] == "resolved")
	default:
		return len(paths) > 0
	}
	return slices.ContainsFunc(paths, func(p redact.Path) bool { return pathsOverlap(p.Steps, variable[1:]) })
}

// pathsOverlap reports whether one path is a prefix of the other. A number may be an index into a
// list, which the hidden path does not name.
func pathsOverlap(hidden, steps []string) bool {
	if len(hidden) == 0 || len(steps) == 0 {
		return true
	}
	if (hidden[0] == redact.Any || hidden[0] == steps[0]) && pathsOverlap(hidden[1:], steps[1:]) {
		return true
	}
	return isIndex(steps[0]) && pathsOverlap(hidden, steps[1:])
}

// variableSteps splits the path of an operand: args.?card["number"] is args, card and number.
func variableSteps(e celast.Expr) []string {
	switch e.Kind() {
	case celast.IdentKind:
		return []string{e.AsIdent()}
	case celast.SelectKind:
		return append(variableSteps(e.AsSelect().Operand()), e.AsSelect().FieldName())
	case celast.CallKind:
		args := e.AsCall().Args()
		return append(variableSteps(args[0]), fmt.Sprint(args[1].AsLiteral().Value()))
	default: // pathRoot accepts no others
		return []string{""}
	}
}

func isIndex(step string) bool {
	_, err := strconv.Atoi(step)
	return err == nil
}
