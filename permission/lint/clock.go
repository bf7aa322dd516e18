package lint

import (
	"fmt"

	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// clock are the least and the greatest number that a part of a time can be.
var clock = map[string]struct {
	low, high int64
	remark    string
}{
	"getHours": {0, 23, ""}, "getMinutes": {0, 59, ""}, "getSeconds": {0, 59, ""}, "getMilliseconds": {0, 999, ""},
	"getDayOfWeek": {0, 6, "Sunday is 0"}, "getDate": {1, 31, ""}, "getDayOfMonth": {0, 30, "getDate() counts from 1"},
	"getMonth": {0, 11, "January is 0"}, "getDayOfYear": {0, 365, "the first day is 0"},
}

// checkClock looks for comparisons of a part of a time with a number that it
// never is.
func (c *expr) checkClock(part, literal celast.Expr, operator string) {
	if part.Kind() != celast.CallKind || literal.Kind() != celast.LiteralKind {
		return
	}
	call := part.AsCall()
	bounds, known := clock[call.FunctionName()]
	n, whole := literal.AsLiteral().Value().(int64)
	if !known || !whole || !call.IsMemberFunction() || c.typeOf(call.Target()).Kind() != types.TimestampKind {
		return
	}
	never := false
	switch operator {
	case operators.Equals, operators.NotEquals:
		never = n < bounds.low || n > bounds.high
	case operators.Greater:
		never = n >= bounds.high
	case operators.GreaterEquals:
		never = n > bounds.high
	case operators.Less:
		never = n <= bounds.low
	case operators.LessEquals:
		never = n < bounds.low
	}
	if never {
		c.report(NeverEqual, Error, literal, fmt.Sprintf("%s() is a number from %d to %d in every call, never what is asked of %s",
			call.FunctionName(), bounds.low, bounds.high, c.text(literal)), bounds.remark)
	}
}
