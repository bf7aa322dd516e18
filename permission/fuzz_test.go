package permission_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// FuzzLoadRules loads rule files. For every text, loading returns a bundle or a LoadError whose
// places are in the file, and the same text returns the same bundle.
func FuzzLoadRules(f *testing.F) {
	for _, pattern := range []string{"testdata/cases/*/rules.yaml", "testdata/refused/*.yaml", "testdata/accepted/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatal(pattern, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		files := []permission.File{{Name: "f", Data: data}}
		opts := permission.Options{Enforced: allDuties, Matchers: map[string]permission.Matcher{"Bash": anyContent{}}}
		b, err := permission.Load(files, opts)
		if err != nil {
			var le *permission.LoadError
			if !errors.As(err, &le) || len(le.Problems) == 0 || b != nil {
				t.Fatalf("Load = %v, %v", b, err)
			}
			for _, p := range le.Problems {
				if p.Msg == "" || p.File != "f" || p.Line < 0 || (p.Line > 0 && p.Col < 1) {
					t.Errorf("problem %+v", p)
				}
			}
			return
		}
		again, err := permission.Load(files, opts)
		if err != nil || again.Hash() != b.Hash() {
			t.Fatalf("loaded again: %v, %v", again.Hash(), err)
		}
		d := b.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(`{"x": 1}`)})
		if d.Behavior == "" || d.Step == "" {
			t.Errorf("decision %+v", d)
		}
	})
}

// FuzzSpecifiers imports rules of the form Tool(specifier). Imported rules compile, and an allow
// rule never matches every tool.
func FuzzSpecifiers(f *testing.F) {
	for _, text := range []string{"Bash", "Bash(git status:*)", "Read(./src/**)", "mcp__a__*", "t(x:1)", "*", "Edit(.env)", `Bash(echo "\x00")`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		opts := permission.Options{Matchers: map[string]permission.Matcher{"Bash": anyContent{}, "Read": anyContent{}, "Edit": anyContent{}}}
		for _, b := range []message.Behavior{"allow", "ask", "deny"} {
			policy, err := permission.FromSpecifiers(specifiers(b, text), opts)
			if err != nil {
				continue
			}
			if _, err := permission.Compile(policy, opts); err != nil || len(policy.Rules) == 0 {
				t.Errorf("%s %q: %d rules, %v", b, text, len(policy.Rules), err)
			}
			for _, r := range policy.Rules {
				if r.Behavior != b || b == message.BehaviorAllow && r.Tools[0] == permission.AnyTool {
					t.Errorf("%s %q became %+v", b, text, r)
				}
			}
		}
	})
}

// FuzzDecide decides inputs and modes with a bundle that has all kinds of rules. An input that is
// not a JSON object, or does not match the schema, is never allowed.
func FuzzDecide(f *testing.F) {
	bundle, calls := loadCase(f, "testdata/cases/numbers")
	for _, c := range calls {
		f.Add([]byte(c.Call.Input), string(c.Call.Mode))
	}
	f.Add([]byte(`{"id": 1, "n": 1, "rate": 1, "rows": [{"price": 1, "qty": 1}]} `), "explore")
	f.Add([]byte("{\"id\": 1e400, \"n\": -0, \"rate\": 1}"), "bypass")
	f.Fuzz(func(t *testing.T, input []byte, mode string) {
		for _, tool := range []string{"typed", "untyped", "unknown"} {
			req := permission.Request{Tool: tool, Input: input, Mode: permission.Mode(mode)}
			d := bundle.Decide(context.Background(), req)
			if diff := cmp.Diff(d, bundle.Decide(context.Background(), req), sameErrors); diff != "" {
				t.Errorf("the same call is decided differently:\n%s", diff)
			}
			if _, err := strictjson.Object(input); err != nil && d.Behavior == message.BehaviorAllow {
				t.Errorf("%s allows the invalid input %q: %v", tool, input, err)
			}
			if _, err := permission.ParseMode(mode); mode != "" && err != nil && d.Behavior != message.BehaviorDeny {
				t.Errorf("in mode %q the decision is %s", mode, d.Behavior)
			}
			if d.Behavior == message.BehaviorAllow && len(d.Errors) > 0 {
				t.Errorf("allowed with errors: %v", d.Errors)
			}
		}
	})
}

// FuzzSchema compiles schemas, as a tool server might send them, and validates inputs.
func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"type": "object", "properties": {"a": {"type": "integer"}}}`), []byte(`{"a": 1}`))
	f.Add([]byte(`{"$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}}, "properties": {"l": {"$ref": "#/$defs/l"}}}`), []byte(`{"l": [[], [[]]]}`))
	f.Add([]byte(`{"anyOf": [{"required": ["a"]}, {"maxProperties": 0}], "additionalProperties": {"type": "number"}}`), []byte(`{"b": 9007199254740993}`))
	f.Add([]byte(`{"$ref": "https://example.com/x"}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, text, input []byte) {
		s, err := permission.CompileSchema(text)
		if err != nil {
			if !errors.Is(err, permission.ErrSchema) {
				t.Errorf("CompileSchema(%q) = %v", text, err)
			}
			return
		}
		if err := s.Validate(input); err != nil {
			var se *permission.SchemaError
			if !errors.As(err, &se) || len(se.Violations) == 0 {
				t.Errorf("Validate = %#v", err)
			}
		}
		if _, err := permission.Compile(permission.Policy{Rules: []permission.Rule{rule("r", "deny", `has(dyn(args).a)`)}},
			permission.Options{Tools: []permission.Tool{{Name: "t", Schema: s}}}); err != nil {
			t.Errorf("schema %q compiles on its own, but not for rules: %v", text, err)
		}
	})
}
