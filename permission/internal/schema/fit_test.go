package schema

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/internal/strictjson"
)

// drawSchema returns the text of a schema; most of them are plain.
func drawSchema(t *rapid.T, depth int) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	kinds := []string{`"string"`, `"integer"`, `"number"`, `"boolean"`, `"array"`, `"object"`, `["string", "null"]`, `["integer", "string"]`, ""}
	kind := rapid.SampledFrom(kinds).Draw(t, "type")
	if kind != "" {
		add(`"type": %s`, kind)
	}
	maybe := func(label string) bool { return rapid.IntRange(0, 2).Draw(t, label) == 0 }
	for _, key := range []string{"minLength", "maxLength", "minItems", "maxItems"} {
		if maybe(key) {
			add(`%q: %d`, key, rapid.IntRange(0, 3).Draw(t, "bound"))
		}
	}
	if maybe("enum") {
		add(`"enum": ["a", "bb", 1, null]`)
	}
	if maybe("required") {
		add(`"required": ["a"]`)
	}
	if maybe("title") {
		add(`"title": "x", "default": 1, "examples": []`)
	}
	if rapid.IntRange(0, 9).Draw(t, "other") == 0 {
		add(`"minimum": 2`)
	}
	if depth > 0 {
		if maybe("items") {
			add(`"items": %s`, drawSchema(t, depth-1))
		}
		if maybe("properties") {
			add(`"properties": {"a": %s, "b": %s}`, drawSchema(t, depth-1), drawSchema(t, depth-1))
		}
		switch rapid.IntRange(0, 5).Draw(t, "additional") {
		case 0:
			add(`"additionalProperties": false`)
		case 1:
			add(`"additionalProperties": %s`, drawSchema(t, depth-1))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func drawValue(t *rapid.T, depth int) any {
	n := 7
	if depth == 0 {
		n = 5
	}
	switch rapid.IntRange(0, n).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"", "a", "bb", "ccc", "éé", "dddd"}).Draw(t, "text")
	case 1:
		return int64(rapid.IntRange(-1, 5).Draw(t, "int"))
	case 2:
		return rapid.SampledFrom([]float64{1, 1.5, -2}).Draw(t, "float")
	case 3:
		return rapid.Bool().Draw(t, "bool")
	case 4, 5:
		return nil
	case 6:
		out := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "length") {
			out = append(out, drawValue(t, depth-1))
		}
		return out
	default:
		out := map[string]any{}
		for _, name := range []string{"a", "b", "c"} {
			if rapid.Bool().Draw(t, name) {
				out[name] = drawValue(t, depth-1)
			}
		}
		return out
	}
}

