package toolimport

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
)

// hostedError says that the provider of the model runs a tool, so none of its calls
// reaches askance.
type hostedError struct{ kind string }

func (e *hostedError) Error() string {
	return fmt.Sprintf("of type %q left out: the provider of the model runs it, and no policy sees it", e.kind)
}

// noParameters is the schema of a function without parameters.
const noParameters = `{"type":"object","properties":{},"additionalProperties":false}`

// readDefinition reads one tool of a list: an MCP tool, or a function in the form of a model API.
func readDefinition(data []byte) (*Definition, error) {
	members, err := strictjson.Members(data)
	if err != nil {
		return nil, err
	}
	kind := strictjson.TextMember(members, "type")
	has := func(name string) bool { return strictjson.Find(members, name) != nil }
	switch {
	case has("inputSchema"):
		return readMCP(members)
	case kind == "function" && has("function"):
		return readWrapped(members)
	case kind == "function":
		return readFunction(members, "parameters")
	case has("input_schema") && (kind == "" || kind == "custom"):
		return readFunction(members, "input_schema")
	case kind != "":
		return nil, &hostedError{kind}
	}
	return nil, errors.New("is not a tool: it has neither inputSchema, input_schema nor the type function")
}

// readWrapped reads {"type": "function", "function": {…}}.
func readWrapped(members []strictjson.Member) (*Definition, error) {
	var d *Definition
	var notes []string
	for _, m := range members {
		switch m.Name {
		case "type":
		case "function":
			inner, err := strictjson.Members(m.Value)
			if err != nil {
				return nil, fmt.Errorf("function: %w", err)
			}
			if d, err = readFunction(inner, "parameters"); err != nil {
				return nil, fmt.Errorf("function: %w", err)
			}
		default:
			notes = append(notes, "ignored: "+m.Name)
		}
	}
	d.Notes = append(d.Notes, notes...)
	return d, nil
}

// readFunction reads a function; schema is the name of the member with its schema.
func readFunction(members []strictjson.Member, schema string) (*Definition, error) {
	d := &Definition{Schema: []byte(noParameters)}
	for _, m := range members {
		var err error
		switch m.Name {
		case "type":
		case "name":
			d.Name, err = strictjson.Text(m.Value)
		case "description":
			d.Description, err = strictjson.Text(m.Value)
		case schema:
			if strictjson.KindOf(m.Value) != "null" {
				d.Schema = m.Value
			}
		default:
			d.Notes = append(d.Notes, "ignored: "+m.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return d, nil
}

// readMCP reads a tool of an MCP server.
func readMCP(members []strictjson.Member) (*Definition, error) {
	yes := true
	d := &Definition{}
	for _, m := range members {
		var err error
		switch m.Name {
		case "name":
			d.Name, err = strictjson.Text(m.Value)
		case "description":
			d.Description, err = strictjson.Text(m.Value)
		case "title":
			var title string
			title, err = strictjson.Text(m.Value)
			d.Notes = append(d.Notes, "title: "+title)
		case "inputSchema":
			d.Schema = m.Value
		case "annotations":
			err = d.readAnnotations(m.Value)
		case "execution":
			if execution, _ := strictjson.Members(m.Value); strictjson.TextMember(execution, "taskSupport") == "required" { // of another value nothing is used
				d.Notes = append(d.Notes, "the server runs it only as a task: each call of a worker will fail")
			}
		default:
			d.Notes = append(d.Notes, "ignored: "+m.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	d.Hash = hashDefinition(members)
	// The specification's defaults: without hints, a tool is destructive and open-world.
	d.Destructive, d.OpenWorld = cmp.Or(d.Destructive, &yes), cmp.Or(d.OpenWorld, &yes)
	return d, nil
}

// hashDefinition returns the hash of a whole definition, independent of the order of its
// members; "" if it has no canonical form.
func hashDefinition(members []strictjson.Member) string {
	whole := slices.DeleteFunc(slices.Clone(members), func(m strictjson.Member) bool { return m.Name == "_meta" }) // of the message
	v, err := strictjson.Object(strictjson.Join(whole), strictjson.MaxBytes(MaxBytes), strictjson.KeepBigIntegers())
	if err != nil {
		return ""
	}
	canonical, err := strictjson.Marshal(v)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(canonical))
}

func (d *Definition) readAnnotations(data []byte) error {
	members, err := strictjson.Members(data)
	if err != nil {
		return err
	}
	for _, m := range members {
		into := map[string]**bool{"readOnlyHint": &d.ReadOnly, "destructiveHint": &d.Destructive, "idempotentHint": &d.Idempotent, "openWorldHint": &d.OpenWorld}[m.Name]
		switch {
		case into != nil:
			v, err := strictjson.Bool(m.Value)
			if err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
			*into = &v
		case m.Name == "title":
			title, _ := strictjson.Text(m.Value)
			d.Notes = append(d.Notes, "title: "+title)
		default:
			d.Notes = append(d.Notes, "ignored: annotations."+m.Name+" "+strings.TrimSpace(string(m.Value)))
		}
	}
	return nil
}

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
