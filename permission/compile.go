package permission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/celrule"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
	"github.com/askance-dev/askance/permission/internal/schema"
)

// Load parses and compiles rule files in one step and reports the problems of both together. See
// Parse and Compile.
func Load(files []File, opts Options) (*Bundle, error) {
	policy, found := parseFiles(files)
	return compile(policy, opts, found)
}

// Compile compiles a policy to a bundle. A fault in any rule refuses the whole policy, with a
// *LoadError that lists every fault.
func Compile(policy Policy, opts Options) (*Bundle, error) {
	return compile(policy, opts, nil)
}

// noPolicy is the bundle that decides before any policy has been loaded: it allows calls that are
// proven read-only and denies the rest.
func noPolicy(opts Options) (*Bundle, error) {
	c := newCompiler(opts, nil)
	c.bundle.noRules = true
	return c.finish()
}

func compile(policy Policy, opts Options, found problems) (*Bundle, error) {
	c := newCompiler(opts, found)
	c.bundle.mode, c.bundle.expiry = policy.Mode, policy.Expiry
	if policy.Mode != "" {
		if _, err := ParseMode(string(policy.Mode)); err != nil {
			c.problems.add(Problem{Field: "defaults.mode", Msg: err.Error(), Hint: "write one of these, or leave it out"})
		}
	}
	c.bundle.shell = cmp.Or(policy.Shell, defaultShell)
	if !slices.Contains(shells, c.bundle.shell) {
		c.problems.add(Problem{Field: "defaults.shell", Msg: "is " + display.Quoted(policy.Shell) + ", want " + spelling.OrList(shells), Hint: "write one of these, or leave it out"})
	}
	c.declareTerms(policy.Vocabulary)
	if policy.Expiry < 0 {
		c.problems.add(Problem{Field: "defaults.expiry", Msg: "is negative", Hint: "write a duration such as 15m or 24h"})
	}
	c.precompile(policy.Rules)
	for i := range policy.Rules {
		c.addRule(&policy.Rules[i])
	}
	return c.finish()
}

type compiler struct {
	opts     Options
	compiled map[exprKey]compiledExpr // results of precompile
	bundle   *Bundle
	rules    []*Rule
	names    map[string]*Rule
	frontend map[string]bool // undeclared tools that rules mark as supplied by frontends
	anyTool  []*compiledRule
	servers  []*compiledRule // deny and ask rules for undeclared tools of a server
	paths    []pathRule      // deny and ask rules about the files of several tools
	envs     map[envKey]*cel.Env
	terms    []Term
	termVars []cel.EnvOption
	problems problems
}

func newCompiler(opts Options, found problems) *compiler {
	limits := opts.Limits.withDefaults()
	c := &compiler{
		opts:     opts,
		bundle:   &Bundle{limits: limits, bounds: limits.expressions(opts.Unhurried), tools: opts.Tools, byTool: map[string]*toolRules{}, others: &toolRules{}},
		names:    map[string]*Rule{},
		frontend: map[string]bool{},
		envs:     map[envKey]*cel.Env{},
		problems: found,
	}
	for i := range opts.Tools {
		t := opts.Tools[i] // a copy, because the caller may change the original
		switch {
		case t.Name == "" || t.Name == AnyTool:
			c.problems.add(Problem{Field: "tools", Msg: fmt.Sprintf("a tool cannot be named %q", t.Name), Hint: "give it the name that calls use"})
		case c.bundle.byTool[t.Name] != nil:
			c.problems.add(Problem{Field: "tools", Msg: fmt.Sprintf("tool %s is declared twice", display.Quoted(t.Name)), Hint: "remove one of the declarations"})
		default:
			c.bundle.byTool[t.Name] = c.newTool(t.Name, &t)
		}
	}
	return c
}

func (c *compiler) newTool(name string, t *Tool) *toolRules {
	tr := &toolRules{name: name, tool: t, matcher: c.opts.Matchers[name], vars: toolVars(name, t, nil)}
	if t == nil || t.Kind == nil {
		return tr
	}
	if tr.matcher != nil || t.Check != nil {
		c.problems.add(Problem{Field: "tools", Msg: "tool " + display.Quoted(name) + " has both a kind and its own check or matcher",
			Hint: "the kind replaces both; leave one of them out"})
	}
	if err := t.CheckKind(); err != nil {
		c.problems.add(Problem{Field: "tools", Msg: "tool " + display.Quoted(name) + ": " + err.Error()})
	}
	tr.matcher = t.Kind
	return tr
}

