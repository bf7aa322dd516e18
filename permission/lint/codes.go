package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/askance-dev/askance/permission"
)

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

// Codes describes all codes, in order.
func Codes() []Description { return append(aboutExpressions(), aboutRules()...) }

func aboutExpressions() []Description {
	return []Description{
		{Expression, "error", "The file, or an expression in it, cannot be read: YAML, CEL syntax, types, a result that is not a bool.",
			"The whole policy is refused.", "The message says where and what was expected."},
		{UnknownName, "error; warning for a tool without a schema", "A variable, or a field of args, that does not exist.",
			"A misspelled field is missing in every call.", "`askance policy vars TOOL` prints the fields. Give tools an input_schema."},
		{UnknownTool, "error; warning without a list of tools", "A rule about a tool that is not declared.",
			"It is most likely misspelled, and a misspelled deny rule denies nothing.", "Correct the name, or declare the tool in the tools file."},
		{AlwaysTrue, "error unless i_know; warning if nothing is known about the tool", "An allow rule that allows every call of a tool that can do harm.",
			"Such calls never need approval again.", "Add a condition, or write i_know: true."},
		{AlwaysFalse, "error", "A rule whose condition is false for every call.",
			"It looks like protection and does nothing.", "Correct the condition, or remove the rule."},
		{Shadowed, "warning; error for an allow rule after a deny rule", "A rule that never decides, because another rule for the same calls is checked first, or because its tools are read-only and allowed without it.",
			"Deny rules are checked before ask rules, and ask rules before allow rules, in any order of the file. A read_only tool is allowed unless a rule denies or asks.",
			"Remove it, or narrow the other one. For a read-only tool, deny the unwanted calls."},
		{Unreachable, "warning", "A rule that the policy's own mode never reaches, such as an allow rule in mode explore.",
			"It looks as if it had an effect.", "Change defaults.mode, or remove the rule."},
		{Unguarded, "error; warning in ask rules and messages", "A field that may be missing, by the schema or because the rule applies to any tool, is used without a guard.",
			"A missing field is an error. The rule then fails closed, even for harmless calls.", "Write has(args.x) && …, or args.?x.orValue(…)."},
		{Unanchored, "error in allow rules, otherwise warning", "matches() with a pattern that is not anchored by ^ and $.",
			"matches() searches: matches('git') is true for every text that contains git.", "Begin the pattern with ^ and end it with $."},
		{EmptyAll, "error", "all() over a list that may be empty, in an allow rule.",
			"all() is true for an empty list.", "Add size(list) > 0 &&, or minItems: 1 to the schema."},
		{Expensive, "error", "An expression that may exceed the cost limit of one call.",
			"It would be stopped halfway and fail closed.", "Avoid loops within loops; declare maxItems, maxLength and maxProperties in the schema."},
		{NeverEqual, "error", "A comparison with a value of another type, or with one that is not in the schema's enum.",
			"It is false for every call, without an error.", "Compare with a value that the field can have."},
		{TextPrefix, "warning", "A path or URL compared as text.",
			"startsWith('/data') is true for /data2 and for /data/../etc.", "Use the functions for paths and URLs: `askance policy vars` lists them."},
	}
}

func aboutRules() []Description {
	return []Description{
		{Interpreter, "error unless i_know", "An allow rule for a program that runs other programs: shells, interpreters, runners.",
			"Allowing python or xargs allows everything.", "Allow the exact command, or write i_know: true."},
		{Boundary, "warning; error in an allow rule that reads a command line as text, unless i_know", "Shell text matched without a word boundary, or with an operator in it, or allowed by the start of the line.",
			"`git*` also matches gitk, and startsWith('rm') matches rmdir; `curl * | sh` misses `curl x|sh`; startsWith('git ') allows `git status; anything`.",
			"Write the prefix form: git status:*."},
		{Approvers, "error", "An approval request to which no one, or fewer people than its quorum, can respond.",
			"It would stay open until it expires, and then be denied.", "Name more people, a group with members, or a smaller quorum."},
		{RedactPath, "error", "A redact path that is in no schema of the rule's tools.",
			"Nothing is hidden, although the rule says so.", "Correct the path; `askance policy vars TOOL` prints the fields."},
		{Times, "error", "An expiry longer than a run can last, or an escalation after the approval request has expired.",
			"The later of the two never happens.", "Make the escalation earlier, or the expiry shorter."},
		{Untested, "warning", "A rule, or a part of its condition, that the policy's tests do not exercise both ways.",
			"A mistake in it would go unnoticed.", "Add a test to which it applies, and one to which it does not."},
		{Drift, "error", "The language or a tool's schema has changed since the tests were last recorded.",
			"The same text may now mean something else.", "Run `askance policy test --record` and review what changed."},
		{OpenOptions, "error unless i_know", "An allow rule that inspects the commands of a line but does not restrict their options, or does not inspect all of them.",
			"`go test -exec x` and `git -c alias.x='!y' x` run any program; checking the first command says nothing about the second.",
			"Write cmd.calls.all(c, … && c.options_admitted), or compare the whole c.argv, or use rule_content."},
		{NotStatic, "error unless i_know", "An allow rule that inspects the commands of a line without requiring cmd.static.",
			"It also allows redirections, variables, $(…) and text that bash and sh read differently.", "Add cmd.static &&."},
		{NoKind, "warning", "A rule for a tool that takes a command line but has no kind.",
			"Rules can only compare the line as text, which `env rm`, `cd x; rm y` and quotes evade.", "Give the tool a kind, such as bash, in the tools file."},
		{Folder, "error for content that ends with /, otherwise warning", "A deny or ask rule about files whose content seems to name a folder.",
			"`~/.ssh` matches the folder itself, and no file in it.", "Write ~/.ssh/**."},
	}
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
