package rulefile

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
)

// EditorSchema is the JSON Schema of rule files (draft 7), with which editors
// complete and check them while they are written. It is made from the types
// that rule files are read into. It accepts every file that Parse accepts, and
// some more: it does not know tools, nor what one key means for another.
func EditorSchema() []byte {
	s := structSchema(reflect.TypeFor[File]())
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	s["title"] = "askance rule file"
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return nil // it has nothing but texts and numbers
	}
	return out.Bytes()
}

// editorTypes are the keys whose types read themselves.
var editorTypes = map[reflect.Type]map[string]any{
	reflect.TypeFor[version]():    {"enum": []int{1}},
	reflect.TypeFor[terms]():      {"type": "object", "additionalProperties": map[string]any{"type": "string"}, "propertyNames": map[string]any{"pattern": TermName.String()}},
	reflect.TypeFor[instant]():    {"type": "string", "format": "date-time"},
	reflect.TypeFor[jsonObject](): {"type": "object"},
	durationType:                  {"type": "string", "pattern": `^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`},
}

func structSchema(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, k := range keysOf(t) {
		p := keySchema(t.Field(k.index).Type, k)
		p["description"] = k.doc
		properties[k.name] = p
		if k.need != "" {
			required = append(required, k.name)
		}
	}
	s := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if t == reflect.TypeFor[Rule]() {
		// Their absence is reported where rules made in Go are checked, too.
		required = append(required, "name", "behavior")
		s["oneOf"] = []any{map[string]any{"required": []string{"tool"}}, map[string]any{"required": []string{"tool_name"}}}
	}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func keySchema(t reflect.Type, k keyTags) map[string]any {
	if t.Kind() == reflect.Pointer {
		s := keySchema(t.Elem(), k)
		if k.null != "" {
			s["type"] = []string{"string", "null"}
		}
		return s
	}
	if s, ok := editorTypes[t]; ok {
		return maps.Clone(s)
	}
	switch t.Kind() {
	case reflect.String:
		return textSchema(k)
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer", "minimum": k.min, "maximum": maxInteger}
	case reflect.Struct:
		return structSchema(t)
	default:
		return listSchema(t.Elem())
	}
}

func textSchema(k keyTags) map[string]any {
	s := map[string]any{"type": "string"}
	if len(k.words) > 0 {
		s["enum"] = slices.Clone(k.words)
	}
	if k.filled {
		s["pattern"] = `\S`
	}
	return s
}

// listSchema is that of a list. A list of texts may be a single text.
func listSchema(elem reflect.Type) map[string]any {
	items := keySchema(elem, keyTags{})
	list := map[string]any{"type": "array", "items": items}
	if elem.Kind() != reflect.String {
		return list
	}
	return map[string]any{"anyOf": []any{items, list}}
}

// TermName is the form of the names of terms.
var TermName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
