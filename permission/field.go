package permission

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
)

// ArgsType is the name under which conditions know the type of args.
const ArgsType = argsType

// Field is one declared member of a tool's input.
type Field struct {
	Name string
	// Type is its type in conditions, as CEL writes it.
	Type string
	// Struct names the type of its own members, or of those of its elements;
	// "" where none are declared.
	Struct string
	// Required says that every input that fits the schema has it, given that it
	// has what the field is a member of.
	Required    bool
	Format      string // the schema's format, e.g. uri
	Description string
	Enum        []any
	// JSONTypes are the types that the schema allows, such as string and null;
	// none where it does not say.
	JSONTypes []string
	// MinLength is that of a text or list; 0 where the schema does not say.
	MinLength int
	// MaxLength is that of a text or list; -1 where the schema does not limit it.
	MaxLength int
}

// Fields are the members of a struct type that conditions see, by name;
// ArgsType is the input as a whole. There are none for what is not declared.
func (s *Schema) Fields(structType string) []Field {
	if s == nil {
		return nil
	}
	structs := map[string]*argType{}
	s.root.structs(structs)
	t := structs[structType]
	if t == nil {
		return nil
	}
	doc, err := strictjson.Object(s.raw, strictjson.MaxBytes(maxSchemaBytes))
	if err != nil {
		doc = nil // it has been compiled: no more than descriptions can be lost
	}
	var out []Field
	for _, name := range slices.Sorted(maps.Keys(t.fields)) {
		ft := t.fields[name]
		f := Field{Name: name, Type: ft.celType().String(), Struct: ft.structName(), Required: slices.Contains(t.required, name), MaxLength: -1}
		if ft.kind == kindString || ft.kind == kindList {
			f.MaxLength = ft.maxLen
		}
		if node, ok := at(doc, ft.location).(map[string]any); ok {
			f.describe(node)
		}
		out = append(out, f)
	}
	return out
}

// describe takes over what the schema's text says and conditions do not see.
func (f *Field) describe(node map[string]any) {
	f.Format, _ = node["format"].(string)
	f.Description, _ = node["description"].(string)
	f.Enum, _ = node["enum"].([]any)
	switch types := node["type"].(type) {
	case string:
		f.JSONTypes = []string{types}
	case []any:
		for _, t := range types {
			if name, ok := t.(string); ok {
				f.JSONTypes = append(f.JSONTypes, name)
			}
		}
	}
	for _, key := range []string{"minLength", "minItems"} {
		if n, ok := node[key].(int64); ok && n > 0 && n < math.MaxInt32 {
			f.MinLength = int(n)
		}
	}
}

// structName is the struct type of a value or of its elements.
func (t *argType) structName() string {
	for range maxNestedLoops + 1 {
		switch {
		case t == nil:
			return ""
		case t.kind == kindStruct:
			return t.name
		}
		t = t.elem
	}
	return ""
}

// at is what a location of the compiled schema points at in its document.
func at(doc any, location string) any {
	_, pointer, ok := strings.Cut(location, "#")
	if !ok {
		return nil
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if part == "" {
			continue
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch v := doc.(type) {
		case map[string]any:
			doc = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			doc = v[i]
		default:
			return nil
		}
	}
	return doc
}
