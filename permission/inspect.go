package permission

import (
	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"github.com/askance-dev/askance/permission/internal/celrule"
)

// Expression is a condition or a message as the compiler sees it, for programs
// that judge policies: linters, editors, the tests of a policy.
type Expression struct {
	Rule  *Rule
	Field string // "when" or "message"
	Tool  string // one of the rule's tools, or AnyTool
	// Declared is the tool's declaration; nil if there is none.
	Declared *Tool
	Env      *cel.Env
	AST      *cel.Ast // checked
	// Terms are the terms of the policy's vocabulary, checked, by their names;
	// not to be changed.
	Terms map[string]*cel.Ast
}

// Place is where the given place of the expression's text, from 1, stands in
// the rule's file.
func (x *Expression) Place(line, col int) Place {
	p := Place{File: x.Rule.at.FileName()}
	p.Line, p.Col = x.Rule.at.Inside(x.Field, line, col)
	return p
}

// Inspect compiles the conditions and messages of a policy, once for each tool
// that their rule is about. What does not compile is left out: Compile says why.
func Inspect(policy Policy, opts Options) []*Expression {
	c := newCompiler(opts, nil)
	c.declareTerms(policy.Vocabulary)
	terms := c.checkedTerms()
	var out []*Expression
	for i := range policy.Rules {
		r := &policy.Rules[i]
		for _, name := range c.toolsOf(r) {
			var tool *Tool
			if tr := c.bundle.byTool[name]; tr != nil && name != AnyTool {
				tool = tr.tool
			}
			for _, f := range []struct {
				field, text string
				want        *cel.Type
			}{{"when", r.When, types.BoolType}, {"message", r.Message, types.StringType}} {
				if x := c.inspectText(f.text, f.want, tool); x != nil {
					x.Rule, x.Field, x.Tool, x.Declared, x.Terms = r, f.field, name, tool, terms
					out = append(out, x)
				}
			}
		}
	}
	return out
}

// checkedTerms are the terms that compile.
func (c *compiler) checkedTerms() map[string]*cel.Ast {
	out := map[string]*cel.Ast{}
	for i := range c.terms {
		e := c.bundle.terms[c.terms[i].Name].Expr
		if ast, issues := e.Env.Compile(e.Text); issues.Err() == nil {
			out[c.terms[i].Name] = ast
		}
	}
	return out
}

func (c *compiler) inspectText(text string, want *cel.Type, tool *Tool) *Expression {
	if text == "" {
		return nil
	}
	env, err := c.envOf(tool)
	if err != nil {
		return nil
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil || !ast.OutputType().IsExactType(want) {
		return nil
	}
	return &Expression{Env: env, AST: ast}
}

// Conjuncts are the parts of the expression that && joins, in the order of
// evaluation, as source text on one line.
func (x *Expression) Conjuncts() []string {
	var out []string
	for _, part := range celrule.Conjuncts(x.AST.NativeRep().Expr()) {
		out = append(out, celrule.TextOf(x.AST, part))
	}
	return out
}

// StartOf is where a part of an expression begins in its text, line and column
// from 1. The place that cel-go keeps of a node is that of its operator.
func StartOf(ast *cel.Ast, e celast.Expr) (line, col int) { return celrule.StartOf(ast, e) }
