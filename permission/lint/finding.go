package lint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/askance-dev/askance/permission"
)

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
