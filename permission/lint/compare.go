package lint

import (
	"fmt"
	"slices"

	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// checkComparisons looks for comparisons that are false for every call. CEL's
// checker refuses those of two known types; what is left are fields that may be
// of several types, and enums.
func (c *expr) checkComparisons() {
	c.eachCall(func(e celast.Expr, name string) {
		call := e.AsCall()
		switch name {
		case operators.Equals, operators.NotEquals:
			a, b := call.Args()[0], call.Args()[1]
			c.checkEqual(a, b)
			c.checkEqual(b, a)
			c.checkClock(a, b, name)
			c.checkClock(b, a, name)
		case operators.In:
			if call.Args()[1].Kind() == celast.ListKind {
				for _, item := range call.Args()[1].AsList().Elements() {
					c.checkEqual(call.Args()[0], item)
					c.checkClock(call.Args()[0], item, operators.Equals)
				}
			}
		default:
			if turned[name] != "" {
				c.checkClock(call.Args()[0], call.Args()[1], name)
				c.checkClock(call.Args()[1], call.Args()[0], "_"+turned[name]+"_")
			}
		}
	})
}

// checkEqual judges a comparison of a field with a literal.
func (c *expr) checkEqual(field, literal celast.Expr) {
	if literal.Kind() != celast.LiteralKind {
		return
	}
	f, ok := c.declaredField(selectedPath(field))
	if !ok || isCall(field, "orValue") && c.text(field.AsCall().Args()[0]) == c.text(literal) {
		return // what stands for a missing field need not be one of its values
	}
	value := literal.AsLiteral()
	if len(f.JSONTypes) > 0 && !slices.ContainsFunc(f.JSONTypes, func(t string) bool { return ofType(value, t) }) {
		c.report(NeverEqual, Error, literal, fmt.Sprintf("%s is %s in every call, never equal to %s", c.text(field), oneOf(f.JSONTypes), c.text(literal)),
			"compare with a value of its type")
		return
	}
	if len(f.Enum) > 0 && !slices.ContainsFunc(f.Enum, func(v any) bool { return sameValue(value, v) }) {
		c.report(NeverEqual, Error, literal, fmt.Sprintf("%s is one of %v in every call, never %s", c.text(field), f.Enum, c.text(literal)), "")
	}
}

// selectedPath looks through what gives a field another form but not another value.
func selectedPath(e celast.Expr) celast.Expr {
	switch {
	case isCall(e, "dyn") && len(e.AsCall().Args()) == 1:
		return selectedPath(e.AsCall().Args()[0])
	case isCall(e, "orValue") && e.AsCall().IsMemberFunction():
		return e.AsCall().Target()
	default:
		return e
	}
}

func ofType(v ref.Val, jsonType string) bool {
	switch v.(type) {
	case types.String, types.Bytes:
		return jsonType == "string"
	case types.Int, types.Uint, types.Double:
		return jsonType == "integer" || jsonType == "number"
	case types.Bool:
		return jsonType == "boolean"
	case types.Null:
		return jsonType == "null"
	default:
		return true
	}
}

func sameValue(v ref.Val, want any) bool {
	switch w := want.(type) {
	case string, bool, int64, float64:
		return v.Equal(types.DefaultTypeAdapter.NativeToValue(w)) == types.True
	case nil:
		return v == types.NullValue
	default:
		return true
	}
}

func oneOf(words []string) string {
	if len(words) == 1 {
		return "of type " + words[0]
	}
	return fmt.Sprintf("of one of the types %v", words)
}
