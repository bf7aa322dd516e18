package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// errorMakers are the functions whose text becomes an error, with the position of
// the text among the arguments.
var errorMakers = map[string]int{"errors.New": 0, "fmt.Errorf": 0, "usagef": 0, "findingsf": 0, "message.Errorf": 2}

// ErrorTexts lists the texts of all errors by package, sorted, to be read in one go. A
// message.Error has What and Hint on one line.
func ErrorTexts(sources []Source) string {
	byFolder := map[string]map[string]bool{}
	for _, s := range sources {
		if strings.HasSuffix(s.File, "_test.go") || strings.HasSuffix(s.Folder, "test") {
			continue
		}
		ast.Inspect(s.AST, func(n ast.Node) bool {
			if text := errorText(n); text != "" {
				if byFolder[s.Folder] == nil {
					byFolder[s.Folder] = map[string]bool{}
				}
				byFolder[s.Folder][text] = true
			}
			return true
		})
	}
	var b strings.Builder
	for _, folder := range slices.Sorted(maps.Keys(byFolder)) {
		fmt.Fprintf(&b, "%s\n", folder)
		for _, text := range slices.Sorted(maps.Keys(byFolder[folder])) {
			fmt.Fprintf(&b, "\t%s\n", text)
		}
	}
	return b.String()
}

// errorText returns the text of an error that a node makes, or "".
func errorText(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		at, ok := errorMakers[nameOf(n.Fun)]
		if !ok || at >= len(n.Args) {
			return ""
		}
		return literalText(n.Args[at])
	case *ast.CompositeLit:
		if name := nameOf(n.Type); name != "message.Error" && name != "Error" {
			return ""
		}
		return whatAndHint(n)
	}
	return ""
}

// whatAndHint joins the texts of a message.Error.
func whatAndHint(c *ast.CompositeLit) string {
	parts := map[string]string{}
	for _, e := range c.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			parts[nameOf(kv.Key)] = literalText(kv.Value)
		}
	}
	if parts["Hint"] == "" {
		return parts["What"]
	}
	return parts["What"] + " (" + parts["Hint"] + ")"
}

// nameOf returns the name of a function, a type or a field, with its package.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if p, ok := e.X.(*ast.Ident); ok {
			return p.Name + "." + e.Sel.Name
		}
	}
	return ""
}

// literalText returns the text of an expression, with … for anything that is not a literal.
func literalText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return strings.ReplaceAll(text, "\n", "⏎")
		}
	case *ast.BinaryExpr:
		return literalText(e.X) + literalText(e.Y)
	case *ast.CallExpr:
		if nameOf(e.Fun) == "fmt.Sprintf" && len(e.Args) > 0 {
			return literalText(e.Args[0])
		}
	}
	return "…"
}
