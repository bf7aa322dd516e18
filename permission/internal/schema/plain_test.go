package schema

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/internal/strictjson"
)

// drawSchema gives the text of a schema, most of them plain.
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

// What the plain form of a schema accepts, the library accepts too.
func TestPlainSchemaAgreesWithTheLibrary(t *testing.T) {
	plain, accepted := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		text := drawSchema(t, 2)
		compiled, err := compileSchema([]byte(text))
		if err != nil {
			t.Fatal(text, err)
		}
		p := plainOf(compiled)
		if p == nil {
			return
		}
		plain++
		for range 20 {
			v := drawValue(t, 3)
			if !p.accepts(v) {
				continue
			}
			accepted++
			if err := compiled.Validate(v); err != nil {
				t.Fatalf("%s accepts %v in its plain form, the library says %v", text, v, err)
			}
		}
	})
	if plain == 0 || accepted == 0 {
		t.Errorf("%d plain schemas, %d accepted values: nothing was tested", plain, accepted)
	}
}

func TestPlainSchemas(t *testing.T) {
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
		{`{"properties": {"a": {"type": "integer"}}}`, `{"a": 1.0}`, true, false}, // an integer, says the library
		{`{"properties": {"a": {"minItems": 2}}}`, `{"a": [1]}`, true, false},
		{`{"properties": {"a": {"minItems": 2}}}`, `{"a": [1, 2]}`, true, true},
		{`{"properties": {"a": {"maxItems": 1}}}`, `{"a": [1, 2]}`, true, false},
		{`{"properties": {"a": {"maxItems": 1}}}`, `{"a": [1]}`, true, true},
		{`{"properties": {"a": {"minLength": 2}}}`, `{"a": "é"}`, true, false},
		{`{"properties": {"a": {"minLength": 2}}}`, `{"a": "éa"}`, true, true},
		{`{"properties": {"a": {"maxLength": 2}}}`, `{"a": "éaa"}`, true, false},
		{`{"properties": {"a": {"maxLength": 2}}}`, `{"a": "éé"}`, true, true},
		{`{"properties": {"a": {"enum": ["x"]}}}`, `{"a": "y"}`, true, false},
		{`{"properties": {"a": {"enum": ["x", 1]}}}`, `{"a": 1}`, true, false}, // allowed, says the library
		{`{"properties": {"a": {"items": {"type": "string"}}}}`, `{"a": ["x", 1]}`, true, false},
		{`{"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}}`, `{"a": 1, "b": 1}`, true, false},
		{`{"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}}`, `{"a": 1, "b": "x"}`, true, true},
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
		p := plainOf(compiled)
		if (p != nil) != c.plain || (p != nil && p.accepts(in) != c.ok) {
			t.Errorf("%s: plain %v, accepts %s %v", c.schema, p != nil, c.input, p != nil && p.accepts(in))
		}
	}
}
