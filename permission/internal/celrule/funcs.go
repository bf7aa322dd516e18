package celrule

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/askance-dev/askance/permission/internal/paths"
	"github.com/askance-dev/askance/permission/internal/urls"
)

// PathError is the cause of a RuleError where a text is no path that every
// program reads alike.
type PathError = paths.Error

// URLError is the cause of a RuleError where a text is no URL that every
// program reads alike. It does not repeat the URL, which may hold a password.
type URLError = urls.Error

// Function describes a function that rules have in addition to those of CEL.
type Function struct {
	Name      string // as rules write it, path.within
	Signature string // path.within(string, string | list(string)) -> bool
	Doc       string
}

// Functions lists them by name.
func Functions() []Function {
	var out []Function
	for _, f := range ownFunctions {
		out = append(out, Function{Name: f.name, Signature: f.signature, Doc: f.doc})
	}
	return out
}

// ownFunction is a function with its overloads and what they cost.
type ownFunction struct {
	name, signature, doc string
	overloads            []overload
	// literal checks a constant argument at load; nil: nothing to check.
	literal func(arg int, text string) error
}

type overload struct {
	id     string
	args   []*cel.Type
	result *cel.Type
	bind   cel.OverloadOpt
	cost   cost.QuantityExpr
	size   cost.QuantityExpr // of a text result
}

var ownFunctions = append(pathFunctions(), urlFunctions()...)

var (
	oneText  = []*cel.Type{cel.StringType}
	twoTexts = []*cel.Type{cel.StringType, cel.StringType}
	textAnd  = []*cel.Type{cel.StringType, cel.ListType(cel.StringType)}
)

// functionOptions declare all of them, with the checks of literals.
func functionOptions() []cel.EnvOption {
	var opts []cel.EnvOption
	var models []cost.OverloadModel
	for _, f := range ownFunctions {
		var decls []cel.FunctionOpt
		for _, o := range f.overloads {
			decls = append(decls, cel.Overload(o.id, o.args, o.result, o.bind))
			model := []cost.OverloadModelOption{cost.EvalCost(o.cost)}
			if o.size != nil {
				model = append(model, cost.ResultSize(cost.AtMost(o.size)))
			}
			models = append(models, cost.Overload(o.id, model...))
		}
		opts = append(opts, cel.Function(f.name, decls...))
		if f.literal != nil {
			opts = append(opts, cel.ASTValidators(unlessSimple{literalValidator{f.name, f.literal}}))
		}
	}
	return append(opts, cel.CostModel(append(models, textCosts()...)...))
}

// scanCost is the cost of reading a text, at most limit bytes of it.
func scanCost(arg int, limit uint64) cost.QuantityExpr {
	return cost.Sum(cost.Const(1), cost.StringScan(cost.Min(cost.Length(cost.Arg(arg)), cost.Const(limit))))
}

// scanList is the cost of reading all elements of a list, each of them up to
// limit bytes long.
func scanList(arg int, limit uint64) cost.QuantityExpr {
	return cost.Mul(cost.Length(cost.Arg(arg)), cost.Sum(cost.Const(1), cost.Const(limit/10)))
}

// ofText wraps a function of one text.
func ofText[T any](f func(string) (T, error)) cel.OverloadOpt {
	return cel.UnaryBinding(func(v ref.Val) ref.Val {
		s, ok := v.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		out, err := f(string(s))
		return resultOf(out, err)
	})
}

// ofTexts wraps a function of two texts.
func ofTexts[T any](f func(a, b string) (T, error)) cel.OverloadOpt {
	return cel.BinaryBinding(func(v, w ref.Val) ref.Val {
		a, ok := v.(types.String)
		b, ok2 := w.(types.String)
		if !ok || !ok2 {
			return types.MaybeNoSuchOverloadErr(w)
		}
		out, err := f(string(a), string(b))
		return resultOf(out, err)
	})
}

// ofTextAndList wraps a function of a text and a list of texts.
func ofTextAndList[T any](f func(a string, list []string) (T, error)) cel.OverloadOpt {
	return cel.BinaryBinding(func(v, w ref.Val) ref.Val {
		a, ok := v.(types.String)
		list, ok2 := w.(traits.Lister)
		if !ok || !ok2 {
			return types.MaybeNoSuchOverloadErr(w)
		}
		var texts []string
		for it := list.Iterator(); it.HasNext() == types.True; {
			item := it.Next()
			s, ok := item.(types.String)
			if !ok {
				return types.MaybeNoSuchOverloadErr(item)
			}
			texts = append(texts, string(s))
		}
		out, err := f(string(a), texts)
		return resultOf(out, err)
	})
}

// resultOf keeps the cause of an error for errors.As on a RuleError.
func resultOf(out any, err error) ref.Val {
	if err != nil {
		return types.WrapErr(err)
	}
	switch out := out.(type) {
	case bool:
		return types.Bool(out)
	case string:
		return types.String(out)
	case int:
		return types.Int(out)
	default:
		return types.NewErr("a function gave a %T", out)
	}
}
