package permission

import (
	"maps"
	"math"
	"slices"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission/internal/celrule"
	"github.com/askance-dev/askance/permission/internal/schema"
)

// ArgsType is the name under which conditions know the type of args.
const ArgsType = celrule.ArgsType

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
	structs := map[string]*schema.Type{}
	s.root().Structs(structs)
	t := structs[structType]
	if t == nil {
		return nil
	}
	doc, err := strictjson.Object(s.input.Raw, strictjson.MaxBytes(schema.MaxBytes))
	if err != nil {
		doc = nil // it has been compiled: no more than descriptions can be lost
	}
	var out []Field
	for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
		ft := t.Fields[name]
		f := Field{Name: name, Type: celrule.CelType(ft).String(), Struct: structName(ft), Required: slices.Contains(t.Required, name), MaxLength: -1}
		if ft.Kind == schema.KindString || ft.Kind == schema.KindList {
			f.MaxLength = ft.MaxLen
		}
		if node, ok := schema.NodeAt(doc, ft.Location).(map[string]any); ok {
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
func structName(t *schema.Type) string {
	for range celrule.MaxNestedLoops + 1 {
		switch {
		case t == nil:
			return ""
		case t.Kind == schema.KindStruct:
			return t.Name
		}
		t = t.Elem
	}
	return ""
}
