package celrule

import (
	"errors"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/askance-dev/askance/permission/internal/paths"
	"github.com/askance-dev/askance/permission/internal/urls"
)

// Function describes a function that rules have in addition to CEL's.
type Function struct {
	Name      string // as rules write it, path.within
	Signature string // path.within(string, string | list(string)) -> bool
	Doc       string
}

// Functions lists the functions by name.
func Functions() []Function {
	var out []Function
	for _, f := range ownFunctions {
		out = append(out, Function{Name: f.name, Signature: f.signature, Doc: f.doc})
	}
	return out
}

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

// heavy has the functions whose result can be much longer than what they get, with the length of
// what they add, and those that compare at every position, with the length of what they compare.
// cel-go counts the cost of a call only once it has the result.
var heavy = map[string]func(args []ref.Val) int{
	"indexOf":     comparedLength,
	"lastIndexOf": comparedLength,
	"replace": func(args []ref.Val) int {
		return strings.Count(textOf(args[0]), textOf(args[1])) * len(textOf(args[2]))
	},
	"regex.replace": func(args []ref.Val) int { return (len(textOf(args[0])) + 1) * len(textOf(args[2])) },
	"join": func(args []ref.Val) int {
		sum, between := 0, 0
		if len(args) > 1 {
			between = len(textOf(args[1]))
		}
		for it := args[0].(traits.Lister).Iterator(); it.HasNext() == types.True; {
			sum += len(textOf(it.Next())) + between
		}
		return sum
	},
}

func comparedLength(args []ref.Val) int { return len(textOf(args[0])) * len(textOf(args[1])) }

func textOf(v ref.Val) string {
	s, _ := v.(types.String)
	return string(s)
}

// maxWork bounds what one call of such a function adds or compares, in bytes.
const maxWork = 16 << 20

// boundWork makes these functions fail before they do too much.
func boundWork(env *cel.Env) (*cel.Env, error) {
	var opts []cel.EnvOption
	for name, length := range heavy {
		f := env.Functions()[name]
		bindings, err := f.Bindings()
		if err != nil {
			return nil, err
		}
		var forms []cel.FunctionOpt
		for _, b := range bindings {
			i := slices.IndexFunc(f.OverloadDecls(), func(o *decls.OverloadDecl) bool { return o.ID() == b.Operator })
			if i < 0 {
				continue // the entry for all forms
			}
			decl := f.OverloadDecls()[i]
			call := func(args ...ref.Val) ref.Val {
				switch {
				case length(args) > maxWork:
					return types.NewErr("%s: would build or compare more than %d bytes", name, maxWork)
				case b.Unary != nil:
					return b.Unary(args[0])
				case b.Binary != nil:
					return b.Binary(args[0], args[1])
				default:
					return b.Function(args...)
				}
			}
			bind := cel.FunctionBinding(call)
			switch len(decl.ArgTypes()) {
			case 1:
				bind = cel.UnaryBinding(func(v ref.Val) ref.Val { return call(v) })
			case 2:
				bind = cel.BinaryBinding(func(a, b ref.Val) ref.Val { return call(a, b) })
			}
			declare := cel.Overload
			if decl.IsMemberFunction() {
				declare = cel.MemberOverload
			}
			forms = append(forms, declare(decl.ID(), decl.ArgTypes(), decl.ResultType(), bind))
		}
		opts = append(opts, cel.Function(name, forms...))
	}
	return env.Extend(opts...)
}

// scanCost is the cost of reading at most limit bytes of a text.
func scanCost(arg int, limit uint64) cost.QuantityExpr {
	return cost.Sum(cost.Const(1), cost.StringScan(cost.Min(cost.Length(cost.Arg(arg)), cost.Const(limit))))
}

// scanList is the cost of reading all elements of a list, each up to limit bytes long.
func scanList(arg int, limit uint64) cost.QuantityExpr {
	return cost.Mul(cost.Length(cost.Arg(arg)), cost.Sum(cost.Const(1), cost.Const(limit/10)))
}

func ofText[T any](f func(string) (T, error)) cel.OverloadOpt {
	return cel.UnaryBinding(func(v ref.Val) ref.Val {
		s, ok := v.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		return resultOf(f(string(s)))
	})
}

