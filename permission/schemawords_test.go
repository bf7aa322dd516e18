package permission_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission"
)

// A schema is refused if a keyword checks nothing but looks like one that does, because
// conditions would rely on something that is never validated.
func TestMisspelledKeywordsAreRefused(t *testing.T) {
	for name, meant := range map[string]string{
		"maxLenght": "maxLength", "requ" + "ried": "required", "propertise": "properties", "additionalProperty": "additionalProperties",
		"maxlength": "maxLength", "max_length": "maxLength", "additional_properties": "additionalProperties", "AdditionalProperties": "additionalProperties",
		"addtionalProperties": "additionalProperties", "aditionalPropertys": "additionalProperties", "require": "required", "requires": "required",
		"Required": "required", "property": "properties", "propreties": "properties", "item": "items", "itmes": "items", "tpye": "type", "typ": "type",
		"Type": "type", "enums": "enum", "enmu": "enum", "patern": "pattern", "patterns": "pattern", "minmum": "minimum", "maximun": "maximum",
		"exclusiveMinimun": "exclusiveMinimum", "uniqueItem": "uniqueItems", "minItem": "minItems", "multipleof": "multipleOf", "oneof": "oneOf",
		"any_of": "anyOf", "allOff": "allOf", "cosnt": "const", "fromat": "format", "propertyName": "propertyNames", "patternProperty": "patternProperties",
		"dependentRequire": "dependentRequired", "unevaluatedPropertys": "unevaluatedProperties", "prefixItem": "prefixItems", "Not": "not", "If": "if",
		"$reff": "$ref", "$Ref": "$ref", "$erf": "$ref", "min": "minimum", "max": "maximum", "regex": "pattern", "maxValue": "maximum",
	} {
		at := "/properties/a"
		_, err := permission.CompileSchema(fmt.Appendf(nil, `{"type": "object", "properties": {"a": {%q: {}}}}`, name))
		want := fmt.Sprintf("at %s/%s: is not a keyword of JSON Schema and checks nothing (did you mean %s?", at, name, meant)
		if !errors.Is(err, permission.ErrSchema) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// Other unknown keywords are accepted: annotations, $ and x- keywords, and those of OpenAPI and
// of editors.
func TestOtherKeywordsPass(t *testing.T) {
	for _, name := range []string{
		"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$anchor", "$foo", "$id2",
		"x-type", "X-Required", "x-propertise", "nullable", "discriminator", "example", "xml", "externalDocs", "enumNames", "enumDescriptions",
		"markdownDescription", "errorMessage", "propertyOrder", "propertyOrdering", "order", "options", "optional", "multiple", "placeholder",
		"units", "widget", "group", "cost", "when", "note", "name", "style", "label", "help", "hint", "secret", "sensitive", "strict", "const2you",
		"contentEncoding", "contentMediaType", "definitions", "kind", "tags", "id2", "version", "summary", "formatMinimum", "tsType", "javaType",
	} {
		if _, err := permission.CompileSchema(fmt.Appendf(nil, `{"type": "object", "properties": {"a": {%q: %s}}}`, name, valueFor(name))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// valueFor returns a value that the metaschema accepts for a keyword.
func valueFor(name string) string {
	switch name {
	case "examples":
		return "[]"
	case "deprecated", "readOnly", "writeOnly":
		return "true"
	case "definitions":
		return "{}"
	default:
		return `"text"`
	}
}

// Keywords are checked everywhere in a schema, but not outside of schemas.
func TestKeywordsAreLookedForInSchemasAlone(t *testing.T) {
	bad := `{"maxLenght": 5}`
	for place, at := range map[string]string{
		`{"properties": {"p": %s}}`: "/properties/p", `{"properties": {"a/b~c": %s}}`: "/properties/a~1b~0c", `{"patternProperties": {"^x": %s}}`: "/patternProperties/^x",
		`{"additionalProperties": %s}`: "/additionalProperties", `{"items": %s}`: "/items", `{"prefixItems": [{}, %s]}`: "/prefixItems/1", `{"contains": %s}`: "/contains",
		`{"allOf": [%s]}`: "/allOf/0", `{"anyOf": [%s]}`: "/anyOf/0", `{"oneOf": [true, %s]}`: "/oneOf/1", `{"not": %s}`: "/not", `{"if": %s}`: "/if",
		`{"if": {}, "then": %s}`: "/then", `{"if": {}, "else": %s}`: "/else", `{"propertyNames": %s}`: "/propertyNames", `{"dependentSchemas": {"a": %s}}`: "/dependentSchemas/a",
		`{"unevaluatedProperties": %s}`: "/unevaluatedProperties", `{"unevaluatedItems": %s}`: "/unevaluatedItems", `{"$defs": {"d": %s}}`: "/$defs/d",
		`{"definitions": {"d": %s}}`: "/definitions/d", `{"dependencies": {"a": %s}}`: "/dependencies/a", `%s`: "",
		`{"$schema": "http://json-schema.org/draft-07/schema#", "items": [%s]}`: "/items/0", `{"$schema": "http://json-schema.org/draft-07/schema#", "additionalItems": %s}`: "/additionalItems",
	} {
		_, err := permission.CompileSchema([]byte(strings.Replace(place, "%s", bad, 1)))
		if err == nil || !strings.Contains(err.Error(), "at "+at+"/maxLenght: ") {
			t.Errorf("%s: %v, want a fault at %s/maxLenght", place, err, at)
		}
	}
	for _, schema := range []string{
		`{"const": {"maxLenght": []}}`, `{"enum": [{"maxLenght": []}]}`, `{"default": {"maxLenght": []}}`, `{"examples": [{"maxLenght": []}]}`,
		`{"example": {"maxLenght": []}}`, `{"x-note": {"maxLenght": []}}`, `{"properties": {"maxLenght": {}, "minLenght": {}}}`, `{"required": ["maxLenght"]}`,
		`{"dependentRequired": {"maxLenght": ["a"]}}`, `{"$defs": {"maxLenght": {}}}`, `{"properties": {"a": true}, "items": false}`,
		`{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"$ref": "#", "maxLenght": []}}}`,
	} {
		if _, err := permission.CompileSchema([]byte(schema)); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

// A keyword of another draft also checks nothing.
func TestKeywordsOfOtherDrafts(t *testing.T) {
	const draft7, draft4, draft2019 = "http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2019-09/schema"
	for _, c := range []struct {
		draft, text string
		good        bool
	}{
		{draft7, `"unevaluatedProperties": false`, false}, {draft7, `"prefixItems": []`, false}, {draft7, `"dependentRequired": {"a": ["b"]}`, false},
		{draft7, `"if": {}, "then": {}`, true}, {draft7, `"dependencies": {"a": ["b"]}`, true}, {draft7, `"additionalItems": false`, true},
		{draft4, `"const": 1`, false}, {draft4, `"propertyNames": {}`, false}, {draft4, `"contains": {}`, false}, {draft4, `"exclusiveMinimum": true, "minimum": 1`, true},
		{draft2019, `"unevaluatedProperties": false`, true}, {draft2019, `"prefixItems": []`, false}, {draft2019, `"$recursiveRef": "#"`, true},
		{"", `"prefixItems": [{}]`, true}, {"", `"dependencies": {"a": ["b"]}`, true}, {"", `"additionalItems": false`, false}, {"", `"$recursiveRef": "#"`, false},
	} {
		schema := "{" + c.text + "}"
		if c.draft != "" {
			schema = fmt.Sprintf(`{"$schema": %q, %s}`, c.draft, c.text)
		}
		if _, err := permission.CompileSchema([]byte(schema)); (err == nil) != c.good {
			t.Errorf("%s: %v, want good %v", schema, err, c.good)
		}
	}
}

// dependencies of draft 7 and earlier are checked in all drafts.
func TestDependenciesAreChecked(t *testing.T) {
	s := schema(t, `{"dependencies": {"a": ["b"]}}`)
	if err := s.Validate([]byte(`{"a": 1}`)); err == nil {
		t.Error("an input without b is accepted")
	}
}

// A schema with many faults reports the first few.
func TestMisspelledKeywordsAreBounded(t *testing.T) {
	var parts []string
	for i := range 50 {
		parts = append(parts, fmt.Sprintf(`"p%02d": {"maxLenght": 1}`, i))
	}
	_, err := permission.CompileSchema([]byte(`{"properties": {` + strings.Join(parts, ", ") + `}}`))
	if err == nil || strings.Count(err.Error(), "maxLenght") != 5 {
		t.Errorf("%v", err)
	}
}
