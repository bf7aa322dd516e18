package celrule

import (
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/permission/internal/schema"
)

// The cost of a call of our functions at run time never exceeds the cost that was proved at load
// for the declared sizes.
func TestFunctionsCostWhatIsProved(t *testing.T) {
	s, err := schema.Compile([]byte(`{"type": "object", "properties": {"a": {"type": "string", "maxLength": 400},
		"b": {"type": "string", "maxLength": 60}, "list": {"type": "array", "maxItems": 20, "items": {"type": "string", "maxLength": 40}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	env, err := ToolEnv(s.Root)
	if err != nil {
		t.Fatal(err)
	}
	type measured struct {
		Text  string
		prg   cel.Program
		bound uint64
	}
	measure := func(text string) measured {
		ast, issues := env.Compile(text)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		bound, err := maxCost(env, ast, sizeHints{args: s.Root, unlimited: 400, bound: 1000})
		if err != nil || bound == 0 || bound > 100_000 {
			t.Errorf("%s: bound %d, %v", text, bound, err)
		}
		prg, err := env.Program(ast, cel.CostTracking(nil))
		if err != nil {
			t.Fatal(err)
		}
		return measured{text, prg, bound}
	}
	var all []measured
	for _, f := range ownFunctions {
		for _, o := range f.overloads {
			args := []string{"args.a", "args.b"}[:len(o.args)]
			if len(o.args) == 2 && o.args[1].Kind() == cel.ListKind {
				args[1] = "args.list"
			}
			all = append(all, measure(f.name+"("+strings.Join(args, ", ")+")"))
		}
	}
	for _, text := range []string{
		`args.a.lowerAscii()`, `args.a.upperAscii()`, `args.a.reverse()`, `args.a.trim()`, `args.a.substring(1)`,
		`args.a.replace("a", args.b)`, `args.a.replace("", "xy", 3)`, `args.list.join()`, `args.list.join(args.b)`,
		`args.a.split("")`, `args.a.split(".", 4)`, `args.list.map(x, x.lowerAscii()).join("-").split("-")`,
		`args.a.split(".").exists(x, x.trim() == args.b.lowerAscii())`,
	} {
		all = append(all, measure(text))
	}
	text := rapid.StringMatching(`(https?://)?(/|[a-z.%@:0-9]){0,40}`)
	rapid.Check(t, func(t *rapid.T) {
		list := []any{}
		for _, x := range rapid.SliceOfN(text, 0, 20).Draw(t, "list") {
			list = append(list, x)
		}
		vars := map[string]any{"args": map[string]any{"a": text.Draw(t, "a"), "b": text.Draw(t, "b"), "list": list}}
		for _, m := range all {
			_, det, _ := m.prg.Eval(vars) // errors have a cost, too
			if c := det.ActualCost(); c == nil || *c > m.bound {
				t.Fatalf("%s costs %v on %v, but the proved bound is %d", m.Text, c, vars, m.bound)
			}
		}
	})
}
