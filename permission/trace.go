package permission

import (
	"maps"
	"sync"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
)

// Traced is how one rule looked at a call.
type Traced struct {
	Rule     string           `json:"rule"`
	Source   string           `json:"source"`
	Behavior message.Behavior `json:"behavior"`
	// Matched says whether the rule is about the call, Failed that it could not
	// be evaluated.
	Matched bool `json:"matched"`
	Failed  bool `json:"failed"`
	// Enforcement is empty for a rule that decides; others are only watched.
	Enforcement Enforcement `json:"enforcement,omitzero"`
	// Reached is false for a rule that played no part, because an earlier step
	// had decided. It was evaluated for the explanation alone.
	Reached bool `json:"reached"`
	// Because is the part that resolved it: the first false part of a condition,
	// the part that failed, or the whole where the rule matched. nil: the rule
	// is about every call of the tool.
	Because *Because `json:"because"`
	// Conjuncts are all parts of the condition that && joins, in the order of
	// evaluation.
	Conjuncts []Because `json:"conjuncts"`
	// Shell shows what rule_content makes of a command, piece by piece.
	Shell []Piece `json:"shell"`
	// Cost is what evaluating the condition took, in cel-go's units.
	Cost uint64 `json:"cost"`
}

// Because is a part of a rule with its value for one call.
type Because struct {
	Expr string `json:"expr"`
	// Value is true, false, or null where the part was not evaluated or failed.
	Value *bool  `json:"value"`
	Error string `json:"error,omitzero"`
	// Operands are the variables in it, by their text, with their values.
	Operands map[string]any `json:"operands,omitzero"`
	File     string         `json:"file,omitzero"`
	Line     int            `json:"line,omitzero"`
	Col      int            `json:"col,omitzero"`

	ordering bool // it compares by <, <=, > or >=: a value can be near it
}

// Piece is one part of what a tool's input makes happen, such as one command of
// a shell line, as a rule's content sees it.
type Piece struct {
	Text    string `json:"text"`
	Covered bool   `json:"covered"`
	Why     string `json:"why"`
}

// Explainer is a Pattern that can say how it looked at a call, piece by piece.
type Explainer interface {
	Explain(Call) []Piece
}

// tracer stands between an evaluation and its rules. It runs programs that are
// compiled to keep the value of every part.
type tracer struct {
	rules   []*Traced
	byRule  map[*compiledRule]*Traced
	hidden  []argPath // what is not shown of the arguments
	reached bool
	current *Traced
}

func newTracer(hidden []argPath) *tracer {
	return &tracer{byRule: map[*compiledRule]*Traced{}, hidden: hidden, reached: true}
}

// rule traces one rule.
func (t *tracer) rule(e *evaluation, r *compiledRule) (matched, failed bool) {
	tr := &Traced{Rule: r.rule.Name, Source: r.rule.Source, Behavior: r.rule.Behavior, Reached: t.reached}
	if !r.rule.decides() {
		tr.Enforcement = r.rule.Enforcement
	}
	t.rules = append(t.rules, tr)
	t.byRule[r] = tr
	t.current = tr
	before := len(e.errors)
	tr.Matched, tr.Failed = e.match(r)
	if r.when == nil || tr.Conjuncts == nil {
		tr.Because = contentReason(r, tr.Matched)
	}
	if tr.Failed && len(e.errors) > before {
		err := e.errors[len(e.errors)-1]
		if tr.Because == nil {
			tr.Because = &Because{Expr: err.Field, File: r.rule.at.fileName()}
		}
		tr.Because.Value, tr.Because.Error = nil, t.errorText(err.Msg)
	}
	if x, ok := r.pattern.(Explainer); ok && e.inputErr == nil {
		pieces, err := safely(func() ([]Piece, error) { return x.Explain(e.call), nil })
		if err == nil {
			tr.Shell = t.pieces(pieces)
		}
	}
	return tr.Matched, tr.Failed
}

// errorText is the text of an error, which may quote the arguments.
func (t *tracer) errorText(text string) string {
	if len(t.hidden) > 0 {
		return "the cause is hidden with the arguments"
	}
	return display.Visible(display.Shorten(text, display.MaxErrorText))
}

