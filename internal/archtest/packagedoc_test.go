package archtest_test

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The package comment may be in any file, although doc.go is the usual place. For folders with
// only tests it says what they prove.
func TestEveryPackageHasADocComment(t *testing.T) {
	docs := map[string]string{}
	code := map[string]bool{}
	for _, s := range sources(t) {
		code[s.Folder] = code[s.Folder] || !s.Test()
	}
	for _, s := range sources(t) {
		if s.Test() && code[s.Folder] {
			continue
		}
		docs[s.Folder] += docOf(s.AST)
	}
	for _, folder := range slices.Sorted(maps.Keys(docs)) {
		if docs[folder] == "" {
			t.Errorf("%s has no package comment; write one in %s/doc.go: what it is for, its main type, its guarantees, what it does not do", folder, folder)
		}
	}
}

// docOf returns the package comment if it has the form that godoc requires.
func docOf(f *ast.File) string {
	text := f.Doc.Text()
	start := "Package " + strings.TrimSuffix(f.Name.Name, "_test") + " "
	if strings.HasPrefix(text, start) || f.Name.Name == "main" && text != "" {
		return text
	}
	return ""
}
