package permission_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

func TestCompileSchemaRefuses(t *testing.T) {
	for name, c := range map[string]struct{ schema, part string }{
		"not JSON":             {`{`, "invalid JSON"},
		"no object":            {`true`, "want object"},
		"null":                 {`null`, "null"},
		"duplicate members":    {`{"type": "object", "type": "string"}`, "duplicate"},
		"wrong keyword value":  {`{"type": "objekt"}`, "metaschema"},
		"reference to network": {`{"$ref": "https://example.com/schema.json"}`, "leaves the schema"},
		"reference to file":    {`{"$ref": "file:///etc/passwd"}`, "leaves the schema"},
		"relative reference":   {`{"properties": {"a": {"$ref": "other.json#/x"}}}`, "leaves the schema"},
		"reference by id":      {`{"$id": "https://example.com/a.json", "$ref": "b.json"}`, "leaves the schema"},
		"foreign meta-schema":  {`{"$schema": "https://example.com/draft", "type": "object"}`, "$schema names an unknown draft"},
		"dangling reference":   {`{"$ref": "#/$defs/none"}`, "not found"},
		"backtracking pattern": {`{"properties": {"a": {"pattern": "(?=x)"}}}`, "pattern"},
		"draft 3":              {`{"$schema": "http://json-schema.org/draft-03/schema#", "type": "object"}`, "use draft 2020-12, 2019-09"},
		"too long":             {`{"description": "` + strings.Repeat("x", 300<<10) + `"}`, "too large"},
	} {
		s, err := permission.CompileSchema([]byte(c.schema))
		if s != nil || !errors.Is(err, permission.ErrSchema) || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%s: %v, %v; want an error with %q", name, s != nil, err, c.part)
		}
	}
}

// A member that differs from a declared one only in case is refused, because rules use the one
// and the tool may use the other.
func TestTwins(t *testing.T) {
	s := schema(t, `{"type": "object", "properties": {"amount": {"type": "integer"}, "Key": {}, "key": {},
		"sub": {"type": "object", "properties": {"id": {"type": "integer"}}}, "list": {"type": "array", "items": {"$ref": "#/properties/sub"}}}}`)
	for input, want := range map[string]string{
		`{"amount": 1, "note": "x"}`:                   "",
		`{"Key": 1, "key": 2}`:                         "",
		`{"amount": 1, "Amount": 501}`:                 "/Amount",
		`{"AMOUNT": 501}`:                              "/AMOUNT",
		`{"\u017fub": {}}`:                             "/\u017fub", // long s
		`{"sub": {"id": 1, "ID": 2}}`:                  "/sub/ID",
		`{"list": [{"id": 1}, {"iD": 2}]}`:             "/list/1/iD",
		`{"other": {"Amount": 1}, "free": ["AMOUNT"]}`: "",
	} {
		err := s.Validate([]byte(input))
		e, _ := errors.AsType[*permission.SchemaError](err)
		switch {
		case want == "" && err != nil, want != "" && (e == nil || e.Violations[0].Pointer != want):
			t.Errorf("%s: %v, want a fault at %q", input, err, want)
		}
	}
	opts := permission.Options{Tools: []permission.Tool{{Name: "t", Schema: s}}}
	for when, behavior := range map[string]message.Behavior{"args.amount > 500": message.BehaviorDeny, "args.amount <= 500": message.BehaviorAllow} {
		d := compile(t, opts, rule("r", behavior, when)).Decide(t.Context(), permission.Request{Tool: "t", Input: []byte(`{"amount": 1, "Amount": 501}`), Mode: permission.ModeBypass})
		if d.Behavior != message.BehaviorAsk {
			t.Errorf("%s: %+v", when, d)
		}
	}
}

func TestCompileSchemaAccepts(t *testing.T) {
	for name, c := range map[string]string{
		"empty":               `{}`,
		"draft 7":             `{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}`,
		"draft 4":             `{"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}`,
		"own definitions":     `{"$defs": {"a": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/a"}}}`,
		"recursion":           `{"type": "object", "properties": {"child": {"$ref": "#"}, "list": {"type": "array", "items": {"$ref": "#"}}}}`,
		"list of itself":      `{"$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}}, "properties": {"l": {"$ref": "#/$defs/l"}}}`,
		"map of itself":       `{"$defs": {"m": {"type": "object", "additionalProperties": {"$ref": "#/$defs/m"}}}, "properties": {"m": {"$ref": "#/$defs/m"}}}`,
		"reference to itself": `{"$defs": {"a": {"$ref": "#/$defs/a"}}, "properties": {"a": {"$ref": "#/$defs/a"}}}`,
		"unions":              `{"anyOf": [{"type": "object"}, {"required": ["a"]}], "properties": {"a": {"type": ["string", "null"]}}}`,
		"tuple":               `{"properties": {"a": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}}}`,
		"draft 7 tuple":       `{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"type": "array", "items": [{"type": "string"}]}}}`,
		"names that collide":  `{"type": "object", "properties": {"a.b": {"type": "object", "properties": {"x": {"type": "string"}}}, "a": {"type": "object", "properties": {"b": {"type": "object", "properties": {"y": {"type": "string"}}}}}}}`,
	} {
		s, err := permission.CompileSchema([]byte(c))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// The schema must also be usable for rules.
		compile(t, permission.Options{Tools: []permission.Tool{{Name: "t", Schema: s}}}, rule("r", "deny", "has(dyn(args).a)"))
	}
}

