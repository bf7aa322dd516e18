package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
)

// ConstTable renders the constants of a type with their trailing comments, in which | separates
// columns.
func ConstTable(tree fs.FS, file, typ, head string) (string, error) {
	source, err := fs.ReadFile(tree, file)
	if err != nil {
		return "", err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|%s\n", head, strings.Repeat("---|", 1+strings.Count(head, "|")))
	ast.Inspect(parsed, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, isName := v.Type.(*ast.Ident); isName && name.Name == typ && len(v.Values) == 1 {
			if text, isText := v.Values[0].(*ast.BasicLit); isText {
				fmt.Fprintf(&b, "| `%s` | %s |\n", strings.Trim(text.Value, `"`), strings.TrimSpace(v.Comment.Text()))
			}
		}
		return true
	})
	return b.String(), nil
}
