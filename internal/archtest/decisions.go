package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// decided are the packages whose comments have a section of decisions.
var decided = []string{".", "engine", "bus", "executor", "permission", "gateway"}

// Decisions collects the sections "Decisions" of package comments for docs/decisions.md.
func Decisions(tree fs.FS) (string, error) {
	var b strings.Builder
	for _, folder := range decided {
		text, err := packageComment(tree, folder)
		if err != nil {
			return "", err
		}
		_, section, found := strings.Cut(text, "\n# Decisions\n")
		if section, _, _ = strings.Cut(section, "\n# "); !found {
			return "", fmt.Errorf("the comment of package %s has no section \"# Decisions\"", folder)
		}
		name := "Package " + folder
		if folder == "." {
			name = "The root package"
		}
		fmt.Fprintf(&b, "## %s\n\n", name)
		for item := range strings.SplitSeq(section, "\n  - ") {
			if words := strings.Fields(item); len(words) > 0 {
				fmt.Fprintf(&b, "- %s\n", strings.Join(words, " "))
			}
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}

// packageComment joins the package comments of a folder.
func packageComment(tree fs.FS, folder string) (string, error) {
	files, err := fs.Glob(tree, path.Join(folder, "*.go"))
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, file := range files {
		source, err := fs.ReadFile(tree, file)
		if err != nil {
			return "", err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			return "", err
		}
		if !strings.HasSuffix(file, "_test.go") {
			text.WriteString(parsed.Doc.Text())
		}
	}
	return text.String(), nil
}

// ConstTable renders the constants of a type with their trailing comments.
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
	fmt.Fprintf(&b, "| %s |\n|---|---|\n", head)
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
