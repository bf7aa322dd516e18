// Package lint finds what is wrong with a policy although it loads: rules that can
// never apply, that allow more than they seem to, or whose approval request no one can
// respond to.
//
//	report := lint.Run(files, lint.Options{Options: permission.Options{Tools: tools}})
//	for _, f := range report.Findings {
//		fmt.Println(f)
//	}
//
// Each kind of finding has a code, L01 to L24, that never changes its meaning; [Codes]
// describes them all. An [Error] is something that no policy in force should have; a
// [Warning] may be intended. i_know: true in a rule turns off findings that its author
// must know about (L04, L14, L21 and L22).
//
// The findings are the same for the same input, and sorted by position. Lint uses only
// its options: without the tools, or the members of groups, it does not check them. It
// proves nothing: a policy without findings can still differ from what was meant, which
// is what the policy's tests are for.
package lint

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/suite"
)

// Options are the inputs of lint besides the rules.
type Options struct {
	// Options are the options the policy is loaded with: tools, matchers, limits.
	permission.Options
	// Directory has people and groups; nil means that they are not checked.
	Directory *Directory
	// RunLimit is the longest duration of a run, ExecutorLimit of one execution; 0 means unknown.
	RunLimit, ExecutorLimit time.Duration
	// Coverage is what the policy's tests exercise; nil means not checked.
	Coverage *suite.Report
	// Recorded is the state of the last recorded tests; nil means not checked.
	Recorded *Record
}

// Directory lists who can respond to approval requests.
type Directory struct {
	Users  []string            // people without a group
	Groups map[string][]string // members by group
}

// Run checks the rule files. Files that cannot be loaded are checked as far as they can be read.
func Run(files []permission.File, opts Options) *Report {
	l := &linter{opts: opts}
	_, err := permission.Load(files, opts.Options)
	l.addProblems(err)
	policy, err := permission.Parse(files...)
	if err != nil {
		return newReport(l.found, 0) // Load has reported why
	}
	l.policy = policy
	l.expressions = permission.Inspect(policy, opts.Options)
	for i := range policy.Rules {
		l.checkRule(&policy.Rules[i])
	}
	for _, x := range l.expressions {
		l.checkExpression(x)
	}
	l.checkPairs()
	l.checkShellsWithoutKind()
	l.checkDrift()
	return newReport(l.found, len(policy.Rules))
}

type linter struct {
	opts        Options
	policy      permission.Policy
	expressions []*permission.Expression
	found       []Finding
	refused     map[string]bool // rules and codes of the problems that prevent loading
}

func (l *linter) addProblems(err error) {
	refused, ok := errors.AsType[*permission.LoadError](err)
	if !ok {
		return
	}
	for _, p := range refused.Problems {
		code := codeOf(p)
		if l.refused == nil {
			l.refused = map[string]bool{}
		}
		l.refused[p.Rule+" "+string(code)] = true
		l.found = append(l.found, Finding{Code: code, Level: Error, Rule: p.Rule, Field: p.Field,
			Place: permission.Place{File: p.File, Line: p.Line, Col: p.Col}, Msg: fieldMsg(p.Field, p.Msg), Hint: p.Hint})
	}
}

func codeOf(p permission.Problem) Code {
	switch p.Kind {
	case permission.ProblemName:
		return UnknownName
	case permission.ProblemTool:
		return UnknownTool
	case permission.ProblemCost:
		return Expensive
	case permission.ProblemPeople:
		return Approvers
	case permission.ProblemPath:
		return RedactPath
	case permission.ProblemTime:
		return Times
	default:
		return Expression
	}
}

func fieldMsg(field, msg string) string {
	if field == "" {
		return msg
	}
	return field + ": " + msg
}

func (l *linter) add(code Code, level Level, r *permission.Rule, field, msg, hint string) {
	if l.refused[r.Name+" "+string(code)] {
		return // the loader has reported it better
	}
	place := r.Place()
	if field != "" {
		place = r.FieldPlace(field)
	}
	l.found = append(l.found, Finding{Code: code, Level: level, Rule: r.Name, Field: field, Place: place, Msg: msg, Hint: hint})
}

func (l *linter) checkRule(r *permission.Rule) {
	l.checkTools(r)
	l.checkMode(r)
	l.checkBroad(r)
	l.checkReadOnly(r)
	l.checkContent(r)
	l.checkFolder(r)
	l.checkApprovers(r)
	l.checkTimes(r)
	l.checkTests(r)
}