// Two structs with similar names keep their own fields.
func TestStructNamesDoNotCollide(t *testing.T) {
	s := schema(t, `{"type": "object", "properties": {
		"a.b": {"type": "object", "properties": {"x": {"type": "string"}}},
		"a": {"type": "object", "properties": {"b": {"type": "object", "properties": {"y": {"type": "string"}}}}}}}`)
	compile(t, permission.Options{Tools: []permission.Tool{{Name: "t", Schema: s}}}, rule("r", "deny", `args.a.b.y == "1" && args.`+"`a.b`"+`.x == "2"`))
	for _, when := range []string{`args.a.b.x == "1"`, "args.`a.b`.y == '1'"} {
		if _, err := permission.Compile(permission.Policy{Rules: []permission.Rule{rule("r", "deny", when)}},
			permission.Options{Tools: []permission.Tool{{Name: "t", Schema: s}}}); err == nil {
			t.Errorf("%s compiles", when)
		}
	}
}

func TestValidate(t *testing.T) {
	s := schema(t, `{"type": "object", "required": ["a"], "additionalProperties": false, "properties": {
		"a": {"type": "integer", "minimum": 1}, "b/c~d": {"type": "string", "pattern": "^x"}, "n": {"type": "number"},
		"o": {"type": "object", "required": ["p"], "properties": {"p": {"type": "string", "enum": ["u", "v"]}}},
		"l": {"type": "array", "items": {"type": "object", "properties": {"q": {"type": "integer"}}}}}}`)
	for input, want := range map[string][]string{
		`{"a": 1}`: nil,
		`{"a": 1, "l": [{"q": 1}, {}], "o": {"p": "u"}}`: nil,
		` {"a": 1.0, "n": 7} `:                           nil,
		`{}`:                                             {""},
		`{"a": 0}`:                                       {"/a"},
		`{"a": "1"}`:                                     {"/a"},
		`{"a": null}`:                                    {"/a"},
		`{"A": 1}`:                                       {"", ""},
		`{"a": 1, "z": 1}`:                               {""},
		`{"a": 1, "b/c~d": "y"}`:                         {"/b~1c~0d"},
		`{"a": 1, "o": {}}`:                              {"/o"},
		`{"a": 1, "o": {"p": "w"}}`:                      {"/o/p"},
		`{"a": 1, "l": [{"q": 1}, {"q": "x"}, {"q": 1.5}]}`: {"/l/1/q", "/l/2/q"},
		`{"a": 1, "l": [{"q": 1}, {"q": 1e300}]}`:           {"/l/1/q"}, // a valid JSON Schema integer, but not a 64-bit integer
		`{"a": 1, "n": 9007199254740993}`:                   {"/n"},     // a valid number, but not an exact double
		`{"a": 1, "a": 2}`:                                  {"/a"},
		`{"a": 1} x`:                                        {""},
		`[1]`:                                               {""},
		`null`:                                              {""},
		``:                                                  {""},
		`{"a": 1, "b/c~d": "x` + "\xff" + `"}`:              {"/b~1c~0d"},
	} {
		err := s.Validate([]byte(input))
		if want == nil {
			if err != nil {
				t.Errorf("Validate(%s) = %v", input, err)
			}
			continue
		}
		var se *permission.SchemaError
		if !errors.As(err, &se) {
			t.Errorf("Validate(%s) = %v, want a SchemaError", input, err)
			continue
		}
		var got []string
		for _, v := range se.Violations {
			got = append(got, v.Pointer)
			if v.Msg == "" {
				t.Errorf("Validate(%s): no text at %q", input, v.Pointer)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Validate(%s), pointers (-want +got):\n%s%v", input, diff, err)
		}
	}
}

func TestSchemaErrorText(t *testing.T) {
	s := schema(t, `{"type": "object", "additionalProperties": {"type": "integer"}}`)
	err := s.Validate([]byte(`{"a": "x", "b": "x", "c": "x", "d": "x", "e": "x", "f": "x", "g": "x"}`))
	want := "the arguments do not fit the tool's schema: at /a: got string, want integer; at /b: got string, want integer; " +
		"at /c: got string, want integer; at /d: got string, want integer; at /e: got string, want integer; and 2 more"
	if err == nil || err.Error() != want {
		t.Errorf("text\n%v\nwant\n%s", err, want)
	}
	err = schema(t, `{"properties": {"a": {"const": "x"}}}`).Validate([]byte(`{"a": "` + strings.Repeat("y", 200<<10) + `"}`))
	if err == nil || len(err.Error()) > 1000 {
		t.Errorf("the error for a long value has %d bytes", len(err.Error()))
	}
	if err := s.Validate([]byte(`{"a": `)); !errors.Is(err, strictjson.ErrSyntax) {
		t.Errorf("broken JSON: %v", err)
	}
}

func TestSchemaHash(t *testing.T) {
	a, b := schema(t, `{"type": "object"}`), schema(t, `{"type": "object", "title": "x"}`)
	if a.Hash() == b.Hash() || a.Hash() != schema(t, `{"type": "object"}`).Hash() || !strings.HasPrefix(a.Hash(), "sha256:") {
		t.Errorf("hashes %s and %s", a.Hash(), b.Hash())
	}
}
