package toolfile_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/examples/incident"
)

var update = flag.Bool("update", false, "write permission/tools.schema.json and permission/TOOLS.md")

// The files for editors and readers are up to date.
func TestDescriptionsAreCurrent(t *testing.T) {
	for path, want := range map[string][]byte{"../../../../permission/tools.schema.json": toolfile.EditorSchema(), "../../../../permission/TOOLS.md": []byte(toolfile.Reference())} {
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from the code (%v); run this test with -update", path, err)
		}
	}
}

// The schema accepts what Parse accepts, and rejects misspelled keys and wrong values.
func TestEditorSchema(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(toolfile.EditorSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("tools.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("tools.json")
	if err != nil {
		t.Fatal(err)
	}
	incidents, err := incident.Files.ReadFile("tools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const all = "version: 1\ntools:\n  - {name: a, description: d, server: s, kind: bash, argument: cmd, home: /home/a, placement: remote, idempotent: true, concurrency_safe: true, read_only: false,\n" +
		"     destructive: false, open_world: true, lease: 10s, timeout: 1d, offer_timeout: 1h30m, queue_timeout: 7d, max_attempts: 3, backoff: 1s, input_schema: {type: object}}\n  - {name: b, command: [uptime, -p]}\n"
	for text, want := range map[string]bool{
		string(incidents): true, all: true, "version: 1\ntools: []\n": true,
		"version: 2\ntools: []\n": false, "tools: []\n": false, "version: 1\ntools: [{name: a, idempotant: true}]\n": false, "version: 1\ntools: [{placement: remote}]\n": false,
		"version: 1\ntools: [{name: a, placement: moon}]\n": false, "version: 1\ntools: [{name: a, kind: zsh}]\n": false, "version: 1\ntools: [{name: a, lease: 10}]\n": false,
		"version: 1\ntools: [{name: a, lease: soon}]\n": false, "version: 1\ntools: [{name: a, max_attempts: -1}]\n": false, "version: 1\ntools: [{name: a, command: uptime}]\n": false,
		"version: 1\nrules: []\n": false,
	} {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		form, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(instance); (err == nil) != want {
			t.Errorf("schema of %q: %v", text, err)
		}
		if _, err := toolfile.Parse("t", []byte(text)); (err == nil) != want {
			t.Errorf("Parse of %q: %v", text, err)
		}
	}
}
