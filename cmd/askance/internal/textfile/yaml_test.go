package textfile_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
)

// YAML contains the same as JSON, and no character that a person does not see.
func TestWriteYAML(t *testing.T) {
	document := `{"a":"yes","b":[],"c":{},"d":[1,2.50,{"e":"x: y","f":null}],"g":[[true],["\u001b[2J","line\nline"]],"h":"2026-01-02","i":"","j":"- x","k":"#x","long key":12345678901234567890,"l":"plain words here","m":"1e3","n":"~","o":["a b","- x",1],"p":"\u202e"}`
	for _, flow := range []bool{false, true} {
		list := "o:\n  - a b\n  - \"- x\"\n  - 1\n"
		if flow {
			list = "o: [a b, \"- x\", 1]\n"
		}
		var b bytes.Buffer
		if err := textfile.WriteYAML(&b, []byte(document), "", true, flow); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"l: plain words here\n", "d:\n  - 1\n  - 2.50\n  - e: \"x: y\"\n    f: null\n", "p: \"\\u202e\"\n", "b: []\nc: {}\n", list} {
			if !strings.Contains(b.String(), part) {
				t.Errorf("flow %t: the document is\n%s\nwant in it\n%s", flow, &b, part)
			}
		}
		if strings.ContainsAny(b.String(), "\x1b\u202e") {
			t.Errorf("flow %t: the document has a control character: %q", flow, &b)
		}
		wantSame(t, document, b.String())
	}
}

// A text that is not JSON is an error and no empty document.
func TestWriteYAMLRefuses(t *testing.T) {
	for _, text := range []string{"", "{", `{"a":1`, `{"a":}`, `{"a":1}}`, `{"a":1,"a":2}`, "[1,", `["a]`, `[[1,{"b":[}]]`, `"a`, `"\x"`, "tru", "1e", "-", "x"} {
		for _, flow := range []bool{false, true} {
			var b bytes.Buffer
			if err := textfile.WriteYAML(&b, []byte(text), "", true, flow); err == nil {
				t.Errorf("flow %t: %q is written as %q", flow, text, &b)
			}
		}
	}
}

// wantSame compares a YAML text with a JSON document.
func wantSame(t *testing.T, document, text string) {
	t.Helper()
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
