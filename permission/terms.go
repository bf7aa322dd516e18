package permission

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"github.com/askance-dev/askance/permission/internal/celrule"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/rulefile"
)

// Terms are variables whose values are worked out when a rule first asks for
// them, at most once in a decision. An error in one is an error in the rule.

// maxTerms bounds the vocabulary of a bundle.
const maxTerms = 500

// variableNames are the variables of conditions; cmd for shell tools alone.
var variableNames = []string{"tool", "args", "caller", "ctx", "cmd"}

// declareTerms compiles the vocabulary of a policy.
func (c *compiler) declareTerms(vocabulary []Term) {
	if len(vocabulary) == 0 {
		return
	}
	env, err := termEnv()
	if err != nil {
		c.problems.add(Problem{Field: "vocabulary", Msg: "no CEL environment: " + err.Error()})
		return
	}
	if len(vocabulary) > maxTerms {
		c.problems.add(Problem{Field: "vocabulary", Msg: fmt.Sprintf("has more than %d terms", maxTerms)})
		return
	}
	c.bundle.terms = map[string]*celrule.Program{}
	for i := range vocabulary {
		c.declareTerm(env, &vocabulary[i])
	}
}

func (c *compiler) declareTerm(env *cel.Env, t *Term) {
	if msg := badTermName(env, t.Name); msg != "" {
		c.termFault(t, 0, 0, msg, "")
		return
	}
	if c.bundle.terms[t.Name] != nil {
		c.termFault(t, 0, 0, "is defined twice", "rename one of them")
		return
	}
	want := cel.BoolType
	if checked, issues := env.Compile(t.Expr); issues.Err() == nil {
		want = checked.OutputType()
	}
	if want.IsExactType(cel.DynType) {
		c.termFault(t, 1, 1, "has no certain type", "convert it, for example with string(…)")
		return
	}
	p, faults := celrule.Compile(env, t.Expr, want, nil, c.bundle.limits.expressions(false))
	for _, f := range faults {
		if strings.Contains(f.Msg, "undeclared reference to 'args'") || strings.Contains(f.Msg, "undeclared reference to 'cmd'") {
			f.Hint = "terms serve all tools and cannot see the arguments; look at those in when"
		}
		c.termFault(t, f.Line, f.Col, f.Msg, f.Hint)
	}
	if p != nil {
		c.bundle.terms[t.Name] = p
		c.termVars = append(c.termVars, cel.Variable(t.Name, want))
		c.terms = append(c.terms, *t)
	}
}

func (c *compiler) termFault(t *Term, line, col int, msg, hint string) {
	line, col = t.at.Inside("expr", line, col)
	c.problems.add(Problem{File: t.at.FileName(), Line: line, Col: col, Field: "vocabulary." + display.Visible(display.Shorten(t.Name, display.MaxReasonExpr)), Msg: msg, Hint: hint})
}

// badTermName says why something cannot be the name of a term.
func badTermName(env *cel.Env, name string) string {
	if !rulefile.TermName.MatchString(name) {
		return "is no name: use letters, digits and _"
	}
	if slices.Contains(variableNames, name) {
		return "is the name of a variable"
	}
	parsed, issues := env.Parse(name)
	if issues.Err() != nil || parsed.NativeRep().Expr().Kind() != ast.IdentKind {
		return "is a word of CEL itself"
	}
	for function := range env.Functions() {
		if space, _, ok := strings.Cut(function, "."); ok && space == name {
			return "is the first part of the names of functions"
		}
	}
	return ""
}

// termEnv is the language of terms.
func termEnv() (*cel.Env, error) {
	base, err := celrule.BaseEnv()
	if err != nil {
		return nil, err
	}
	return base.Extend(
		cel.CustomTypeProvider(celrule.NewTypeProvider(base.CELTypeProvider(), nil)),
		cel.Variable("tool", cel.ObjectType(celrule.ToolType)),
		cel.Variable("caller", cel.ObjectType(celrule.CallerType)),
		cel.Variable("ctx", cel.ObjectType(celrule.ContextType)),
	)
}