func ofTexts[T any](f func(a, b string) (T, error)) cel.OverloadOpt {
	return cel.BinaryBinding(func(v, w ref.Val) ref.Val {
		a, ok := v.(types.String)
		b, ok2 := w.(types.String)
		if !ok || !ok2 {
			return types.MaybeNoSuchOverloadErr(w)
		}
		return resultOf(f(string(a), string(b)))
	})
}

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
		return resultOf(f(string(a), texts))
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
		return types.NewErr("a function returned a %T", out)
	}
}

func pathFunctions() []ownFunction {
	one := func(name, doc string, f func(string) (string, error)) ownFunction {
		return ownFunction{name: "path." + name, signature: "path." + name + "(string) -> string", doc: doc, overloads: []overload{{
			id: "path_" + name, args: oneText, result: cel.StringType, bind: ofText(f), cost: scanCost(0, paths.MaxLen), size: cost.Length(cost.Arg(0)),
		}}}
	}
	both := cost.Sum(scanCost(0, paths.MaxLen), scanCost(1, paths.MaxLen))
	return []ownFunction{
		one("base", `Last segment of the cleaned path: path.base("/a/b/..") is "a".`, paths.Base),
		one("clean", `The path without ".", ".." and doubled separators; links are not followed.`, paths.Clean),
		one("dir", `The cleaned path without its last segment.`, paths.Dir),
		one("ext", `The extension of the last segment, starting at its last dot: path.ext("/a/b.tar.gz") is ".gz". It is "" if there is none, and for ".env".`, paths.Ext),
		{
			name: "path.isAbs", signature: "path.isAbs(string) -> bool",
			doc: `Whether the path is absolute.`,
			overloads: []overload{{id: "path_is_abs", args: oneText, result: cel.BoolType, bind: ofText(isAbs),
				cost: scanCost(0, paths.MaxLen)}},
		},
		{
			name: "path.join", signature: "path.join(string, string) -> string",
			doc: `The path that a program running in the first path (absolute) opens for the second: path.join(ctx.cwd, args.path).`,
			overloads: []overload{{id: "path_join", args: twoTexts, result: cel.StringType, bind: ofTexts(paths.Join),
				cost: both, size: cost.Sum(cost.Length(cost.Arg(0)), cost.Length(cost.Arg(1)), cost.Const(1))}},
		},
		{
			name: "path.match", signature: "path.match(string, string) -> bool",
			doc: `Whether the whole cleaned path matches a pattern: in a segment "*" is any text and "?" one character; "**" is any number of segments. Both must be absolute or both relative.`,
			overloads: []overload{{id: "path_match", args: twoTexts, result: cel.BoolType, bind: ofTexts(paths.Match),
				cost: cost.Sum(both, cost.Scale(cost.Mul(cost.Min(cost.Length(cost.Arg(0)), cost.Const(paths.MaxLen)),
					cost.Min(cost.Length(cost.Arg(1)), cost.Const(paths.MaxPattern))), 0.1))}},
			literal: func(arg int, text string) error {
				if arg != 1 {
					return nil
				}
				return paths.CheckPattern(text)
			},
		},
		{
			name: "path.within", signature: "path.within(string, string | list(string)) -> bool",
			doc: `Whether the path is the folder (or one of the folders) or lies below it, by whole segments. All must be absolute: path.within(path.join(ctx.cwd, args.path), ctx.working_dirs).`,
			overloads: []overload{
				{id: "path_within", args: twoTexts, result: cel.BoolType, bind: ofTexts(paths.Within), cost: both},
				{id: "path_within_any", args: textAnd, result: cel.BoolType, bind: ofTextAndList(paths.WithinAny),
					cost: cost.Sum(scanCost(0, paths.MaxLen), scanList(1, folderLen))},
			},
			literal: func(arg int, text string) error {
				if arg == 1 && strings.HasSuffix(text, "*") {
					return errors.New("a folder has no * after it: it includes everything below it; use path.match for patterns")
				}
				_, err := paths.Abs(text)
				return err
			},
		},
	}
}

// folderLen is the assumed length of a folder in a list when estimating cost. The size of the input
// bounds longer ones.
const folderLen = 100

func isAbs(p string) (bool, error) {
	clean, err := paths.Clean(p)
	return strings.HasPrefix(clean, "/"), err
}

