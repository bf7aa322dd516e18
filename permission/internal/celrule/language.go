package celrule

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	_ "time/tzdata" // the meaning of a time zone must not depend on what is installed

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Overloads lists everything that conditions can call, by name, with its forms, such as
// "string.startsWith(string) -> bool": the functions and operators of CEL, of its libraries, and
// ours.
func Overloads() (map[string][]string, error) {
	env, err := ToolEnv(nil)
	if err != nil {
		return nil, fmt.Errorf("list functions: %w", err)
	}
	out := map[string][]string{}
	for name, decl := range env.Functions() {
		var forms []string
		for _, o := range decl.OverloadDecls() {
			forms = append(forms, signature(name, o.IsMemberFunction(), o.ArgTypes(), o.ResultType()))
		}
		slices.Sort(forms)
		out[name] = forms
	}
	return out, nil
}

func signature(name string, member bool, args []*cel.Type, result *cel.Type) string {
	names := make([]string, len(args))
	for i, t := range args {
		names[i] = typeText(t)
	}
	if member && len(names) > 0 {
		name, names = names[0]+"."+name, names[1:]
	}
	return name + "(" + strings.Join(names, ", ") + ") -> " + typeText(result)
}

// Variables implements permission.Variables.
func Variables() map[string]string {
	out := map[string]string{}
	var walk func(path, structType string)
	walk = func(path, structType string) {
		for name, t := range fixedTypes[structType] {
			if _, ok := fixedTypes[t.TypeName()]; ok {
				walk(path+"."+name, t.TypeName())
				continue
			}
			if t.Kind() == types.ListKind && fixedTypes[t.Parameters()[0].TypeName()] != nil {
				walk(path+"."+name+"[i]", t.Parameters()[0].TypeName())
				continue
			}
			out[path+"."+name] = typeText(t)
		}
	}
	walk("tool", toolType)
	walk("caller", callerType)
	walk("call", callType)
	walk("ctx", contextType)
	walk("cmd", CommandType)
	return out
}

func typeText(t *cel.Type) string {
	return strings.NewReplacer("google.protobuf.Timestamp", "timestamp", "google.protobuf.Duration", "duration").Replace(t.String())
}

// LanguageHash implements permission.LanguageHash.
func LanguageHash() string {
	overloads, err := Overloads()
	if err != nil {
		return ""
	}
	h := sha256.New()
	line := func(s string) { _, _ = h.Write([]byte(s + "\n")) } // a hash never fails
	line(LanguageVersion)
	for _, name := range slices.Sorted(maps.Keys(overloads)) {
		for _, form := range overloads[name] {
			line(form)
		}
	}
	vars := Variables()
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		line(name + " " + vars[name])
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// unknownVariables are absent if the request does not provide them.
var unknownVariables = []string{"call.parent", "caller.groups", "caller.parent_agent", "caller.roles", "caller.run_id", "caller.tenant", "ctx.attempt", "ctx.calls_this_run"}

// MayBeMissing implements permission.MayBeMissing.
func MayBeMissing(path string) bool {
	return slices.ContainsFunc(unknownVariables, func(v string) bool { return path == v || strings.HasPrefix(path, v+".") })
}

// literalValidator checks the constant arguments of a function when a rule is loaded. Otherwise an
// unreadable one would fail every call.
type literalValidator struct {
	function string
	check    func(arg int, text string) error
}

func (v literalValidator) Name() string { return "askance." + v.function }

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

var zoneFunctions = []string{"getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours",
	"getMilliseconds", "getMinutes", "getMonth", "getSeconds"}

// zoneValidators check the names of time zones when a rule is loaded. Otherwise an unknown one
// would fail every call.
func zoneValidators() []cel.ASTValidator {
	var out []cel.ASTValidator
	for _, f := range zoneFunctions {
		out = append(out, unlessSimple{literalValidator{f, checkZone}})
	}
	return out
}

// checkZone uses the code that reads the zone at run time.
func checkZone(_ int, zone string) error {
	if zone == "Local" {
		return errors.New("time zone Local differs between machines; name one, such as Europe/Berlin")
	}
	got := types.Timestamp{}.Receive("getHours", "timestamp_to_hours_with_tz", []ref.Val{types.String(zone)})
	if types.IsError(got) {
		return fmt.Errorf("there is no time zone %.40q; write a name such as Europe/Berlin, UTC or +02:00", zone)
	}
	return nil
}

// patternValidator checks the constant patterns of matches and reports what is wrong with them.
type patternValidator struct{}

func (patternValidator) Name() string { return "askance.matches" }

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
