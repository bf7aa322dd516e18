package celrule

import (
	"cel.dev/cel-go/common/cost"
)

// textCosts say what the functions that make texts of texts cost. cel-go charges
// one unit, as much as for a comparison, for each byte of the result; a byte that
// is copied takes no longer than one that is read. By its own models a condition
// that puts fifty addresses into lower case would cost more than a rule may.
// The sizes of the results are those of its models.
func textCosts() []cost.OverloadModel {
	text := cost.Target()
	list := cost.ElemTotal(cost.Target())
	replaced := cost.Mul(cost.Sum(text, cost.Const(1)), cost.Sum(cost.Arg(1), cost.Const(1)))
	scan := cost.StringScan(cost.Length(cost.Target()))
	search := cost.StringScan(cost.Mul(cost.AtLeastOneQuantity(cost.Length(cost.Target())), cost.AtLeastOneQuantity(cost.Length(cost.Arg(0)))))
	elements := cost.Length(cost.Target())
	var models []cost.OverloadModel
	for _, f := range []struct {
		overload string
		read     cost.QuantityExpr
		size     cost.QuantityExpr
	}{
		{"string_lower_ascii", scan, text},
		{"string_upper_ascii", scan, text},
		{"string_reverse", scan, text},
		{"string_trim", scan, cost.AtMost(text)},
		{"string_substring_int", scan, cost.AtMost(cost.Sub(text, cost.IntArg(0, 0)))},
		{"string_replace_string_string", search, cost.AtMost(replaced)},
		{"string_replace_string_string_int", search, cost.AtMost(replaced)},
		{"list_join", elements, cost.AtMost(list)},
		{"list_join_string", elements, cost.AtMost(cost.Sum(list, cost.Mul(elements, cost.Arg(0))))},
	} {
		models = append(models, cost.MemberOverload(f.overload,
			cost.EvalCost(cost.Sum(cost.Const(cost.CallCost), f.read, cost.StringScan(cost.Length(cost.Result())))),
			cost.ResultSize(f.size)))
	}
	for _, id := range []string{"string_split_string", "string_split_string_int"} {
		models = append(models, cost.MemberOverload(id,
			cost.EvalCost(cost.AllocList(scan, cost.StringScan(cost.Length(cost.Result())))),
			cost.ResultSize(cost.Min(
				cost.List(cost.AtMost(cost.Sum(text, cost.Const(1))), cost.AtMost(text)),
				cost.Sum(cost.Scale(text, 2), cost.Const(2))))))
	}
	return models
}
