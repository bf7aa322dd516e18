package permission

import (
	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
)

// literalValidator checks the constant arguments of a function when a rule is
// loaded: an entry that can never be read would fail every call instead.
type literalValidator struct {
	function string
	check    func(arg int, text string) error
}

// Name implements cel.ASTValidator.
func (v literalValidator) Name() string { return "askance." + v.function }

// Validate implements cel.ASTValidator.
func (v literalValidator) Validate(_ *cel.Env, _ cel.ValidatorConfig, a *celast.AST, issues *cel.Issues) {
	for _, call := range celast.MatchDescendants(celast.NavigateAST(a), celast.FunctionMatcher(v.function)) {
		for i, arg := range call.AsCall().Args() {
			v.argument(i, arg, issues)
		}
	}
}

func (v literalValidator) argument(i int, arg celast.Expr, issues *cel.Issues) {
	switch arg.Kind() {
	case celast.LiteralKind:
		text, ok := arg.AsLiteral().Value().(string)
		if !ok {
			return
		}
		if err := v.check(i, text); err != nil {
			issues.ReportErrorAtID(arg.ID(), "%s: %v", v.function, err)
		}
	case celast.ListKind:
		for _, item := range arg.AsList().Elements() {
			v.argument(i, item, issues)
		}
	default:
	}
}
