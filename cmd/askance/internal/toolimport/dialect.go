package toolimport

import (
	"fmt"
	"slices"
	"strings"
)

// noSchemaWords are the keywords of OpenAPI that have no effect on validation.
var noSchemaWords = []string{"example", "xml", "externalDocs", "discriminator"}

// schema converts a schema of the document to JSON Schema 2020-12.
func (c *converter) schema(v any) (any, error) {
	s, ok := v.(object)
	if !ok {
		if _, is := v.(bool); is {
			return v, nil
		}
		return nil, fmt.Errorf("a schema is %T, not an object", v)
	}
	out := object{}
	for key, value := range s {
		var err error
		switch {
		case slices.Contains(noSchemaWords, key) || strings.HasPrefix(key, "x-"):
			c.dropped[key] = true
		case key == "$ref":
			out[key], err = c.reference(value)
		case c.old && s["$ref"] != nil: // 3.0: what is next to a reference has no meaning
		case slices.Contains([]string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}, key):
			out[key], err = c.each(value)
		case slices.Contains([]string{"allOf", "anyOf", "oneOf", "prefixItems"}, key):
			out[key], err = c.list(value)
		case slices.Contains([]string{"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema"}, key):
			out[key], err = c.schema(value)
		default:
			out[key] = value
		}
		if err != nil {
			return nil, err
		}
	}
	if c.old {
		modernise(out)
	}
	return out, nil
}

// reference keeps a reference to a schema of the components.
func (c *converter) reference(v any) (any, error) {
	ref, _ := v.(string)
	name, ok := strings.CutPrefix(ref, "#/components/schemas/")
	if !ok || strings.ContainsAny(name, "/~%") {
		return nil, fmt.Errorf("the reference %q does not name a schema in components/schemas", ref)
	}
	c.refs[name] = true
	return "#/$defs/" + name, nil
}

func (c *converter) each(v any) (any, error) {
	in, ok := v.(object)
	if !ok {
		return nil, fmt.Errorf("the map of schemas is %T, not an object", v)
	}
	out := object{}
	for name, s := range in {
		var err error
		if out[name], err = c.schema(s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *converter) list(v any) (any, error) {
	in, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("the list of schemas is %T, not an array", v)
	}
	out := make([]any, len(in))
	for i, s := range in {
		var err error
		if out[i], err = c.schema(s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// modernise converts the schema dialect of OpenAPI 3.0 to JSON Schema 2020-12.
func modernise(s object) {
	for bound, exclusive := range map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"} {
		is, old := s[exclusive].(bool)
		if !old {
			continue
		}
		delete(s, exclusive)
		if limit, has := s[bound]; is && has {
			s[exclusive] = limit
			delete(s, bound)
		}
	}
	nullable := s["nullable"] == true
	delete(s, "nullable")
	name, typed := s["type"].(string)
	if !nullable || !typed { // without a type, nullable has no meaning
		return
	}
	s["type"] = []any{name, "null"}
	if values, ok := s["enum"].([]any); ok && !slices.Contains(values, nil) {
		s["enum"] = append(slices.Clone(values), nil)
	}
}
