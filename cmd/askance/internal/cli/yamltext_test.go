package cli

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// YAML output contains the same as JSON output, and no raw control characters.
func TestYAMLText(t *testing.T) {
	document := `{"a":"yes","b":[],"c":{},"d":[1,2.50,{"e":"x: y","f":null}],"g":[[true],["\u001b[2J","line\nline"]],"h":"2026-01-02","i":"","j":"- x","k":"#x","long key":12345678901234567890,"l":"plain words here","m":"1e3","n":"~"}`
	text, err := yamlText([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsRune(text, 0x1b) || !strings.Contains(text, "l: plain words here\n") || !strings.Contains(text, "d:\n  - 1\n  - 2.50\n  - e: \"x: y\"\n    f: null\n") {
		t.Errorf("the document is\n%s", text)
	}
	var read, got, want any
	if err := yaml.Unmarshal([]byte(text), &read); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	back, err := json.Marshal(read)
	if err == nil {
		err = json.Unmarshal(back, &got)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(document), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read back: %v\nwant %v\n%s", got, want, text)
	}
}
