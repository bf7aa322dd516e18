package toolimport

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
)

// object is a JSON object of the document.
type object = map[string]any

// openAPI reads one document. Each operation is a tool: its input has the
// parameters by name, and the member body.
type openAPI struct {
	doc   object
	old   bool // version 3.0, which has its own schema dialect
	found *Found
}

var openAPIVersion = regexp.MustCompile(`^3\.[0-2]\.`)

func readOpenAPI(data []byte) (*Found, error) {
	doc, err := strictjson.Object(data, strictjson.MaxBytes(MaxBytes), strictjson.KeepBigIntegers())
	if err != nil {
		return nil, err
	}
	version, _ := doc["openapi"].(string)
	if !openAPIVersion.MatchString(version) {
		return nil, fmt.Errorf("openapi is %.20q: use OpenAPI 3.0, 3.1 or 3.2", version)
	}
	o := &openAPI{doc: doc, old: strings.HasPrefix(version, "3.0."), found: &Found{}}
	paths, _ := doc["paths"].(object)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item, _ := paths[path].(object)
		if item["$ref"] != nil {
			o.found.Notes = append(o.found.Notes, "left out: "+path+" is a reference to another document")
			continue
		}
		for _, method := range []string{"get", "head", "options", "trace", "post", "put", "patch", "delete"} {
			if op, ok := item[method].(object); ok {
				o.found.Tools = append(o.found.Tools, o.operation(path, method, item, op))
			}
		}
	}
	if doc["webhooks"] != nil {
		o.found.Notes = append(o.found.Notes, "ignored: webhooks")
	}
	if len(o.found.Tools) == 0 {
		return nil, errors.New("the document has no operations under paths")
	}
	return o.found, nil
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// operation converts an operation to a tool. If that fails, the tool has the error.
func (o *openAPI) operation(path, method string, item, op object) Definition {
	at := strings.ToUpper(method) + " " + path
	d := Definition{Origin: at, Notes: []string{at}}
	d.Name, _ = op["operationId"].(string)
	if d.Name == "" {
		d.Name = strings.TrimSuffix(method+"_"+strings.Trim(notInNames.ReplaceAllString(path, "_"), "_"), "_")
	}
	summary, _ := op["summary"].(string)
	description, _ := op["description"].(string)
	d.Description = strings.TrimSpace(summary + "\n\n" + description)
	yes := true
	switch method {
	case "get", "head", "options", "trace":
		d.ReadOnly = &yes
	case "put":
		d.Idempotent = &yes
	case "delete":
		d.Destructive, d.Idempotent = &yes, &yes
	}
	if op["deprecated"] == true {
		d.Notes = append(d.Notes, "deprecated")
	}
	c := converter{openAPI: o, refs: map[string]bool{}, dropped: map[string]bool{}}
	schema, err := c.input(&d, item, op)
	if err != nil {
		d.err = err
		return d
	}
	for _, key := range slices.Sorted(maps.Keys(c.dropped)) {
		d.Notes = append(d.Notes, "ignored in schemas: "+key)
	}
	d.Schema, d.err = strictjson.Marshal(schema)
	return d
}

// converter converts what one operation needs.
type converter struct {
	*openAPI
	refs    map[string]bool // schemas of components that it refers to
	dropped map[string]bool // keywords that are not JSON Schema
}