func (l *linter) checkExpression(x *permission.Expression) {
	c := &expr{linter: l, Expression: x}
	if x.Field == "when" {
		c.checkConstant()
		c.checkLoops()
		c.checkCommandWords()
		commandCheck{c}.checkCommandParts()
		c.checkUntyped()
	}
	guardCheck{c}.checkGuards()
	c.checkCalls()
	c.checkComparisons()
}

func isAllow(r *permission.Rule) bool { return r.Behavior == message.BehaviorAllow }

// tools returns the declarations of the tools that a rule is about.
func (l *linter) tools(r *permission.Rule) []permission.Tool {
	var out []permission.Tool
	for _, t := range l.opts.Tools {
		if r.IsAbout(t.Name, t.Server) {
			out = append(out, t)
		}
	}
	return out
}

var precedence = map[message.Behavior]int{message.BehaviorDeny: 1, message.BehaviorAsk: 2, message.BehaviorAllow: 3}

func (l *linter) checkPairs() {
	parts := l.conditions()
	for i := range l.policy.Rules {
		later := &l.policy.Rules[i]
		for j := range l.policy.Rules {
			earlier := &l.policy.Rules[j]
			if i == j || !decidesBefore(earlier, later, j < i) || !l.checkCovers(earlier, later, parts) {
				continue
			}
			level, hint := Warning, "remove it, or narrow "+earlier.Name
			if isAllow(later) && earlier.Behavior == message.BehaviorDeny {
				level = Error
			}
			l.add(Shadowed, level, later, "", "never decides: "+string(earlier.Behavior)+" rule "+earlier.Name+" matches all of its calls", hint)
			break
		}
	}
}

// checkReadOnly looks for allow rules meant to allow some calls of tools that are declared
// read-only, and so allowed as a whole.
func (l *linter) checkReadOnly(r *permission.Rule) {
	if !isAllow(r) || !r.IsEnforced() || r.When == "" && !r.HasContent() {
		return
	}
	tools := l.tools(r)
	if len(tools) == 0 || slices.ContainsFunc(tools, func(t permission.Tool) bool { return !t.ReadOnly }) {
		return
	}
	l.add(Shadowed, Warning, r, "", "never decides: "+tools[0].Name+" is declared read_only, so calls that no rule denies or asks about are allowed without a rule",
		"deny or ask about the other calls, or do not declare it read_only")
}

// decidesBefore reports whether rule a decides calls that both match, so that b does not. first says
// that a is before b. Ask rules ask together, so none of them hides another. A rule whose budget has no
// room decides nothing, and what a rule demands of matching calls also applies if another decides.
func decidesBefore(a, b *permission.Rule, first bool) bool {
	demands := len(b.Redact) > 0 || b.Executor != permission.Executor{} || b.Audit == permission.AuditFull
	if !a.IsEnforced() || !b.IsEnforced() || a.Budget != nil || demands {
		return false
	}
	x, y := precedence[a.Behavior], precedence[b.Behavior]
	if x == y {
		// Of two rules with the same effect, the later one is superfluous.
		return a.Behavior != message.BehaviorAsk && (first || a.When != b.When || !slices.Equal(a.Tools, b.Tools))
	}
	return x < y
}

// checkCovers reports whether a matches every call that b matches, as far as their parts show.
func (l *linter) checkCovers(a, b *permission.Rule, parts map[*permission.Rule][]string) bool {
	if !slices.Contains(a.Tools, permission.AnyTool) {
		for _, name := range b.Tools {
			if !slices.Contains(a.Tools, name) && !slices.ContainsFunc(l.tools(a), func(t permission.Tool) bool { return t.Name == name }) {
				return false
			}
		}
	}
	if a.HasContent() && (!b.HasContent() || *a.RuleContent != *b.RuleContent || a.Behavior != b.Behavior) {
		return false // content covers more in a deny rule than in an allow rule
	}
	if a.HasContent() && !a.TrustOptions && (b.TrustOptions || a.Options != b.Options) {
		return false
	}
	if a.When == "" {
		return true
	}
	if parts[a] == nil || parts[b] == nil {
		return false
	}
	return !slices.ContainsFunc(parts[a], func(part string) bool { return !slices.Contains(parts[b], part) })
}

func (l *linter) conditions() map[*permission.Rule][]string {
	out := map[*permission.Rule][]string{}
	for _, x := range l.expressions {
		if x.Field == "when" && out[x.Rule] == nil {
			out[x.Rule] = x.Conjuncts()
		}
	}
	return out
}

// Code names a kind of finding. A code never changes its meaning.
type Code string