// The library accepts everything that fit accepts, and convert does not change it.
func TestFitAgreesWithTheLibrary(t *testing.T) {
	plain, accepted := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		text := `{"type": "object", "properties": {"v": ` + drawSchema(t, 2) + `}}`
		compiled, err := compileSchema([]byte(text))
		if err != nil {
			t.Fatal(text, err)
		}
		root, ok := rootType(compiled)
		if !ok {
			return
		}
		plain++
		for range 20 {
			v := map[string]any{"v": drawValue(t, 3)}
			before := fmt.Sprint(v)
			if _, ok := root.fit(v); !ok {
				continue
			}
			accepted++
			if err := compiled.Validate(v); err != nil {
				t.Fatalf("fit accepts %s for %s, but the library returns %v", before, text, err)
			}
			fitted := fmt.Sprintf("%#v", v)
			if _, err := root.convert(v); err != nil || fmt.Sprintf("%#v", v) != fitted {
				t.Fatalf("fit returns %s for %s with %s, but convert returns %#v (%v)", fitted, before, text, v, err)
			}
		}
	})
	if plain == 0 || accepted == 0 {
		t.Errorf("%d plain schemas and %d accepted values, so nothing was tested", plain, accepted)
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		schema, input string
		plain, ok     bool
	}{
		{`{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}`, `{"a": "x", "b": 1}`, true, true},
		{`{"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}`, `{"b": 1}`, true, false},
		{`{"$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}`, `{"next": {"next": {}}}`, true, true},
		{`{"$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}`, `{"next": {"next": 1}}`, true, false},
		{`{"$ref": "#/$defs/n", "$defs": {"n": {"type": "object"}}, "required": ["a"]}`, `{}`, false, false},
		{`{"properties": {"a": {"pattern": "^x$"}}}`, `{"a": "x"}`, false, false},
		{`{"properties": {"a": {"const": 1}}}`, `{"a": 1}`, false, false},
		{`{"anyOf": [{"required": ["a"]}]}`, `{"a": 1}`, false, false},
		{`{"patternProperties": {"^x": false}}`, `{}`, false, false},
		{`{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"format": "date"}}}`, `{"a": "x"}`, false, false},
		{`{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"items": [{"type": "string"}]}}}`, `{"a": [1]}`, false, false},
		{`{"type": "object", "properties": {"a": {"type": "integer"}}}`, `{"a": 1.0}`, true, false}, // an integer according to the library
		{`{"type": "object", "properties": {"a": {"type": "array", "minItems": 2}}}`, `{"a": [1]}`, true, false},
		{`{"type": "object", "properties": {"a": {"type": "array", "minItems": 2}}}`, `{"a": [1, 2]}`, true, true},
		{`{"type": "object", "properties": {"a": {"type": "array", "maxItems": 1}}}`, `{"a": [1, 2]}`, true, false},
		{`{"type": "object", "properties": {"a": {"type": "array", "maxItems": 1}}}`, `{"a": [1]}`, true, true},
		{`{"type": "object", "properties": {"a": {"type": "string", "minLength": 2}}}`, `{"a": "é"}`, true, false},
		{`{"type": "object", "properties": {"a": {"type": "string", "minLength": 2}}}`, `{"a": "éa"}`, true, true},
		{`{"type": "object", "properties": {"a": {"type": "string", "maxLength": 2}}}`, `{"a": "éaa"}`, true, false},
		{`{"type": "object", "properties": {"a": {"type": "string", "maxLength": 2}}}`, `{"a": "éé"}`, true, true},
		{`{"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}}`, `{"a": "y"}`, true, false},
		{`{"type": "object", "properties": {"a": {"type": "string", "enum": ["x", 1]}}}`, `{"a": 1}`, true, false}, // allowed by the library
		{`{"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}`, `{"a": ["x", 1]}`, true, false},
		{`{"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}}`, `{"a": 1, "b": "x"}`, false, false},
		{`{"type": "object", "additionalProperties": {"type": "string"}}`, `{"b": 1}`, true, false},
		{`{"type": "object", "additionalProperties": {"type": "string"}}`, `{"b": "x"}`, true, true},
		{`{"type": "object", "additionalProperties": false}`, `{"b": "x"}`, true, false},
		{`{"type": "object", "properties": {"a": {"type": "string"}}}`, `{"A": "x"}`, true, false}, // a name that differs only in case
		{`{"type": "object", "properties": {"a": {"type": ["string", "null"]}}}`, `{"a": null}`, true, true},
		{`{"type": "object", "properties": {"a": {"type": ["string", "null"]}}}`, `{"a": 1}`, true, false},
	} {
		compiled, err := compileSchema([]byte(c.schema))
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		in, err := strictjson.Object([]byte(c.input))
		if err != nil {
			t.Fatal(err)
		}
		root, plain := rootType(compiled)
		if plain != c.plain {
			t.Errorf("%s: plain %v, want %v", c.schema, plain, c.plain)
		} else if _, ok := root.fit(in); plain && ok != c.ok {
			t.Errorf("%s: fits %s %v, want %v", c.schema, c.input, ok, c.ok)
		}
	}
}
