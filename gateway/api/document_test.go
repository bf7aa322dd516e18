package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/msgv1"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var update = flag.Bool("update", false, "write openapi.json")

const documentDoc = `Askance decides, asks about and runs the tool calls of agents. Everything is about one space: that of the credentials. Errors are problem details (RFC 9457) with a code from a closed list. Requests that change something take an Idempotency-Key. Where an operation takes or gives MsgsBody or MsgsReply, Content-Type and Accept: application/vnd.agentscope.v1+json choose AgentScope 1.x messages.`

// TestDocument compares the embedded document with the code.
func TestDocument(t *testing.T) {
	t.Parallel()
	want := newWriter(t).document()
	if *update {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(openapi, want) {
		t.Error("openapi.json differs from the code; run: go test ./gateway/api -run TestDocument -update")
	}
}

// writer makes the document.
type writer struct {
	t       *testing.T
	r       *jsonschema.Reflector
	enums   map[string][]string // by type name in package message
	schemas map[string]any
}

func newWriter(t *testing.T) *writer {
	t.Helper()
	w := &writer{t: t, enums: map[string][]string{}, schemas: map[string]any{}, r: &jsonschema.Reflector{Anonymous: true, AllowAdditionalProperties: true}}
	comments := &jsonschema.Reflector{}
	for base, dir := range map[string]string{"github.com/askance-dev/askance/message": "../../message", "github.com/askance-dev/askance/toolcall": "../../toolcall", "github.com/askance-dev/askance/gateway": ".."} {
		w.enum(dir)
		if err := comments.AddGoComments("x", dir); err != nil {
			t.Fatal(err)
		}
		for name, text := range comments.CommentMap {
			// The library derives the path from the folder; only the last part matters.
			if parts := strings.SplitN(name[strings.LastIndex(name, "/")+1:], ".", 2); len(parts) == 2 && !strings.Contains(text, "wire:") {
				switch parts[0] {
				case filepath.Base(base), "message", "toolcall", "api", "gateway":
					w.comment(parts[1], text, "message", "toolcall", "message/api", "gateway", "gateway/api")
				case "msgv1":
					w.comment(parts[1], text, "gateway/msgv1")
				case "webhook":
					w.comment(parts[1], text, "gateway/webhook")
				}
			}
		}
		comments.CommentMap = nil
	}
	w.r.Mapper = w.special
	return w
}

// comment records the comment of a type with this name in the given packages.
func (w *writer) comment(name, text string, packages ...string) {
	if w.r.CommentMap == nil {
		w.r.CommentMap = map[string]string{}
	}
	text = strings.Join(strings.Fields(text), " ")
	for _, pkg := range packages {
		w.r.CommentMap["github.com/askance-dev/askance/"+pkg+"."+name] = text
	}
}

// enum collects the constants of the string types in a folder.
func (w *writer) enum(dir string) {
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				w.constants(g)
			}
		}
	}
}

func (w *writer) constants(g *ast.GenDecl) {
	for _, s := range g.Specs {
		v, ok := s.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			continue
		}
		typ, ok := v.Type.(*ast.Ident)
		lit, isLit := v.Values[0].(*ast.BasicLit)
		if !ok || !isLit || lit.Kind != token.STRING {
			continue
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			w.t.Fatal(err)
		}
		w.enums[typ.Name] = append(w.enums[typ.Name], text)
	}
}

// special returns the schemas of types that encode themselves.
func (w *writer) special(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[message.RawJSON]():
		return &jsonschema.Schema{Description: "Any JSON."}
	case reflect.TypeFor[message.Content]():
		return &jsonschema.Schema{Description: "Text, or a list of content blocks.", AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "array", Items: &jsonschema.Schema{Type: "object"}}}}
	case reflect.TypeFor[time.Time]():
		return nil
	}
	if t.Kind() == reflect.String && len(w.enums[t.Name()]) > 0 && slices.Contains([]string{"github.com/askance-dev/askance/message", "github.com/askance-dev/askance/toolcall"}, t.PkgPath()) {
		s := &jsonschema.Schema{Type: "string", Description: w.r.CommentMap[t.PkgPath()+"."+t.Name()]}
		for _, v := range w.enums[t.Name()] {
			s.Enum = append(s.Enum, v)
		}
		return s
	}
	if t.Kind() == reflect.Struct && isWire(t) {
		return w.wire(t)
	}
	return nil
}

