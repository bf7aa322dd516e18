package schema

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSchemaSteps limits the work of checking one input: about one step for each schema node applied
// to a value, more for long values. An input of DefaultLimits.InputBytes fits a plain schema twice
// over. Without a limit a few hundred bytes could take years: if a schema of alternatives contains
// itself, every level of the input multiplies the work by their number.
const maxSchemaSteps = 300_000

var errSchemaSteps = errors.New("checking it against the tool's schema takes too long")

// checker is a compiled schema that counts its steps. Only one goroutine can use it at a time;
// checkers keeps some for reuse.
type checker struct {
	schema *jsonschema.Schema
	steps  int
}

func newChecker(s *jsonschema.Schema) *checker {
	c := &checker{schema: s}
	c.instrument(s, map[*jsonschema.Schema]bool{})
	return c
}

// validate returns errSchemaSteps instead of the library's result once the budget is spent: below a
// "not" an error would turn into its opposite.
func (c *checker) validate(in any) error {
	c.steps = 0
	err := c.schema.Validate(in)
	if c.steps > maxSchemaSteps {
		return errSchemaSteps
	}
	return err
}

// instrument makes every node count its steps. The library checks a node's format after its type
// and before anything that leads to other nodes, so that is the one place to stop.
func (c *checker) instrument(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool) {
	if s == nil || seen[s] {
		return
	}
	seen[s] = true
	counted := &jsonschema.Format{}
	given := s.Format
	if given != nil {
		counted.Name = given.Name
	}
	counted.Validate = func(v any) error {
		if c.steps += stepsOf(v); c.steps > maxSchemaSteps {
			return errSchemaSteps
		}
		if given != nil {
			return given.Validate(v)
		}
		return nil
	}
	s.Format = counted
	for _, sub := range subschemas(s) {
		c.instrument(sub, seen)
	}
}

// stepsOf is the number of steps for checking a value without its parts.
func stepsOf(v any) int {
	switch v := v.(type) {
	case string:
		return 1 + len(v)/256 // a pattern reads the whole text
	case []any:
		return 1 + len(v)/8
	case map[string]any:
		return 1 + len(v)/8
	default:
		return 1
	}
}

func subschemas(s *jsonschema.Schema) []*jsonschema.Schema {
	out := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties,
		s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema}
	if s.DynamicRef != nil {
		out = append(out, s.DynamicRef.Ref)
	}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems} {
		out = append(out, list...)
	}
	for _, m := range []map[string]*jsonschema.Schema{s.Properties, s.DependentSchemas} {
		out = slices.AppendSeq(out, maps.Values(m))
	}
	out = slices.AppendSeq(out, maps.Values(s.PatternProperties))
	loose := []any{s.Items, s.AdditionalItems, s.AdditionalProperties}
	for _, dep := range s.Dependencies {
		loose = append(loose, dep)
	}
	for _, v := range loose {
		switch v := v.(type) {
		case *jsonschema.Schema:
			out = append(out, v)
		case []*jsonschema.Schema:
			out = append(out, v...)
		}
	}
	return out
}

// hasRoamingReference reports whether a node reachable from s refers to others by the path that led
// to it (dynamic and recursive references). If parts of the document have their own id, such a
// reference leads to nodes that subschemas does not see.
func hasRoamingReference(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool) bool {
	if s == nil || seen[s] {
		return false
	}
	seen[s] = true
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		return true
	}
	return slices.ContainsFunc(subschemas(s), func(sub *jsonschema.Schema) bool { return hasRoamingReference(sub, seen) })
}

func hasInnerID(v any, depth int) bool {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["$id"].(string); ok && depth > 0 {
			return true
		}
		for _, sub := range v {
			if hasInnerID(sub, depth+1) {
				return true
			}
		}
	case []any:
		for _, sub := range v {
			if hasInnerID(sub, depth+1) {
				return true
			}
		}
	}
	return false
}

// checkers keeps checkers for reuse, without locks. One that finds no slot is dropped; a missing
// one is compiled again.
type checkers [16]atomic.Pointer[checker]

func (cs *checkers) get() *checker {
	for i := range cs {
		if c := cs[i].Swap(nil); c != nil {
			return c
		}
	}
	return nil
}

func (cs *checkers) put(c *checker) {
	for i := range cs {
		if cs[i].CompareAndSwap(nil, c) {
			return
		}
	}
}