func (c *compiler) addRule(given *Rule) {
	r := *given // the bundle keeps its own copy
	r.Tools = c.frontendTools(r.Tools)
	r.Approvers.Users = slices.Clone(r.Approvers.Users)
	if given.RuleContent != nil {
		content := *given.RuleContent
		r.RuleContent = &content
	}
	if first := c.names[r.Name]; first != nil && r.Name != "" {
		c.addFault(&r, "name", "is used by an earlier rule"+first.at.Describe(), "names are unique across all files")
		return
	}
	c.names[r.Name] = &r
	before := len(c.problems)
	checker{c}.checkRule(&r)
	if len(c.problems) > before {
		return
	}
	c.rules = append(c.rules, &r)
	if r.anyTool() {
		switch cr := c.compileRule(&r, nil); {
		case cr == nil:
		case r.HasContent():
			c.addPathRule(&r, cr, nil)
		default:
			c.anyTool = append(c.anyTool, cr)
		}
		return
	}
	for _, name := range c.toolsOf(&r) {
		tr := c.toolBucket(&r, name)
		if tr == nil {
			continue
		}
		cr := c.compileRule(&r, tr)
		if cr == nil {
			return // one tool's problems are enough to see what is wrong
		}
		tr.addRules(cr)
		c.addPathRule(&r, cr, tr)
	}
}

// Frontend before a tool's name says that agents' frontends supply the tool with their requests, so
// no tools file declares it. Rules and tests write it; calls name the tool without it.
const Frontend = "frontend/"

// frontendTools returns the names of a rule's tools as calls spell them. Declared tools and the
// tools of a server stay as they are.
func (c *compiler) frontendTools(names []string) []string {
	out := slices.Clone(names)
	for i, name := range out {
		own, is := strings.CutPrefix(name, Frontend)
		if !is || own == "" || own == AnyTool || c.bundle.byTool[name] != nil || c.bundle.byTool[own] != nil && !c.frontend[own] {
			continue
		}
		c.frontend[own], out[i] = true, own
	}
	return out
}

// toolBucket returns the bucket of a tool that a rule names, or nil if there is none.
func (c *compiler) toolBucket(r *Rule, name string) *toolRules {
	tr := c.bundle.byTool[name]
	if tr != nil {
		return tr
	}
	if len(c.opts.Tools) > 0 && !c.opts.AllowUnknownTools && !c.frontend[name] {
		known := make([]string, 0, len(c.opts.Tools))
		for _, t := range c.opts.Tools {
			known = append(known, t.Name)
		}
		slices.Sort(known)
		what := "declare it in the tools file, or write " + Frontend + display.Quoted(name) + " for a tool that the agent or the MCP gateway supplies"
		if own := strings.TrimPrefix(name, Frontend); slices.Contains(known, own) {
			what = "the tools file declares " + display.Quoted(own) + ": write the name without " + Frontend
		}
		c.addFaultOf(ProblemTool, r, "tool_name", "there is no tool "+display.Quoted(name), cmp.Or(hint.Tool(display.Quoted(name)), hint.DidYouMean(name, known), what))
		return nil
	}
	tr = c.newTool(name, nil)
	c.bundle.byTool[name] = tr
	return tr
}

// compileRule prepares a rule for one tool; tr is nil for any tool. It returns nil after reporting
// a problem.
func (c *compiler) compileRule(r *Rule, tr *toolRules) *compiledRule {
	before := len(c.problems)
	cr := &compiledRule{rule: r, reason: ruleReason(r)}
	if content, ok := r.content(); ok && !r.anyTool() {
		cr.pattern = c.compileContent(r, tr, content)
	}
	var tool *Tool
	if tr != nil {
		tool = tr.tool
	}
	cr.when = c.compileField(r, "when", r.When, types.BoolType, tool)
	cr.message = c.compileField(r, "message", r.Message, types.StringType, tool)
	if len(c.problems) > before {
		return nil
	}
	return cr
}

func (c *compiler) compileContent(r *Rule, tr *toolRules, content string) Pattern {
	if tr == nil || tr.matcher == nil {
		c.addFault(r, "rule_content", "no matcher can interpret the content for "+display.Quoted(strings.Join(r.Tools, ", ")),
			"leave it out to match every call, use when, or give the tool a kind in the tools file, such as bash")
		return nil
	}
	p, err := tr.compilePattern(tr.name, content, r.Behavior)
	if err != nil {
		c.addFault(r, "rule_content", err.Error(), "")
		return nil
	}
	return c.finishPattern(r, tr, p)
}

// compilePattern returns what the matcher makes of the content of a rule for this tool.
func (t *toolRules) compilePattern(tool, content string, behavior message.Behavior) (Pattern, error) {
	p, err := callSafely(func() (Pattern, error) { return t.matcher.Compile(content, behavior) })
	if err == nil && p == nil {
		err = fmt.Errorf("the matcher of %s returned no pattern", display.Quoted(tool))
	}
	return p, err
}

// plainTextHint is for authors who write plain text where an expression is expected.
const plainTextHint = `a message is an expression; give a text its own quotes: "'Deploy now?'"`

