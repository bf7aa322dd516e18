package permission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one fault in a policy.
type Problem struct {
	File      string // as given in File.Name; "" for rules made in Go
	Line, Col int    // from 1, in characters; 0 when there is no file
	Rule      string // name of the rule, if it has one
	Field     string // key of the rule file, e.g. "when" or "approvers.users"
	Kind      ProblemKind
	Msg       string
	Hint      string // how to fix it; may be empty
}

// ProblemKind sorts problems for programs that show them. The zero value is
// any other fault.
type ProblemKind string

// The kinds of problems that are told apart.
const (
	ProblemExpression ProblemKind = "expression"   // an expression that does not parse, or has a wrong type
	ProblemName       ProblemKind = "unknown_name" // a variable or field that does not exist
	ProblemTool       ProblemKind = "unknown_tool" // a tool that is not declared
	ProblemCost       ProblemKind = "cost"         // an expression that may cost too much
	ProblemKey        ProblemKind = "unknown_key"  // a key that a rule file does not have at this place
	ProblemPeople     ProblemKind = "people"       // an approval request that too few people can answer
	ProblemPath       ProblemKind = "path"         // a path to hide that leads nowhere
	ProblemTime       ProblemKind = "time"         // a step that comes after the approval request has expired
)

// String gives "file:line:col: rule name: field: fault (hint)".
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ":")
		if p.Line > 0 {
			fmt.Fprintf(&b, "%d:%d:", p.Line, p.Col)
		}
		b.WriteByte(' ')
	}
	if p.Rule != "" {
		b.WriteString("rule " + p.Rule + ": ")
	}
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	b.WriteString(p.Msg)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// LoadError says why a policy was refused. It lists every problem found, in
// the order of files and lines; one is enough to refuse the whole policy.
type LoadError struct{ Problems []Problem }

// maxShownProblems bounds the text of a LoadError, not its list.
const maxShownProblems = 20

// Error lists the problems, one a line.
func (e *LoadError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "policy refused, %d problem", len(e.Problems))
	if len(e.Problems) != 1 {
		b.WriteByte('s')
	}
	for i, p := range e.Problems {
		if i == maxShownProblems {
			fmt.Fprintf(&b, "\n… and %d more", len(e.Problems)-i)
			break
		}
		b.WriteString("\n" + p.String())
	}
	return b.String()
}

// problems collects faults while a policy is read and compiled.
type problems []Problem

func (ps *problems) add(p Problem) { *ps = append(*ps, p) }

// err is nil or the LoadError of what was collected.
func (ps problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return &LoadError{Problems: slices.Compact(ps)}
}

// Place is where something stands in a rule file. The zero Place is that of
// things made in Go.
type Place struct {
	File string `json:"file,omitzero"`
	Line int    `json:"line,omitzero"` // from 1
	Col  int    `json:"col,omitzero"`  // from 1, in characters
}