func urlFunctions() []ownFunction {
	one := func(name, doc string, result *cel.Type, bind cel.OverloadOpt, size cost.QuantityExpr) ownFunction {
		return ownFunction{name: "url." + name, signature: "url." + name + "(string) -> " + result.String(), doc: doc,
			overloads: []overload{{id: "url_" + name, args: oneText, result: result, bind: bind, cost: scanCost(0, urls.MaxLen), size: size}}}
	}
	return []ownFunction{
		one("hasUser", `Whether the URL carries a user name or a password.`, cel.BoolType,
			ofURL(func(u urls.URL) (bool, error) { return u.User, nil }), nil),
		one("host", `The host in canonical form: lower case, punycode, no trailing dot, IPv6 without brackets.`, cel.StringType,
			ofURL(func(u urls.URL) (string, error) { return u.Host, nil }), cost.Const(maxHost)),
		{
			name: "url.hostIn", signature: "url.hostIn(string, list(string)) -> bool",
			doc: `Whether the host is on the list: "example.com" is that name with every scheme and port, "*.example.com" every name below it, "10.0.0.0/8" a range of addresses; ":8443" after any of them limits it to one port.`,
			overloads: []overload{{id: "url_host_in", args: textAnd, result: cel.BoolType, bind: ofTextAndList(hostIn),
				cost: cost.Sum(scanCost(0, urls.MaxLen), scanList(1, hostLen))}},
			literal: func(arg int, text string) error {
				if arg != 1 {
					return nil
				}
				_, err := urls.ParseHosts([]string{text})
				return err
			},
		},
		one("isAddress", `Whether the host is an IP address.`, cel.BoolType,
			ofURL(func(u urls.URL) (bool, error) { return u.Addr, nil }), nil),
		one("isPrivate", `Whether the host is known not to be public: a loopback, private, link-local or reserved address, a name without a dot, or a name such as localhost. A public name may still resolve to such an address.`, cel.BoolType,
			ofURL(isPrivate), nil),
		one("origin", `Scheme, host and port, without the scheme's default port: "https://example.com".`, cel.StringType,
			ofURL(func(u urls.URL) (string, error) { return u.Origin(), nil }), cost.Const(maxOrigin)),
		one("path", `The path without dot segments or unnecessary escapes.`, cel.StringType,
			ofURL(urls.URL.Path), cost.Scale(cost.Min(cost.Length(cost.Arg(0)), cost.Const(urls.MaxLen)), 3)),
		one("port", `The port, or the scheme's default port.`, cel.IntType, ofURL(urlPort), nil),
		one("scheme", `The scheme in lower case.`, cel.StringType,
			ofURL(func(u urls.URL) (string, error) { return u.Scheme, nil }), cost.Length(cost.Arg(0))),
		{
			name: "url.within", signature: "url.within(string, string) -> bool",
			doc: `Whether the first URL has the scheme, host and port of the second, and the same path or one below it, by whole segments.`,
			overloads: []overload{{id: "url_within", args: twoTexts, result: cel.BoolType, bind: ofTexts(urlWithin),
				cost: cost.Sum(scanCost(0, urls.MaxLen), scanCost(1, urls.MaxLen))}},
			literal: func(_ int, text string) error {
				u, err := urls.Parse(text)
				if err != nil {
					return err
				}
				_, err = u.Path()
				return err
			},
		},
	}
}

const (
	maxHost   = 253
	maxOrigin = maxHost + 64
	hostLen   = 50 // the assumed length of a list entry when estimating cost
)

func ofURL[T any](f func(urls.URL) (T, error)) cel.OverloadOpt {
	return ofText(func(text string) (T, error) {
		u, err := urls.Parse(text)
		if err != nil {
			var none T
			return none, err
		}
		return f(u)
	})
}

func urlPort(u urls.URL) (int, error) {
	if u.Port == 0 {
		return 0, &urls.Error{Msg: "names no port and its scheme has none"}
	}
	return u.Port, nil
}

func isPrivate(u urls.URL) (bool, error) {
	if !u.Private() && slices.ContainsFunc(u.IPv4s(), urls.URL.Private) {
		return false, urls.ErrEmbedded
	}
	return u.Private(), nil
}

func hostIn(text string, list []string) (bool, error) {
	hosts, err := urls.ParseHosts(list)
	u, err2 := urls.Parse(text)
	if err := errors.Join(err, err2); err != nil {
		return false, err
	}
	if !hosts.Has(u) && slices.ContainsFunc(u.IPv4s(), hosts.Has) {
		return false, urls.ErrEmbedded
	}
	return hosts.Has(u), nil
}

func urlWithin(text, base string) (bool, error) {
	b, err := urls.Parse(base)
	if err != nil {
		return false, err
	}
	u, err := urls.Parse(text)
	if err != nil {
		return false, err
	}
	return u.Within(b)
}
