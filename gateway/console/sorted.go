package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/askance-dev/askance/toolcall"
)

// columnHead is the heading of a column and the address that sorts by it.
type columnHead struct {
	Label, Class string
	Href         string // "": it does not sort
	Aria         string // ascending or descending, if it sorts the table
}

// sortColumn is a column of rows T. Numbers sort highest first, names alphabetically.
type sortColumn[T any] struct {
	label, class string
	less         func(a, b T) int // nil: not sortable
}

// sortRows sorts rows by the column named in the parameter sort_TABLE, reversed if the name starts
// with "-", and by default by column number fallback. The headings link to the other orders.
func sortRows[T any](q url.Values, table string, rows []T, columns []sortColumn[T], fallback int) []columnHead {
	param := "sort_" + table
	name, back := strings.CutPrefix(q.Get(param), "-")
	by := slices.IndexFunc(columns, func(c sortColumn[T]) bool { return c.less != nil && strings.ToLower(c.label) == name })
	if by < 0 {
		by, back = fallback, false
	}
	heads := make([]columnHead, len(columns))
	for i, c := range columns {
		heads[i] = columnHead{Label: c.label, Class: c.class}
		if c.less == nil {
			continue
		}
		to := maps.Clone(q)
		to.Set(param, strings.ToLower(c.label))
		if i == by {
			if heads[i].Aria = "descending"; (c.class == "") != back {
				heads[i].Aria = "ascending"
			}
			if !back {
				to.Set(param, "-"+to.Get(param))
			}
		}
		heads[i].Href = pathInsights + "?" + to.Encode()
	}
	slices.SortStableFunc(rows, func(a, b T) int {
		if back {
			a, b = b, a
		}
		return columns[by].less(a, b)
	})
	return heads
}

// highest compares numbers, highest first.
func highest[T any](of func(T) int) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(of(b), of(a)) }
}

const numeric = "num"

// sharesBy are the columns of a table of tools, rules or agents.
func sharesBy(head string, tools []toolcall.ActivityTool) []sortColumn[toolcall.ActivityShare] {
	type share = toolcall.ActivityShare
	label, count := "Calls", func(s share) int { return s.Proposed }
	if head == "Rule" {
		label, count = "Decisions", share.Decided
	}
	out := []sortColumn[share]{
		{head, "", func(a, b share) int { return cmp.Compare(a.Name, b.Name) }},
		{label, numeric, highest(count)},
		{"Policy", "bar-cell", nil},
		{"Asked", numeric, highest(func(s share) int { return s.Asked })},
		{"Responses", "bar-cell", nil},
	}
	if tools != nil {
		of := func(s share) toolcall.ActivityTool {
			if i := slices.IndexFunc(tools, func(t toolcall.ActivityTool) bool { return t.Name == s.Name }); i >= 0 {
				return tools[i]
			}
			return toolcall.ActivityTool{}
		}
		out = append(out,
			sortColumn[share]{"Decision", numeric, highest(func(s share) int { return int(of(s).ToDecision.P50MS) })},
			sortColumn[share]{"Run", numeric, highest(func(s share) int { return int(of(s).Run.P50MS) })})
	}
	return append(out, sortColumn[share]{"Failed", numeric, highest(func(s share) int { return s.Failed })})
}

var reviewersBy = func() []sortColumn[toolcall.ReviewerLoad] {
	type load = toolcall.ReviewerLoad
	return []sortColumn[load]{
		{"Name", "", func(a, b load) int { return cmp.Compare(a.Name, b.Name) }},
		{"Open", numeric, highest(func(l load) int { return l.Open })},
		{"Responses", numeric, highest(func(l load) int { return l.Answered })},
		{"Outcome", "bar-cell", nil},
		{"Approved", numeric, highest(func(l load) int { return l.Approved })},
		{"Rejected", numeric, highest(func(l load) int { return l.Rejected })},
		{"Responded", numeric, highest(func(l load) int { return l.Responded })},
		{"Delegated", numeric, highest(func(l load) int { return l.Passed })},
		{"Median", numeric, highest(func(l load) int { return int(l.MedianMS) })},
		{"Within 2s", numeric, highest(func(l load) int { return int(l.FastShare() * 1e6) })},
	}
}()
