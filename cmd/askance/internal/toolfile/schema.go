package toolfile

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/agentscope"
	"github.com/askance-dev/askance/toolcall"
)

// EditorSchema returns the JSON Schema of tools files (draft 7), for editors. It is made
// from the type that tools files are decoded into, without the relations between keys.
func EditorSchema() []byte {
	properties := map[string]any{}
	for _, k := range keys() {
		properties[k.name] = k.schema()
	}
	tool := map[string]any{"type": "object", "additionalProperties": false, "required": []string{"name"}, "properties": properties}
	s := map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "title": "askance tools file",
		"type": "object", "additionalProperties": false, "required": []string{"version"},
		"properties": map[string]any{
			"version": map[string]any{"enum": []int{1}, "description": "Version of the format: 1."},
			"tools":   map[string]any{"type": "array", "items": tool, "description": "The tools. Names are unique."},
		},
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return nil // cannot happen: it has only strings and numbers
	}
	return out.Bytes()
}

type key struct {
	name, doc string
	field     reflect.Type
}

func keys() []key {
	var out []key
	for f := range reflect.TypeFor[entry]().Fields() {
		out = append(out, key{f.Tag.Get("yaml"), f.Tag.Get("doc"), f.Type})
	}
	return out
}

// words returns the values that a key can have; nil: any.
func (k key) words() []string {
	switch {
	case k.field == reflect.TypeFor[toolcall.Placement]():
		return []string{string(toolcall.PlaceLocal), string(toolcall.PlaceRemote), string(toolcall.PlaceExternal)}
	case k.name == "kind":
		return agentscope.Names()
	}
	return nil
}

func (k key) schema() map[string]any {
	s := map[string]any{"description": k.doc}
	switch {
	case k.field == reflect.TypeFor[duration]():
		s["type"], s["pattern"] = "string", permission.DurationPattern
	case k.field.Kind() == reflect.Bool:
		s["type"] = "boolean"
	case k.field.Kind() == reflect.Int:
		s["type"], s["minimum"] = "integer", 0
	case k.field.Kind() == reflect.Map:
		s["type"] = "object"
	case k.field.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", map[string]any{"type": "string"}
	default:
		s["type"] = "string"
	}
	if words := k.words(); words != nil {
		s["enum"] = words
	}
	return s
}
