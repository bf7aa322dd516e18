package permission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/permission"
)

func TestSchemaFields(t *testing.T) {
	s := schema(t, `{"type": "object", "required": ["path", "rows"], "$defs": {"row": {"type": "object", "required": ["id"],
		"properties": {"id": {"type": "integer", "description": "of the row"}}}},
		"properties": {"path": {"type": "string", "format": "uri", "maxLength": 9}, "kind": {"type": "string", "enum": ["a", "b"]},
		"rows": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"$ref": "#/$defs/row"}}}}`)
	want := []permission.Field{
		{Name: "kind", Type: "string", JSONTypes: []string{"string"}, Enum: []any{"a", "b"}, MaxLength: -1},
		{Name: "path", Type: "string", JSONTypes: []string{"string"}, Required: true, Format: "uri", MaxLength: 9},
		{Name: "rows", Type: "list(askance.Args.rows.item)", Struct: "askance.Args.rows.item", Required: true, JSONTypes: []string{"array"}, MinLength: 1, MaxLength: 3},
	}
	if diff := cmp.Diff(want, s.Fields(permission.ArgsType)); diff != "" {
		t.Error(diff)
	}
	want = []permission.Field{{Name: "id", Type: "int", Required: true, Description: "of the row", JSONTypes: []string{"integer"}, MaxLength: -1}}
	if diff := cmp.Diff(want, s.Fields("askance.Args.rows.item")); diff != "" {
		t.Error(diff)
	}
	if got := s.Fields("askance.Nothing"); got != nil {
		t.Errorf("an unknown type has the fields %v", got)
	}
}

func TestInspect(t *testing.T) {
	policy, err := permission.Parse(permission.File{Name: "a.yaml", Data: []byte(`version: 1
name: a
rules:
  - name: r
    tool_name: [x, y]
    behavior: ask
    when: |
      has(args.n) &&
        args.n > 1
  - {name: broken, tool_name: x, behavior: deny, when: "args.n +"}
`)})
	if err != nil {
		t.Fatal(err)
	}
	all := permission.Inspect(policy, permission.Options{})
	if len(all) != 2 || all[0].Tool != "x" || all[1].Tool != "y" || all[0].Rule.Name != "r" {
		t.Fatalf("inspected %d expressions: %+v", len(all), all)
	}
	if diff := cmp.Diff([]string{"has(args.n)", "args.n > 1"}, all[0].Conjuncts()); diff != "" {
		t.Error(diff)
	}
	if got, want := all[0].Place(2, 3), (permission.Place{File: "a.yaml", Line: 9, Col: 9}); got != want {
		t.Errorf("place %v, want %v", got, want)
	}
	if got, want := policy.Rules[1].FieldPlace("when"), (permission.Place{File: "a.yaml", Line: 10, Col: 56}); got != want {
		t.Errorf("place %v, want %v", got, want)
	}
}
