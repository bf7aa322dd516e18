package archtest_test

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// A folder's doc comment counts wherever it stands, though doc.go is the
// place. Folders of tests alone say there what they prove.
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

// docOf returns the package comment if it begins as godoc wants it.
func docOf(f *ast.File) string {
	text := f.Doc.Text()
	start := "Package " + strings.TrimSuffix(f.Name.Name, "_test") + " "
	if strings.HasPrefix(text, start) || f.Name.Name == "main" && text != "" {
		return text
	}
	return ""
}
