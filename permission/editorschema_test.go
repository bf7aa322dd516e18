package permission_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/askance-dev/askance/permission"
)

// policy.schema.json is the schema for editors; it must match the types.
func TestEditorSchemaFile(t *testing.T) {
	const path = "policy.schema.json"
	if *update {
		if err := os.WriteFile(path, permission.EditorSchema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, permission.EditorSchema()) {
		t.Errorf("%s is out of date; run go test -run TestEditorSchemaFile -update", path)
	}
}

func editorSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(permission.EditorSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("policy.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("policy.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func asJSON(t *testing.T, data []byte) any {
	t.Helper()
	text, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// An editor must not mark what the loader accepts.
func TestEditorSchemaAccepts(t *testing.T) {
	s := editorSchema(t)
	var paths []string
	for _, pattern := range []string{"testdata/cases/*/rules.yaml", "testdata/accepted/*.yaml", "../examples/*/*policy*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		paths = append(paths, found...)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := permission.Parse(permission.File{Name: path, Data: data}); err != nil {
			t.Errorf("%s: %v", path, err)
		} else if err := s.Validate(asJSON(t, data)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Mistakes in keys and types are marked in the editor.
func TestEditorSchemaRefuses(t *testing.T) {
	s := editorSchema(t)
	for _, text := range []string{
		`{}`, `{version: 1, name: x}`, `{version: 2, name: x, rules: []}`, `{version: 1, name: 5, rules: []}`,
		`{version: 1, name: x, rules: [], rule: []}`,
		`{version: 1, name: x, rules: [{}]}`,
		`{version: 1, name: x, rules: [{name: a, tool: t}]}`,
		`{version: 1, name: x, rules: [{name: a, behavior: deny}]}`,
		`{version: 1, name: x, rules: [{name: a, tool: t, tool_name: t, behavior: deny}]}`,
		`{version: 1, name: x, rules: [{name: a, tool: t, behavior: passthrough}]}`,
		`{version: 1, name: x, rules: [{name: a, tool: t, behavior: ask, expiry: 15}]}`,
		`{version: 1, name: x, rules: [{name: a, tool: t, behavior: ask, expiry: soon}]}`,
		`{version: 1, name: x, rules: [{name: a, tool: t, behavior: ask, quorum: 0}]}`,
		`{version: 1, name: x, rules: [{name: a, tool: t, behavior: ask, approvers: {group: [x]}}]}`,
		`{version: 1, name: x, rules: [{name: a, tool: t, behavior: ask, escalation: [{after: 5m}]}]}`,
		`{version: 1, name: x, rules: [], tests: [{name: a, call: {tool: t, now: noon}, expect: {}}]}`,
		`{version: 1, name: x, rules: [], vocabulary: {"a b": "true"}}`,
	} {
		if s.Validate(asJSON(t, []byte(text))) == nil {
			t.Errorf("accepted: %s", text)
		}
		if b, err := permission.Load([]permission.File{{Name: "f", Data: []byte(text)}}, permission.Options{Enforced: allDuties}); err == nil {
			t.Errorf("loaded: %s (%d rules)", text, b.Rules())
		}
	}
}
