package schema

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/askance-dev/askance/internal/spelling"
)

// JSON Schema ignores unknown keywords, so a misspelled one checks nothing: {"maxLenght": 5}
// accepts a text of any length. Conditions rely on schemas, so a schema is refused if it seems to
// mean a keyword that checks something: if an unknown keyword resembles one, is another language's
// word for one, or does not exist in the schema's draft. All others are the author's business:
// annotations, "$" and "x-" keywords, and known keywords of OpenAPI and editors.

// schemaKeywords are the keywords that validate or apply schemas, with the first draft that has
// them.
var schemaKeywords = map[string]int{
	"type": 4, "enum": 4, "multipleOf": 4, "maximum": 4, "exclusiveMaximum": 4, "minimum": 4, "exclusiveMinimum": 4,
	"maxLength": 4, "minLength": 4, "pattern": 4, "items": 4, "maxItems": 4, "minItems": 4, "uniqueItems": 4,
	"maxProperties": 4, "minProperties": 4, "required": 4, "properties": 4, "patternProperties": 4, "additionalProperties": 4,
	"allOf": 4, "anyOf": 4, "oneOf": 4, "not": 4, "dependencies": 4, "format": 4, "$ref": 4,
	"const": 6, "contains": 6, "propertyNames": 6, "if": 7, "then": 7, "else": 7,
	"maxContains": 2019, "minContains": 2019, "dependentRequired": 2019, "dependentSchemas": 2019,
	"unevaluatedItems": 2019, "unevaluatedProperties": 2019, "prefixItems": 2020,
}

// goneKeywords validate only in older drafts; the value is their replacement.
var goneKeywords = map[string]string{"additionalItems": "items", "$recursiveRef": "$dynamicRef"}

// keywordsElsewhere are other languages' names for keywords.
var keywordsElsewhere = map[string]string{
	"min": "minimum", "max": "maximum", "minvalue": "minimum", "maxvalue": "maximum",
	"regex": "pattern", "regexp": "pattern", "allowedvalues": "enum",
}

// ownWords resemble keywords but are known to mean something else.
var ownWords = map[string]bool{
	"example": true, "nullable": true, "discriminator": true, "multiple": true, "cost": true, "when": true, "terms": true,
	"note": true, "name": true, "names": true, "style": true, "patternErrorMessage": true, "propertyOrder": true,
	"propertyOrdering": true, "enumNames": true, "enumDescriptions": true, "options": true, "optional": true,
}

// wordFaults lists the keywords of a schema that seem to validate but do not, each with its
// position, in a fixed order.
func wordFaults(doc map[string]any, compiled *jsonschema.Schema) []string {
	w := wordReader{draft: compiled.DraftVersion}
	w.schema(doc, "")
	return w.faults
}

type wordReader struct {
	draft  int
	faults []string
}

// schema checks one schema. Anything else, such as the value of const, is skipped. The document's
// depth, which is bounded, limits the recursion.
func (w *wordReader) schema(v any, at string) {
	s, ok := v.(map[string]any)
	if !ok {
		return
	}
	_, hasRef := s["$ref"]
	if hasRef && w.draft < 2019 {
		return // other keywords next to a reference mean nothing in these drafts
	}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		here := at + "/" + pointerEscaper.Replace(name)
		if fault := w.fault(name); fault != "" {
			w.faults = append(w.faults, "at "+here+": "+fault)
		}
		w.readSchemasIn(name, s[name], here)
	}
}

func (w *wordReader) readSchemasIn(name string, v any, at string) {
	switch name {
	case "additionalProperties", "additionalItems", "items", "contains", "propertyNames", "not", "if", "then", "else",
		"unevaluatedItems", "unevaluatedProperties", "contentSchema", "allOf", "anyOf", "oneOf", "prefixItems":
		list, ok := v.([]any)
		if !ok {
			w.schema(v, at)
		}
		for i, item := range list {
			w.schema(item, at+"/"+strconv.Itoa(i))
		}
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		members, _ := v.(map[string]any)
		for _, member := range slices.Sorted(maps.Keys(members)) {
			w.schema(members[member], at+"/"+pointerEscaper.Replace(member))
		}
	}
}

func (w *wordReader) fault(name string) string {
	since, known := schemaKeywords[name]
	switch {
	case known && since > w.draft:
		return "the schema's draft does not have this keyword, so it checks nothing; name a later draft in $schema"
	case known:
		return ""
	case goneKeywords[name] != "":
		if w.draft < 2020 {
			return ""
		}
		return "this keyword checks nothing in draft 2020-12; use " + goneKeywords[name] + ", or name an earlier draft in $schema"
	}
	if meant := meantKeyword(name); meant != "" {
		return "is not a keyword of JSON Schema and checks nothing (did you mean " + meant + "? begin names of your own with x-)"
	}
	return ""
}

// meantKeyword is the keyword that an unknown one probably stands for, or "".
func meantKeyword(name string) string {
	if ownWords[name] || annotationKeywords[name] || strings.HasPrefix(strings.ToLower(name), "x-") {
		return ""
	}
	plain := plainWord(name)
	if meant := keywordsElsewhere[plain]; meant != "" && !strings.HasPrefix(name, "$") {
		return meant
	}
	best, bestDist := "", len(name)
	for _, word := range slices.Sorted(maps.Keys(schemaKeywords)) {
		if d := spelling.Distance(plain, plainWord(word)); d < bestDist && isLikely(name, word, d) {
			best, bestDist = word, d
		}
	}
	return best
}

// annotationKeywords belong to JSON Schema and validate nothing.
var annotationKeywords = map[string]bool{
	"title": true, "description": true, "default": true, "examples": true, "deprecated": true, "readOnly": true, "writeOnly": true,
	"definitions": true, "id": true, "contentEncoding": true, "contentMediaType": true, "contentSchema": true,
	"$defs": true, "$id": true, "$schema": true, "$anchor": true, "$comment": true, "$vocabulary": true, "$dynamicRef": true,
	"$dynamicAnchor": true, "$recursiveAnchor": true,
}

// isLikely reports whether a keyword can be meant at this edit distance: the longer it is, the more
// may be wrong. The shortest ones are words in too many languages.
func isLikely(name, word string, distance int) bool {
	if strings.HasPrefix(name, "$") != strings.HasPrefix(word, "$") {
		return false
	}
	switch size := len(word); {
	case distance == 0 || withoutPlural(plainWord(name)) == withoutPlural(plainWord(word)):
		return true
	case word == "not" || word == "if" || word == "then" || word == "else":
		return false
	case size < 7:
		return distance <= 1
	case size < 12:
		return distance <= 2
	default:
		return distance <= 3
	}
}

func plainWord(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}

func withoutPlural(word string) string {
	if stem, ok := strings.CutSuffix(word, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(word, "s")
}
