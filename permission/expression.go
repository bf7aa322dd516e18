package permission

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"github.com/askance-dev/askance/permission/internal/celrule"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/paths"
	"github.com/askance-dev/askance/permission/internal/rulefile"
	"github.com/askance-dev/askance/permission/internal/schema"
	"github.com/askance-dev/askance/permission/internal/urls"
)

// Expression is a condition or message as the compiler sees it, for programs that analyse policies:
// linters, editors and policy tests.
type Expression struct {
	Rule  *Rule
	Field string // "when" or "message"
	Tool  string // one of the rule's tools, or AnyTool
	// Declared is the tool's declaration; nil if there is none.
	Declared *Tool
	Env      *cel.Env
	AST      *cel.Ast // checked
	// Terms are the checked terms of the policy's vocabulary by name. They must not be changed.
	Terms map[string]*cel.Ast
}

// Place returns the position in the rule's file of a position (from 1) in the expression's text.
func (e *Expression) Place(line, col int) Place {
	p := Place{File: e.Rule.at.FileName()}
	p.Line, p.Col = e.Rule.at.Inside(e.Field, line, col)
	return p
}

// Inspect compiles the conditions and messages of a policy, once for each tool of their rule. It
// leaves out what does not compile; Compile reports that.
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

// Conjuncts are the parts of the expression that && joins, in order of evaluation, as source text
// on one line.
func (e *Expression) Conjuncts() []string {
	var out []string
	for _, part := range celrule.Conjuncts(e.AST.NativeRep().Expr()) {
		out = append(out, celrule.TextOf(e.AST, part))
	}
	return out
}

// StartOf returns the line and column, from 1, where a part of an expression begins. The position
// that cel-go records for a node is that of its operator.
func StartOf(ast *cel.Ast, e celast.Expr) (line, col int) { return celrule.StartOf(ast, e) }

// parallelFrom is the number of expressions from which several goroutines compile them. Compiling
// takes most of the time of loading a policy.
const parallelFrom = 64

// exprKey is everything that the result of compiling an expression depends on within one policy.
// Identical expressions share a program.
type exprKey struct {
	env  *cel.Env
	text string
	want *cel.Type
}

type compiledExpr struct {
	program *celrule.Program
	faults  []celrule.Fault
}

type exprJob struct {
	exprKey
	args *schema.Type
	done compiledExpr
	ok   bool
}

// precompile compiles the expressions of many rules on all processors. Expressions that it skips
// are compiled one by one when their rule is added.
func (c *compiler) precompile(rules []Rule) {
	var jobs []*exprJob
	seen := map[exprKey]bool{}
	for i := range rules {
		r := &rules[i]
		for _, name := range r.Tools {
			var tool *Tool
			if tr := c.bundle.byTool[name]; tr != nil {
				tool = tr.tool
			}
			env, err := c.envOf(tool)
			if err != nil {
				continue // reported when the rule is added
			}
			for _, key := range []exprKey{{env, r.When, cel.BoolType}, {env, r.Message, cel.StringType}} {
				if key.text == "" || seen[key] {
					continue
				}
				seen[key] = true
				jobs = append(jobs, &exprJob{exprKey: key, args: argsOf(tool)})
			}
		}
	}
	if len(jobs) < parallelFrom {
		return
	}
	c.compileAll(jobs)
}

func (c *compiler) compileAll(jobs []*exprJob) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(jobs); i = next.Add(1) - 1 {
				j := jobs[i]
				var err error
				j.done, err = callSafely(func() (compiledExpr, error) {
					p, faults := celrule.Compile(j.env, j.text, j.want, j.args, c.bundle.limits.expressions(false))
					return compiledExpr{p, faults}, nil
				})
				j.ok = err == nil
			}
		})
	}
	wg.Wait()
	c.compiled = make(map[exprKey]compiledExpr, len(jobs))
	for _, j := range jobs {
		if j.ok {
			c.compiled[j.exprKey] = j.done
		}
	}
}

func argsOf(t *Tool) *schema.Type {
	if t == nil {
		return nil
	}
	return t.Schema.root()
}

// Terms are variables whose values are computed when a rule first reads them, at most once per
// decision. An error in a term is an error in the rule.

const maxTerms = 500

// variableNames are the variables of conditions; cmd exists only for shell tools.
var variableNames = []string{"tool", "args", "caller", "call", "ctx", "cmd"}

func (c *compiler) declareTerms(vocabulary []Term) {
	if len(vocabulary) == 0 {
		return
	}
	env, err := celrule.TermEnv()
	if err != nil {
		c.problems.add(Problem{Field: "vocabulary", Msg: "no CEL environment: " + err.Error()})
		return
	}
	if len(vocabulary) > maxTerms {
		c.problems.add(Problem{Field: "vocabulary", Msg: fmt.Sprintf("has more than %d terms", maxTerms), Hint: "write terms that few rules use into these rules"})
		return
	}
	c.bundle.terms = map[string]*celrule.Program{}
	for i := range vocabulary {
		c.declareTerm(env, &vocabulary[i])
	}
}

func (c *compiler) declareTerm(env *cel.Env, t *Term) {
	if msg := badTermName(env, t.Name); msg != "" {
		c.termFault(t, 0, 0, msg, "rename it, such as office_hours")
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
		c.termFault(t, 1, 1, "has an unknown type", "convert it, such as with string(…)")
		return
	}
	p, faults := celrule.Compile(env, t.Expr, want, nil, c.bundle.limits.expressions(false))
	for _, f := range faults {
		if strings.Contains(f.Msg, "undeclared reference to 'args'") || strings.Contains(f.Msg, "undeclared reference to 'cmd'") {
			f.Hint = "terms are shared by all tools and cannot read the arguments; read those in when"
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

func badTermName(env *cel.Env, name string) string {
	if !rulefile.TermName.MatchString(name) {
		return "is not a valid name: use letters, digits and _"
	}
	if slices.Contains(variableNames, name) {
		return "is already a variable"
	}
	parsed, issues := env.Parse(name)
	if issues.Err() != nil || parsed.NativeRep().Expr().Kind() != celast.IdentKind {
		return "is a keyword of CEL"
	}
	for function := range env.Functions() {
		if space, _, ok := strings.Cut(function, "."); ok && space == name {
			return "is a prefix of function names"
		}
	}
	return ""
}

// Reasons why a rule could not be evaluated, for errors.Is on a RuleError.
var (
	ErrCostLimit = celrule.ErrCostLimit
	ErrDeadline  = celrule.ErrDeadline
)

// PathError is the cause of a RuleError if a text is not a path that every program reads alike.
type PathError = paths.Error

// URLError is the cause of a RuleError if a text is not a URL that every program reads alike. It
// does not repeat the URL, which may contain a password.
type URLError = urls.Error

// Function describes a function that rules have in addition to CEL's.
type Function = celrule.Function

// Functions lists the functions by name.
func Functions() []Function { return celrule.Functions() }

// Variables lists the variables that are the same for every tool, by path, with their types: the
// members of tool, caller and ctx, and those of cmd, which only rules about shell tools have.
func Variables() map[string]string { return celrule.Variables() }

// MayBeMissing reports whether a variable, named by its path in Variables, is absent if the request
// does not know it. A rule must guard it like an optional field of args, or it fails.
func MayBeMissing(path string) bool { return celrule.MayBeMissing(path) }

// LanguageHash identifies what conditions mean. It changes with every function, overload and
// variable, so a policy whose tests passed under another hash should be tested again. It is "" if
// the language cannot be built.
func LanguageHash() string { return celrule.LanguageHash() }
