package lint

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

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
