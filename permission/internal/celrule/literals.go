package celrule

import (
	"fmt"
	"regexp"
	_ "time/tzdata" // what a time zone means must not depend on what the machine has installed

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
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

// zoneFunctions take a time zone.
var zoneFunctions = []string{"getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours",
	"getMilliseconds", "getMinutes", "getMonth", "getSeconds"}

// zoneValidators check the names of time zones when a rule is loaded: an
// unknown one would fail every call.
func zoneValidators() []cel.ASTValidator {
	var out []cel.ASTValidator
	for _, f := range zoneFunctions {
		out = append(out, unlessSimple{literalValidator{f, checkZone}})
	}
	return out
}

// checkZone asks the code that reads the zone at run time.
func checkZone(_ int, zone string) error {
	if zone == "Local" {
		return fmt.Errorf("time zone Local differs between machines; name one, as Europe/Berlin")
	}
	got := types.Timestamp{}.Receive("getHours", "timestamp_to_hours_with_tz", []ref.Val{types.String(zone)})
	if types.IsError(got) {
		return fmt.Errorf("there is no time zone %.40q; write for example Europe/Berlin, UTC or +02:00", zone)
	}
	return nil
}

// patternValidator checks the constant patterns of matches, and says what is
// wrong with them.
type patternValidator struct{}

// Name implements cel.ASTValidator.
func (patternValidator) Name() string { return "askance.matches" }

// Validate implements cel.ASTValidator.
func (patternValidator) Validate(_ *cel.Env, _ cel.ValidatorConfig, a *celast.AST, issues *cel.Issues) {
	for _, call := range celast.MatchDescendants(celast.NavigateAST(a), celast.FunctionMatcher("matches")) {
		args := call.AsCall().Args()
		if len(args) == 0 {
			continue
		}
		pattern := args[len(args)-1]
		if pattern.Kind() != celast.LiteralKind {
			continue
		}
		if text, ok := pattern.AsLiteral().Value().(string); ok {
			if _, err := regexp.Compile(text); err != nil {
				issues.ReportErrorAtID(pattern.ID(), "matches: %v", err)
			}
		}
	}
}