// isWire reports whether t is one of AgentScope's structs, whose members have wire tags.
func isWire(t reflect.Type) bool {
	for f := range t.Fields() {
		if f.Tag.Get("wire") != "" {
			return true
		}
	}
	return false
}

func (w *writer) wire(t reflect.Type) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Description: w.r.CommentMap[t.PkgPath()+"."+t.Name()], Properties: jsonschema.NewProperties()}
	if b, ok := reflect.TypeAssert[message.Block](reflect.New(t)); ok {
		s.Properties.Set("type", &jsonschema.Schema{Const: string(b.Type())})
		s.Required = append(s.Required, "type")
	}
	for f := range t.Fields() {
		typ, null := f.Type, f.Type.Kind() == reflect.Pointer
		if null {
			typ = typ.Elem()
		}
		m := w.member(typ)
		if null {
			m = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{m, {Type: "null"}}}
		}
		if d := w.r.CommentMap[t.PkgPath()+"."+t.Name()+"."+f.Name]; d != "" {
			m.Description = d
		}
		s.Properties.Set(f.Tag.Get("json"), m)
		if strings.Contains(f.Tag.Get("wire"), "required") {
			s.Required = append(s.Required, f.Tag.Get("json"))
		}
	}
	return s
}

// member returns the schema of a member of an AgentScope struct.
func (w *writer) member(t reflect.Type) *jsonschema.Schema {
	if s := w.special(t); s != nil {
		return s
	}
	switch t.Kind() {
	case reflect.Slice:
		return &jsonschema.Schema{Type: "array", Items: w.member(t.Elem())}
	case reflect.Map:
		return &jsonschema.Schema{Type: "object"}
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}
	default:
		return &jsonschema.Schema{Type: "string"}
	}
}

// ref adds a type and everything that it needs to the document, and returns a reference to it.
func (w *writer) ref(t reflect.Type) map[string]any {
	if t == reflect.TypeFor[message.RawJSON]() {
		return map[string]any{}
	}
	s := w.r.ReflectFromType(t)
	var plain map[string]any
	b, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(bytes.ReplaceAll(b, []byte("#/$defs/"), []byte("#/components/schemas/")), &plain)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	defs, ok := plain["$defs"].(map[string]any)
	if !ok {
		w.t.Fatalf("%s has no definitions", t)
	}
	maps.Copy(w.schemas, objects(defs))
	return map[string]any{"$ref": "#/components/schemas/" + typeName(t)}
}

// body adds the schema of a request's body: its type without what is elsewhere in the request.
func (w *writer) body(b *body) map[string]any {
	_, known := w.schemas[typeName(b)]
	w.ref(b)
	root, _ := w.schemas[typeName(b)].(map[string]any)
	copied := maps.Clone(root)
	if !known {
		delete(w.schemas, typeName(b))
	}
	properties, _ := copied["properties"].(map[string]any)
	properties = maps.Clone(properties)
	for _, name := range b.without {
		delete(properties, name)
	}
	required, _ := copied["required"].([]any)
	if f, ok := b.FieldByName("Key"); ok && f.Anonymous { // every request with a Key names a call
		required = append(slices.Clone(required), "reply_id", "tool_call_id")
	}
	copied["required"] = slices.DeleteFunc(slices.Clone(required), func(name any) bool { return slices.Contains(b.without, fmt.Sprint(name)) })
	if about, ok := copied["description"].(string); ok {
		copied["description"] = strings.Replace(about, typeName(b), b.name(), 1)
	}
	copied["properties"], copied["additionalProperties"] = properties, false
	w.schemas[b.name()] = copied
	return map[string]any{"$ref": "#/components/schemas/" + b.name()}
}