// The codes.
const (
	Expression  Code = "L01"
	UnknownName Code = "L02"
	UnknownTool Code = "L03"
	AlwaysTrue  Code = "L04"
	AlwaysFalse Code = "L05"
	Shadowed    Code = "L06"
	Unreachable Code = "L07"
	Unguarded   Code = "L08"
	Unanchored  Code = "L09"
	EmptyAll    Code = "L10"
	Expensive   Code = "L11"
	NeverEqual  Code = "L12"
	TextPrefix  Code = "L13"
	Interpreter Code = "L14"
	Boundary    Code = "L15"
	Approvers   Code = "L16"
	RedactPath  Code = "L17"
	Times       Code = "L18"
	Untested    Code = "L19"
	Drift       Code = "L20"
	OpenOptions Code = "L21"
	NotStatic   Code = "L22"
	NoKind      Code = "L23"
	Folder      Code = "L24"
)

// Description describes a code.
type Description struct {
	Code    Code   `json:"code"`
	Level   string `json:"level"` // in words, because some depend on the rule
	Finding string `json:"finding"`
	Why     string `json:"why"`
	Fix     string `json:"fix"`
}

//go:embed codes.txt
var codeTexts string

// Codes describes all codes, in order.
func Codes() []Description {
	var out []Description
	for block := range strings.SplitSeq(strings.TrimSpace(codeTexts), "\n\n") {
		if lines := strings.Split(block, "\n"); len(lines) == 4 {
			code, level, _ := strings.Cut(lines[0], " ")
			out = append(out, Description{Code(code), level, lines[1], lines[2], lines[3]})
		}
	}
	return out
}

// Level is the severity of a finding.
type Level string

// The levels.
const (
	Error   Level = "error"
	Warning Level = "warning"
)

// Finding is one result of lint.
type Finding struct {
	Code  Code   `json:"code"`
	Level Level  `json:"level"`
	Rule  string `json:"rule,omitzero"`
	Field string `json:"field,omitzero"` // key of the rule, e.g. when
	permission.Place
	Msg  string `json:"msg"`
	Hint string `json:"hint,omitzero"` // how to fix it
}

// String returns "file:line:col: level code: rule name: fault (hint)".
func (f Finding) String() string {
	s := ""
	if f.File != "" {
		s = f.File + ":"
		if f.Line > 0 {
			s += fmt.Sprintf("%d:%d:", f.Line, f.Col)
		}
		s += " "
	}
	s += string(f.Level) + " " + string(f.Code) + ": "
	if f.Rule != "" {
		s += "rule " + f.Rule + ": "
	}
	s += f.Msg
	if f.Hint != "" {
		s += " (" + f.Hint + ")"
	}
	return s
}

// Report is what lint found.
type Report struct {
	Findings []Finding `json:"findings"` // by place, each once
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Rules    int       `json:"rules"` // number of rules checked
}

func newReport(found []Finding, rules int) *Report {
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Msg, b.Msg))
	})
	r := &Report{Findings: slices.Compact(found), Rules: rules}
	for _, f := range r.Findings {
		if f.Level == Error {
			r.Errors++
		} else {
			r.Warnings++
		}
	}
	return r
}

// Record is the state in which the tests of a policy last passed. It is stored next to the policy,
// so that a change of the language or of a tool is noticed.
type Record struct {
	// Language identifies what expressions mean: the functions, their libraries and the variables.
	Language string `json:"language"`
	// Tools are the hashes of the declared tools' schemas by name; "" for a tool without a schema.
	Tools map[string]string `json:"tools"`
}

// NewRecord returns the current state.
func NewRecord(tools []permission.Tool) Record {
	r := Record{Language: permission.LanguageHash(), Tools: map[string]string{}}
	for _, t := range tools {
		hash := ""
		if t.Schema != nil {
			hash = t.Schema.Hash()
		}
		r.Tools[t.Name] = hash
	}
	return r
}

func (l *linter) checkDrift() {
	before := l.opts.Recorded
	if before == nil {
		return
	}
	report := func(msg string) {
		l.found = append(l.found, Finding{Code: Drift, Level: Error, Msg: msg, Hint: "run the tests again with --record, and review what changed"})
	}
	now := NewRecord(l.opts.Tools)
	if now.Language != before.Language {
		report("the language of conditions has changed since the tests were recorded")
	}
	for _, name := range slices.Sorted(maps.Keys(before.Tools)) {
		hash, ok := now.Tools[name]
		switch {
		case !ok:
			report(fmt.Sprintf("tool %s was declared when the tests were recorded, and is no longer declared", name))
		case hash != before.Tools[name]:
			report(fmt.Sprintf("the schema of tool %s has changed since the tests were recorded", name))
		}
	}
}
