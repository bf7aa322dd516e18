package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// edges holds, for each node of a picture, the nodes that it uses directly.
type edges map[string][]string

// direct drops each edge that a longer path in the picture implies.
func (e edges) direct() edges {
	var reach func(from, to string) bool
	reach = func(from, to string) bool {
		return slices.ContainsFunc(e[from], func(next string) bool { return next == to || reach(next, to) })
	}
	out := edges{}
	for from, uses := range e {
		for _, to := range uses {
			implied := slices.ContainsFunc(uses, func(other string) bool { return other != to && reach(other, to) })
			if !implied {
				out[from] = append(out[from], to)
			}
		}
		slices.Sort(out[from])
	}
	return out
}

// mermaid draws the edges from top to bottom. Names with a slash need a label.
func (e edges) mermaid() string {
	id := func(name string) string {
		if plain := strings.NewReplacer("/", "_", ".", "_").Replace(name); plain != name {
			return fmt.Sprintf("%s[%s]", plain, name)
		}
		return name
	}
	var b strings.Builder
	b.WriteString("```mermaid\nflowchart TD\n")
	for _, from := range slices.Sorted(maps.Keys(e)) {
		for _, to := range e[from] {
			fmt.Fprintf(&b, "    %s --> %s\n", id(from), id(to))
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// ModulePicture draws which top-level package uses which, from the table.
func (t Table) ModulePicture() string {
	e := edges{}
	public := []string{"bus", "engine", "executor", "gateway", "message", "permission", "toolcall"}
	for _, r := range t.Rows {
		switch {
		case r.Folder == "cmd":
			e["cmd"] = public
		case slices.Contains(public, r.Folder):
			for _, own := range r.Own {
				if own != r.Folder && slices.Contains(public, own) {
					e[r.Folder] = append(e[r.Folder], own)
				}
			}
		}
	}
	return e.direct().mermaid()
}

// EnginePicture draws the parts of package engine: a part points to those that its struct
// holds. Packages below engine/internal have their short names.
func EnginePicture(root fs.FS) (string, error) {
	folder, err := parseFolder(root, "engine")
	if err != nil {
		return "", err
	}
	structs := map[string]*ast.StructType{}
	for _, file := range folder {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok {
				if t, ok := s.Type.(*ast.StructType); ok {
					structs[s.Name.Name] = t
				}
			}
			return true
		})
	}
	e := edges{}
	var visit func(name string)
	visit = func(name string) {
		if _, done := e[name]; done || structs[name] == nil {
			return
		}
		e[name] = nil
		for _, f := range structs[name].Fields.List {
			if part := partName(f.Type, structs); part != "" && part != name && !slices.Contains(e[name], part) {
				e[name] = append(e[name], part)
				visit(part)
			}
		}
	}
	visit("Port")
	if len(e) < 5 {
		return "", errors.New("engine.Port does not lead to the parts of the engine")
	}
	return e.direct().mermaid(), nil
}

// partName names the part that a field holds: a struct of the package, or a
// package below engine/internal.
func partName(field ast.Expr, structs map[string]*ast.StructType) string {
	if star, ok := field.(*ast.StarExpr); ok {
		field = star.X
	} else if _, ok := field.(*ast.SelectorExpr); !ok {
		return ""
	}
	switch f := field.(type) {
	case *ast.Ident:
		if structs[f.Name] != nil {
			return f.Name
		}
	case *ast.SelectorExpr:
		pkg, ok := f.X.(*ast.Ident)
		if ok && slices.Contains([]string{"approve", "decide", "schedule", "standing", "store", "view"}, pkg.Name) {
			return pkg.Name
		}
	}
	return ""
}

// parseFolder parses the Go files of a folder that are not tests, by path.
func parseFolder(root fs.FS, folder string) (map[string]*ast.File, error) {
	names, err := fs.Glob(root, path.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	out := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		if out[name], err = parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
	}
	return out, nil
}
