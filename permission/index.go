package permission

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/operators"
	"github.com/askance-dev/askance/permission/internal/schema"
)

// ruleIndex finds, among the rules of one tool and behavior, those that a value
// of one field leaves in approval request. It is made where rules compare the same field
// for equality with at least indexFrom constants.
type ruleIndex struct {
	path []string
	// byValue has the rules for each constant, rest those that do not compare
	// the field. Both keep the order of the whole list.
	byValue map[any][]int
	rest    []int
	all     []*compiledRule
	// restRules is rest as rules: the answer for a value that no rule names.
	restRules []*compiledRule
}

// indexFrom is the number of constants from which on looking a value up costs
// less than comparing it with each of them.
const indexFrom = 8

// newIndex gives nil where an index does not pay. Of several fields it takes
// the one with the most different constants.
func newIndex(rules []*compiledRule) *ruleIndex {
	constants := map[string]map[any]bool{}
	best := ""
	for _, r := range rules {
		for path, value := range r.equalities() {
			if constants[path] == nil {
				constants[path] = map[any]bool{}
			}
			constants[path][value] = true
			if n := len(constants[path]); n > len(constants[best]) || (n == len(constants[best]) && path < best) {
				best = path
			}
		}
	}
	if len(constants[best]) < indexFrom {
		return nil
	}
	x := &ruleIndex{path: strings.Split(best, "\x00"), byValue: map[any][]int{}, all: rules}
	for i, r := range rules {
		if value, ok := r.equalities()[best]; ok {
			x.byValue[value] = append(x.byValue[value], i)
		} else {
			x.rest = append(x.rest, i)
			x.restRules = append(x.restRules, r)
		}
	}
	return x
}

// equalities are the constants that fields must equal, by the field's path. A
// rule with a pattern has none: the pattern is asked first, and may fail.
func (r *compiledRule) equalities() map[string]any {
	if r.when == nil || r.pattern != nil || r.broken != nil {
		return nil
	}
	out := map[string]any{}
	for _, g := range r.when.Guards {
		path := strings.Join(g.Path, "\x00")
		if _, twice := out[path]; g.Op != operators.Equals || twice {
			continue
		}
		switch g.Kind {
		case schema.KindString:
			out[path] = g.Text
		case schema.KindInt:
			out[path] = g.Num
		default: // a bool halves at best
		}
	}
	return out
}

// relevantRules are the rules of a list that may be about the call, in the list's
// order. Those left out compare a field of the call with another constant, so
// their conditions are false. When in doubt, and for explanations, it is all.
func (e *evaluation) relevantRules(all []*compiledRule, x *ruleIndex) []*compiledRule {
	if x == nil || e.trace != nil || e.inputErr != nil {
		return all
	}
	v, _ := e.Field(x.path)
	switch v.(type) {
	case string, int64:
	default:
		return all // absent, or of a type that equals constants in ways of its own
	}
	found := x.byValue[v]
	switch {
	case len(found) == 0:
		return x.restRules
	case len(x.rest) == 0:
		return x.rules(found)
	default:
		places := slices.Concat(found, x.rest)
		slices.Sort(places)
		return x.rules(places)
	}
}

func (x *ruleIndex) rules(places []int) []*compiledRule {
	out := make([]*compiledRule, len(places))
	for i, place := range places {
		out[i] = x.all[place]
	}
	return out
}