func (c *compiler) compileField(r *Rule, field, text string, want *cel.Type, tool *Tool) *celrule.Program {
	if text == "" {
		return nil
	}
	env, err := c.envOf(tool)
	if err != nil {
		c.addFault(r, field, "no CEL environment: "+err.Error(), "report it: the schema of the tool cannot be typed")
		return nil
	}
	done, ok := c.compiled[exprKey{env, text, want}]
	if !ok {
		done.program, done.faults = celrule.Compile(env, text, want, argsOf(tool), c.bundle.limits.expressions(false))
	}
	for _, f := range done.faults {
		line, col := r.at.Inside(field, f.Line, f.Col)
		remark := f.Hint
		if field == "message" && meantAsText(text, remark) {
			remark = plainTextHint
		}
		if f.Kind == celrule.KindName && tool != nil && r.severalTools() {
			remark = strings.TrimPrefix(remark+"; ", "; ") + "the rule is about several tools, and this one is " + display.Quoted(tool.Name) + ": write a separate rule for each that differs"
		}
		c.problems.add(Problem{File: r.at.FileName(), Line: line, Col: col, Rule: r.Name, Field: field, Kind: ProblemKind(f.Kind), Msg: f.Msg, Hint: remark})
	}
	return done.program
}

// meantAsText reports whether a message that is not an expression was probably meant as plain text,
// and the fault's own hint does not help.
func meantAsText(text, remark string) bool {
	switch remark {
	case "", hint.Variables, hint.Example:
		return true
	case hint.JoinTexts:
		return false
	default:
		return !strings.ContainsAny(text, `'"+().`)
	}
}

// envOf returns the environment for rules about a tool, or about any tool if nil. Tools that do not
// differ share one.
func (c *compiler) envOf(t *Tool) (*cel.Env, error) {
	key := envKey{args: argsOf(t), shell: shellKind(t) != nil}
	if env := c.envs[key]; env != nil {
		return env, nil
	}
	more := slices.Clone(c.termVars)
	if key.shell {
		more = append(more, cel.Variable("cmd", cel.ObjectType(celrule.CommandType)))
	}
	env, err := celrule.ToolEnv(key.args, more...)
	if err == nil {
		c.envs[key] = env
	}
	return env, err
}

type envKey struct {
	args  *schema.Type
	shell bool
}

func (c *compiler) addFault(r *Rule, at, msg, hint string) { c.addFaultOf("", r, at, msg, hint) }

// addFaultOf adds a problem with the value at a key, such as redact[2], which the problem names
// without its last index.
func (c *compiler) addFaultOf(kind ProblemKind, r *Rule, at, msg, hint string) {
	line, col := r.at.Start(at)
	field := at
	if i := strings.LastIndexByte(at, '['); i > 0 && at[len(at)-1] == ']' {
		field = at[:i]
	}
	c.problems.add(Problem{File: r.at.FileName(), Line: line, Col: col, Rule: r.Name, Field: r.at.KeyInFile(field), Kind: kind, Msg: msg, Hint: hint})
}

// finish sorts the index, adds the rules for any tool to every bucket and names the bundle by its
// content.
func (c *compiler) finish() (*Bundle, error) {
	c.spreadPathRules()
	if err := c.problems.err(); err != nil {
		return nil, err
	}
	b := c.bundle
	var tools []*Tool
	for _, tr := range b.byTool {
		tr.addRules(c.anyTool...)
		tr.addServers(c.servers)
		tr.sortRules()
		if tr.tool != nil {
			tools = append(tools, tr.tool)
		}
	}
	b.others.addRules(c.anyTool...)
	b.others.addRules(c.servers...)
	b.others.sortRules()
	slices.SortFunc(tools, func(x, y *Tool) int { return cmp.Compare(x.Name, y.Name) })
	slices.SortFunc(c.rules, func(x, y *Rule) int { return cmp.Compare(x.Name, y.Name) })
	hash, err := contentHash(b, c.terms, c.rules, tools)
	if err != nil {
		c.problems.add(Problem{Msg: "the policy has no canonical form: " + err.Error()})
		return nil, c.problems.err()
	}
	b.hash, b.rules, b.ready, b.readsGroups = hash, len(c.rules), true, c.readsGroups()
	b.readsCount = c.hasExpression(readingCount.MatchString)
	if b.known, err = describeRules(c.terms, c.rules); err != nil {
		c.problems.add(Problem{Msg: "the policy has no canonical form: " + err.Error()})
		return nil, c.problems.err()
	}
	return b, nil
}

func ruleReason(r *Rule) string {
	content, hasContent := r.content()
	switch {
	case r.When != "":
		return display.Visible(display.Shorten(display.OneLine(r.When), display.MaxReasonExpr))
	case hasContent:
		return "rule_content " + display.Visible(display.Shorten(content, display.MaxReasonExpr))
	default:
		return "matches every call of the tool"
	}
}

// callSafely turns a panic in foreign code into an error.
func callSafely[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return f()
}