func (c *converter) input(d *Definition, item, op object) (object, error) {
	properties, required := object{}, []any{}
	add := func(name string, schema any, need bool) error {
		if properties[name] != nil {
			return fmt.Errorf("two of its parameters are named %q", name)
		}
		properties[name] = schema
		if need {
			required = append(required, name)
		}
		return nil
	}
	params, err := c.parameters(item, op)
	if err != nil {
		return nil, err
	}
	for _, p := range params {
		name, _ := p["name"].(string)
		in, _ := p["in"].(string)
		need := p["required"] == true
		switch {
		case in == "header" && slices.Contains([]string{"accept", "content-type", "authorization"}, strings.ToLower(name)):
			d.Notes = append(d.Notes, "ignored: the header "+name)
			continue
		case in == "cookie" && need:
			return nil, fmt.Errorf("the cookie %q is required, but models should not send cookies", name)
		case in == "cookie":
			d.Notes = append(d.Notes, "ignored: the cookie "+name)
			continue
		}
		schema, err := c.parameterSchema(p)
		if err == nil {
			err = add(name, schema, need)
		}
		if err != nil {
			return nil, err
		}
	}
	if op["requestBody"] != nil {
		body, err := c.resolve(op["requestBody"], "requestBodies")
		if err != nil {
			return nil, err
		}
		schema, ok := jsonContent(body)
		switch {
		case ok:
			converted, err := c.schema(schema)
			if err == nil {
				err = add("body", converted, body["required"] == true)
			}
			if err != nil {
				return nil, err
			}
		case body["required"] == true:
			return nil, errors.New("its body is not JSON")
		default:
			d.Notes = append(d.Notes, "ignored: the body, which is not JSON")
		}
	}
	out := object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	return out, c.addDefinitions(out)
}

// parameters returns the parameters of an operation, which replace those of its path.
func (c *converter) parameters(item, op object) ([]object, error) {
	var out []object
	for _, of := range []object{item, op} {
		list, _ := of["parameters"].([]any)
		for _, v := range list {
			p, err := c.resolve(v, "parameters")
			if err != nil {
				return nil, err
			}
			same := func(q object) bool { return q["name"] == p["name"] && q["in"] == p["in"] }
			if i := slices.IndexFunc(out, same); i >= 0 {
				out[i] = p
				continue
			}
			out = append(out, p)
		}
	}
	return out, nil
}

func (c *converter) parameterSchema(p object) (any, error) {
	schema, ok := p["schema"]
	if !ok {
		if schema, ok = jsonContent(p); !ok {
			return nil, fmt.Errorf("the parameter %q has no schema", p["name"])
		}
	}
	converted, err := c.schema(schema)
	if s, is := converted.(object); is && s["description"] == nil && s["$ref"] == nil && p["description"] != nil {
		s["description"] = p["description"]
	}
	return converted, err
}

// jsonContent returns the schema of the JSON content of a body or a parameter.
func jsonContent(of object) (any, bool) {
	content, _ := of["content"].(object)
	for _, kind := range slices.Sorted(maps.Keys(content)) {
		name, _, _ := strings.Cut(kind, ";")
		if media, ok := content[kind].(object); ok && (name == "application/json" || strings.HasSuffix(name, "+json")) {
			schema, has := media["schema"]
			return schema, has
		}
	}
	return nil, false
}

// resolve follows a reference to the components of a kind.
func (c *converter) resolve(v any, kind string) (object, error) {
	for range 10 {
		o, ok := v.(object)
		if !ok {
			return nil, fmt.Errorf("one of its %s is not an object", kind)
		}
		ref, is := o["$ref"].(string)
		if !is {
			return o, nil
		}
		components, _ := c.doc["components"].(object)
		of, _ := components[kind].(object)
		if v, ok = of[strings.TrimPrefix(ref, "#/components/"+kind+"/")]; !ok {
			return nil, fmt.Errorf("the reference %q names nothing in this document", ref)
		}
	}
	return nil, fmt.Errorf("a reference to %s leads to itself", kind)
}

// addDefinitions adds the schemas to which out refers, directly or indirectly.
func (c *converter) addDefinitions(out object) error {
	components, _ := c.doc["components"].(object)
	schemas, _ := components["schemas"].(object)
	definitions := object{}
	for len(definitions) < len(c.refs) {
		for _, name := range slices.Sorted(maps.Keys(c.refs)) {
			if definitions[name] != nil {
				continue
			}
			from, ok := schemas[name]
			if !ok {
				return fmt.Errorf("the schema %q is not in this document", name)
			}
			converted, err := c.schema(from)
			if err != nil {
				return err
			}
			definitions[name] = converted
		}
	}
	if len(definitions) > 0 {
		out["$defs"] = definitions
	}
	return nil
}
