package celrule

import (
	"errors"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"

	"github.com/askance-dev/askance/permission/internal/paths"
)

// pathFunctions compare paths without touching files.
func pathFunctions() []ownFunction {
	text := func(id string, f func(string) (string, error)) []overload {
		return []overload{{id: id, args: oneText, result: cel.StringType, bind: ofText(f), cost: scanCost(0, paths.MaxLen), size: cost.Length(cost.Arg(0))}}
	}
	both := cost.Sum(scanCost(0, paths.MaxLen), scanCost(1, paths.MaxLen))
	return []ownFunction{
		{
			name: "path.base", signature: "path.base(string) -> string",
			doc:       `Last segment of the cleaned path: path.base("/a/b/..") is "a".`,
			overloads: text("path_base", paths.Base),
		},
		{
			name: "path.clean", signature: "path.clean(string) -> string",
			doc:       `The path without ".", ".." and doubled separators; links are not followed.`,
			overloads: text("path_clean", paths.Clean),
		},
		{
			name: "path.dir", signature: "path.dir(string) -> string",
			doc:       `The cleaned path without its last segment.`,
			overloads: text("path_dir", paths.Dir),
		},
		{
			name: "path.ext", signature: "path.ext(string) -> string",
			doc:       `The last segment from its last dot on: path.ext("/a/b.tar.gz") is ".gz"; "" for none and for ".env".`,
			overloads: text("path_ext", paths.Ext),
		},
		{
			name: "path.isAbs", signature: "path.isAbs(string) -> bool",
			doc: `Whether the path is absolute.`,
			overloads: []overload{{id: "path_is_abs", args: oneText, result: cel.BoolType, bind: ofText(isAbs),
				cost: scanCost(0, paths.MaxLen)}},
		},
		{
			name: "path.join", signature: "path.join(string, string) -> string",
			doc: `What a program that runs in the first path, an absolute one, opens for the second: path.join(ctx.cwd, args.path).`,
			overloads: []overload{{id: "path_join", args: twoTexts, result: cel.StringType, bind: ofTexts(paths.Join),
				cost: both, size: cost.Sum(cost.Length(cost.Arg(0)), cost.Length(cost.Arg(1)), cost.Const(1))}},
		},
		{
			name: "path.match", signature: "path.match(string, string) -> bool",
			doc: `Whether the whole cleaned path fits a pattern: "*" is any text and "?" one character in a segment, "**" any number of segments. Both absolute or both relative.`,
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
			doc: `Whether the path is the folder, or one of the folders, or below it, by whole segments. All absolute: path.within(path.join(ctx.cwd, args.path), ctx.working_dirs).`,
			overloads: []overload{
				{id: "path_within", args: twoTexts, result: cel.BoolType, bind: ofTexts(paths.Within), cost: both},
				{id: "path_within_any", args: textAnd, result: cel.BoolType, bind: ofTextAndList(paths.WithinAny),
					cost: cost.Sum(scanCost(0, paths.MaxLen), scanList(1, folderLen))},
			},
			literal: func(arg int, text string) error {
				if arg == 1 && strings.HasSuffix(text, "*") {
					return errors.New("a folder has no * after it: it means all that is below it; patterns are for path.match")
				}
				_, err := paths.Abs(text)
				return err
			},
		},
	}
}

// folderLen is the length at which a folder in a list is taken when the cost
// is reckoned. That of a longer one is bounded by the input all the same.
const folderLen = 100

func isAbs(p string) (bool, error) {
	clean, err := paths.Clean(p)
	return strings.HasPrefix(clean, "/"), err
}