// contentReason is the reason of a rule whose condition was not looked at.
func contentReason(r *compiledRule, matched bool) *Because {
	content, ok := r.rule.content()
	if !ok {
		return nil
	}
	b := &Because{Expr: "rule_content " + display.Visible(display.Shorten(display.OneLine(content), display.MaxReasonExpr)), Value: &matched, File: r.rule.at.fileName()}
	b.Line, b.Col = r.rule.at.start("rule_content")
	return b
}

func (t *tracer) pieces(pieces []Piece) []Piece {
	out := make([]Piece, len(pieces))
	for i, p := range pieces {
		out[i] = Piece{Text: display.Visible(display.Shorten(p.Text, display.MaxReasonExpr)), Covered: p.Covered, Why: display.Visible(display.Shorten(p.Why, display.MaxErrorText))}
		if hides(t.hidden, []string{"args", "command"}) {
			out[i].Text, out[i].Why = hiddenText, ""
		}
	}
	return out
}

// traceable is a program that keeps the value of every part. It is compiled when
// an explanation first needs it, and kept: compiling takes as long as hundreds
// of evaluations, and where rules want explanations on record every decision
// makes one.
type traceable struct {
	once sync.Once // guards what follows
	ast  *cel.Ast
	prg  *program
	err  error
}

// traceable compiles the expression in the same environment and with the same
// limits.
func (p *program) traceable(limits Limits) (*cel.Ast, *program, error) {
	p.traced.once.Do(func() {
		ast, issues := p.expr.env.Compile(p.expr.text)
		if p.traced.err = issues.Err(); p.traced.err != nil {
			return
		}
		p.traced.ast = ast
		p.traced.prg, p.traced.err = newProgram(p.expr.env, ast, p.expr.args, limits, cel.EvalOptions(cel.OptTrackState), cel.CostTracking(nil))
	})
	return p.traced.ast, p.traced.prg, p.traced.err
}

// condition evaluates a condition with its parts.
func (t *tracer) condition(e *evaluation, r *compiledRule) (bool, error) {
	tr := t.current
	ast, p, err := r.when.traceable(e.bundle.limits)
	if err != nil {
		return false, err
	}
	cost, terms, excluded := e.cost, maps.Clone(e.terms), r.when.excludes(e)
	if excluded {
		e.cost = 0 // it is evaluated for the explanation alone
	}
	v, det, err := p.details(e)
	state := interpreter.NewEvalState()
	if det != nil {
		if det.State() != nil {
			state = det.State()
		}
		if c := det.ActualCost(); c != nil {
			tr.Cost = *c
		}
	}
	for _, part := range conjuncts(ast.NativeRep().Expr()) {
		tr.Conjuncts = append(tr.Conjuncts, t.part(ast, part, state, r.rule))
	}
	tr.Because = deciding(tr.Conjuncts)
	if excluded {
		e.cost, e.terms = cost, terms
		return false, nil // as in a decision, where nothing else is looked at or paid for then
	}
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, notBool(v)
	}
	if bool(b) && len(tr.Conjuncts) > 1 {
		whole := t.part(ast, ast.NativeRep().Expr(), state, r.rule)
		tr.Because = &whole
	}
	return bool(b), nil
}

// part is one part of a condition with what the evaluation left behind.
func (t *tracer) part(ast *cel.Ast, e celast.Expr, state interpreter.EvalState, r *Rule) Because {
	b := Because{Expr: textOf(ast, e), File: r.at.fileName(), ordering: isOrdering(e)}
	line, col := StartOf(ast, e)
	b.Line, b.Col = r.at.inside("when", line, col)
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
	for _, op := range operands(e) {
		if v, ok := state.Value(op.ID()); ok && !types.IsError(v) {
			if b.Operands == nil {
				b.Operands = map[string]any{}
			}
			name := textOf(ast, op)
			if b.Operands[name] = shownValue(v, 0); hides(t.hidden, variableSteps(op)) {
				b.Operands[name] = hiddenText
			}
		}
	}
	return b
}

// deciding is the part that made the whole what it is: a false one decides
// whatever failed beside it.
func deciding(parts []Because) *Because {
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
