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
)

// Description says what a code is about.
type Description struct {
	Code    Code   `json:"code"`
	Level   string `json:"level"` // in words: some depend on the rule
	Finding string `json:"finding"`
	Why     string `json:"why"`
	Fix     string `json:"fix"`
}

// Codes describes all codes, in their order.
func Codes() []Description { return append(aboutExpressions(), aboutRules()...) }

func aboutExpressions() []Description {
	return []Description{
		{Expression, "error", "The file, or an expression in it, cannot be read: YAML, CEL syntax, types, a result that is not a bool.",
			"The whole policy is refused.", "The message names the place and what was expected there."},
		{UnknownName, "error; warning for a tool without a schema", "A variable, or a field of args, that does not exist.",
			"A misspelled field would be missing in every call.", "`askance policy vars TOOL` prints what there is. Give tools an input_schema."},
		{UnknownTool, "error; warning without a list of tools", "A rule about a tool that is not declared.",
			"It is most likely misspelled, and a misspelled deny rule denies nothing.", "Correct the name, or declare the tool in the tools file."},
		{AlwaysTrue, "error unless i_know; warning where nothing is known of the tool", "An allow rule that allows every call of a tool that can do harm.",
			"It switches the approval request off for good.", "Add a condition, or say i_know: true."},
		{AlwaysFalse, "error", "A rule whose condition is false for every call.",
			"It reads like protection and does nothing.", "Correct the condition, or remove the rule."},
		{Shadowed, "warning; error for an allow rule after a deny rule", "A rule that never decides, because another about the same calls is checked first, or because its tools are read-only and allowed without it.",
			"Deny rules are checked before ask rules, and those before allow rules, in any order of the file; what is declared read_only is allowed unless a rule denies or asks.",
			"Remove it, or narrow the other one; of a read-only tool deny the calls that must not be."},
		{Unreachable, "warning", "A rule that the policy's own mode never comes to, such as an allow rule in mode explore.",
			"It reads as if it did something.", "Change defaults.mode, or remove the rule."},
		{Unguarded, "error; warning in ask rules and messages", "A field that a call may lack, used without a guard: by its schema, or because the rule is about any tool.",
			"A missing field is an error; the rule then falls to its safe side, also for harmless calls.", "Write has(args.x) && …, or args.?x.orValue(…)."},
		{Unanchored, "error in allow rules, else warning", "matches() with a pattern that is not held by ^ and $.",
			"matches() searches: matches('git') is true for every text that contains git.", "Begin the pattern with ^ and end it with $."},
		{EmptyAll, "error", "all() over a list that may be empty, in an allow rule.",
			"all() is true for an empty list.", "Add size(list) > 0 &&, or minItems: 1 to the schema."},
		{Expensive, "error", "An expression that may cost more than one call is allowed to.",
			"It would be stopped half way, and fail closed.", "Avoid loops within loops; declare maxItems, maxLength and maxProperties in the schema."},
		{NeverEqual, "error", "A comparison with a value of another type, or with one that the schema's enum does not have.",
			"It is false without an error, for every call.", "Compare with a value that the field can have."},
		{TextPrefix, "warning", "A path or URL compared as text.",
			"startsWith('/data') is true for /data2 and for /data/../etc.", "Use the functions for paths and URLs: `askance policy vars` lists them."},
	}
}

func aboutRules() []Description {
	return []Description{
		{Interpreter, "error unless i_know", "An allow rule for a program that runs other programs: shells, interpreters, runners.",
			"Allowing python or xargs allows everything.", "Allow the exact command, or say i_know: true."},
		{Boundary, "warning; error in an allow rule that reads a command line as text, unless i_know", "Shell text matched without the end of a word, or with an operator in it, or allowed by what the line begins with.",
			"`git*` is about gitk too, and startsWith('rm') about rmdir; `curl * | sh` misses `curl x|sh`; startsWith('git ') allows `git status; anything`.",
			"Write the prefix form: git status:*."},
		{Approvers, "error", "An approval request that no person, or fewer people than its quorum, can answer.",
			"It would stay open until it expires, and then deny.", "Name more people, a group with members, or a smaller quorum."},
		{RedactPath, "error", "A redact path that no schema of the rule's tools has.",
			"Nothing is hidden, although the rule says so.", "Correct the path; `askance policy vars TOOL` prints the fields."},
		{Times, "error", "An expiry longer than a run may last, or an escalation after the approval request has expired.",
			"The later of the two never happens.", "Make the escalation earlier, or the expiry shorter."},
		{Untested, "warning", "A rule, or a part of its condition, that the tests of the policy do not exercise both ways.",
			"A failure of it would stay unnoticed.", "Add a test for which it applies, and one for which it does not."},
		{Drift, "error", "The language or a tool's schema has changed since the tests were last recorded.",
			"The same text may mean something else now.", "Run `askance policy test --record` and review what changed."},
		{OpenOptions, "error unless i_know", "An allow rule that looks at the commands of a line and leaves their options open, or does not look at all of them.",
			"`go test -exec x` and `git -c alias.x='!y' x` run any program; a second command is not covered by what the first one is.",
			"Write cmd.calls.all(c, … && c.options_admitted), or compare the whole c.argv, or use rule_content."},
		{NotStatic, "error unless i_know", "An allow rule that looks at the commands of a line and does not ask for cmd.static.",
			"Redirections, variables, $(…) and what bash and sh read differently are allowed, too.", "Add cmd.static &&."},
		{NoKind, "warning", "A rule about a tool that takes a command line and has no kind.",
			"Rules can only compare the line as text, which `env rm`, `cd x; rm y` and quotes get around.", "Give the tool a kind, such as bash, in the tools file."},
	}
}

// Level says how bad a finding is.
type Level string

// The levels.
const (
	Error   Level = "error"
	Warning Level = "warning"
)

// Finding is one thing that lint has to say.
type Finding struct {
	Code  Code   `json:"code"`
	Level Level  `json:"level"`
	Rule  string `json:"rule,omitzero"`
	Field string `json:"field,omitzero"` // key of the rule, e.g. when
	permission.Place
	Msg  string `json:"msg"`
	Hint string `json:"hint,omitzero"` // how to fix it
}

// String gives "file:line:col: level code: rule name: fault (hint)".
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
	Rules    int       `json:"rules"` // that were looked at
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

// Record is the state in which the tests of a policy last passed. It is kept
// next to the policy, so that a change of the language or of a tool shows.
type Record struct {
	// Language names what expressions mean: the functions, their libraries and
	// the variables.
	Language string `json:"language"`
	// Tools are the hashes of the declared tools' schemas, by name; "" for a
	// tool without one.
	Tools map[string]string `json:"tools"`
}

// NewRecord is the present state.
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
			report(fmt.Sprintf("tool %s was declared when the tests were recorded, and is not any more", name))
		case hash != before.Tools[name]:
			report(fmt.Sprintf("the schema of tool %s has changed since the tests were recorded", name))
		}
	}
}
