package bus_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is what the Go files say about the types in messages, including comments.
type source struct {
	structs map[string]*ast.StructType
	docs    map[string]string   // of types
	basic   map[string]string   // a named type's underlying one
	values  map[string][]string // of a named string type, with comments
	wire    map[string]bool     // structs with a codec of their own: AgentScope's
}

// messageSource reads the types in messages.
func messageSource(t *testing.T) *source {
	t.Helper()
	s := &source{map[string]*ast.StructType{}, map[string]string{}, map[string]string{}, map[string][]string{}, map[string]bool{}}
	files := []string{"signals.go", "task.go", "audit.go"}
	for _, folder := range []string{"../message", "../message/api", "../message/proof", "../toolcall"} {
		more, err := filepath.Glob(folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				s.add(g)
			}
		}
	}
	return s
}

func (s *source) add(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			doc := spec.Doc
			if doc == nil {
				doc = g.Doc
			}
			s.docs[spec.Name.Name] = oneLine(doc.Text())
			switch typ := spec.Type.(type) {
			case *ast.StructType:
				s.structs[spec.Name.Name] = typ
				s.wire[spec.Name.Name] = slices.ContainsFunc(typ.Fields.List, func(f *ast.Field) bool { return f.Tag != nil && strings.Contains(f.Tag.Value, `wire:"`) })
			case *ast.Ident:
				s.basic[spec.Name.Name] = typ.Name
			}
		case *ast.ValueSpec:
			s.constant(spec)
		}
	}
}

func (s *source) constant(spec *ast.ValueSpec) {
	typ, ok := spec.Type.(*ast.Ident)
	if !ok || len(spec.Values) != 1 {
		return
	}
	lit, ok := spec.Values[0].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING || lit.Value == `""` {
		return
	}
	value, _ := strconv.Unquote(lit.Value)
	s.values[typ.Name] = append(s.values[typ.Name], value+"\x00"+oneLine(spec.Comment.Text()))
}

func oneLine(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", "\\|")
}

// codes is the table of error codes.
func (s *source) codes() string {
	var rows [][]string
	for _, v := range s.values["Code"] {
		value, comment, _ := strings.Cut(v, "\x00")
		rows = append(rows, []string{code(value), comment})
	}
	return table([]string{"code", "meaning"}, rows)
}

// bodies describes the roots and all types in them, in the order in which they are found.
func (s *source) bodies(roots []string) string {
	var b strings.Builder
	b.WriteByte('\n')
	seen := map[string]bool{}
	for queue := roots; len(queue) > 0; queue = queue[1:] {
		name := queue[0]
		typ := s.structs[name]
		if typ == nil || seen[name] || s.wire[name] {
			continue
		}
		seen[name] = true
		var rows [][]string
		rows, queue = s.members(typ, queue)
		b.WriteString("### " + name + "\n\n" + s.docs[name] + "\n" + table([]string{"member", "type", "what"}, rows))
	}
	return b.String()
}

// members returns the rows of a struct and appends the structs among its members to the queue.
func (s *source) members(typ *ast.StructType, queue []string) (rows [][]string, _ []string) {
	for _, f := range typ.Fields.List {
		if len(f.Names) == 0 {
			if embedded, ok := s.structs[last(f.Type)]; ok {
				var more [][]string
				more, queue = s.members(embedded, queue)
				rows = append(rows, more...)
			}
			continue
		}
		tag, _ := strconv.Unquote(f.Tag.Value)
		name, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if name == "-" {
			continue
		}
		optional := ""
		if strings.Contains(options, "omitzero") {
			optional = "?"
		}
		rows = append(rows, []string{code(name) + optional, s.typeName(f.Type), oneLine(f.Doc.Text() + " " + f.Comment.Text())})
		queue = append(queue, last(f.Type))
	}
	return rows, queue
}

// last returns the name at the core of a type: []*toolcall.Call is Call.
func last(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return last(e.X)
	case *ast.ArrayType:
		return last(e.Elt)
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func (s *source) typeName(e ast.Expr) string {
	if m, ok := e.(*ast.MapType); ok {
		return "object of " + s.typeName(m.Value)
	}
	if list, ok := e.(*ast.ArrayType); ok {
		if last(list) == "byte" {
			return "base64 text"
		}
		return "list of " + s.typeName(list.Elt)
	}
	name := last(e)
	switch name {
	case "Time":
		return "time"
	case "int", "int64", "uint64":
		return "integer"
	case "bool":
		return "boolean"
	case "RawJSON":
		return "JSON"
	case "Hash":
		return "string"
	case "string":
		return name
	}
	if values := s.values[name]; len(values) > 0 {
		words := make([]string, len(values))
		for i, v := range values {
			word, _, _ := strings.Cut(v, "\x00")
			words[i] = code(word)
		}
		return "string: " + strings.Join(words, ", ")
	}
	if s.basic[name] != "" {
		return s.basic[name]
	}
	if s.structs[name] != nil && !s.wire[name] {
		return "[" + name + "](#" + strings.ToLower(name) + ")"
	}
	return name
}