// mayBeEmpty allows a member that lists its values to be empty.
func (w *writer) mayBeEmpty(typ, member string) {
	s, _ := w.schemas[typ].(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	m, ok := properties[member].(map[string]any)
	words, isList := m["enum"].([]any)
	if !ok || !isList {
		w.t.Fatalf("%s has no member %s with a list of values", typ, member)
	}
	m["enum"] = append([]any{""}, words...)
}

// objects replaces true by {} where a member has a schema.
func objects(m map[string]any) map[string]any {
	for k, v := range m {
		switch v := v.(type) {
		case bool:
			if v && k != "additionalProperties" {
				m[k] = map[string]any{}
			}
		case map[string]any:
			objects(v)
		}
	}
	return m
}

func (w *writer) document() []byte {
	paths := map[string]any{}
	for _, o := range operations(newReplies(), nil) {
		item, _ := paths[o.Path].(map[string]any)
		if item == nil {
			item = map[string]any{}
		}
		item[strings.ToLower(o.Method)] = w.operation(o)
		paths[o.Path] = item
	}
	w.mayBeEmpty("Step", "from") // there is no state before the first step
	problem := w.ref(reflect.TypeFor[gateway.Problem]())
	doc := map[string]any{
		"openapi":  "3.1.0",
		"info":     map[string]any{"title": "askance API", "description": documentDoc, "version": "0.0.0", "license": map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"}},
		"servers":  []any{map[string]any{"url": "/"}},
		"paths":    paths,
		"security": []any{map[string]any{"bearer": []any{}}, map[string]any{}},
		"components": map[string]any{
			"securitySchemes": map[string]any{"bearer": map[string]any{"type": "http", "scheme": "bearer", "description": "A token of askance token create, or a token of the identity provider. On loopback none is needed unless tokens are set up."}},
			"responses":       map[string]any{"Problem": map[string]any{"description": "It was refused, or did not work; code says why.", "content": map[string]any{"application/problem+json": map[string]any{"schema": problem}}}},
			"schemas":         w.schemas,
		},
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		w.t.Fatal(err)
	}
	return out.Bytes()
}

func (w *writer) operation(o *op) map[string]any {
	params := []any{}
	for _, name := range pathNames(o.Path) {
		schema := map[string]any{"type": "string", "minLength": 1, "maxLength": toolcall.MaxIDBytes}
		if name == "seq" {
			schema = map[string]any{"type": "integer", "minimum": 0}
		}
		params = append(params, map[string]any{"name": name, "in": "path", "required": true, "schema": schema})
	}
	for _, p := range append(slices.Clone(o.Params), asParam) {
		schema := map[string]any{"type": p.Type}
		if p.Type == "integer" {
			schema["minimum"] = 0
		}
		if len(p.Words) > 0 {
			schema["enum"] = p.Words
		}
		if p.Many {
			schema = map[string]any{"type": "array", "items": schema}
		}
		params = append(params, map[string]any{"name": p.Name, "in": "query", "description": p.Doc, "schema": schema})
	}
	content := map[string]any{"application/json": map[string]any{"schema": w.ref(o.out)}}
	if o.ID == "watchCalls" {
		content = map[string]any{}
	}
	if o.gives != nil {
		reply := map[string]any{"schema": w.ref(reflect.TypeFor[MsgsReply]())}
		content[msgv1.Type], content[msgv1.Type01] = reply, reply
	}
	if o.Stream {
		content["text/event-stream"] = map[string]any{"schema": map[string]any{"type": "string"}}
	}
	if o.Stream && o.ID != "watchCalls" { // its events have no ids
		params = append(params, map[string]any{"name": "Last-Event-ID", "in": "header", "description": "The id of the last event that was received.", "schema": map[string]any{"type": "string"}})
	}
	out := map[string]any{
		"operationId": o.ID, "summary": o.Summary, "description": o.description() + " For " + gateway.RoleWords(o.roles) + ".", "tags": []string{o.Tag}, "parameters": params,
		"responses": map[string]any{"200": map[string]any{"description": "Done.", "content": content}, "default": map[string]any{"$ref": "#/components/responses/Problem"}},
	}
	if o.changes {
		out["parameters"] = append(params, map[string]any{"name": "Idempotency-Key", "in": "header", "description": "Sent again with the same key, the request is carried out once.", "schema": map[string]any{"type": "string", "maxLength": maxKeyBytes}})
	}
	if o.in != nil {
		content := map[string]any{"application/json": map[string]any{"schema": w.body(o.in)}}
		if o.takes != nil {
			body := map[string]any{"schema": w.body(&body{Type: reflect.TypeFor[MsgsBody]()})}
			content[msgv1.Type], content[msgv1.Type01] = body, body
		}
		out["requestBody"] = map[string]any{"required": true, "content": content}
	}
	return out
}
