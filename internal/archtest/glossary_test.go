package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/archtest"
)

// The page of names matches the table, and every name in it exists.
func TestGlossary(t *testing.T) {
	page := filepath.Join(root(t), "docs", "glossary.md")
	if *update {
		if err := os.MkdirAll(filepath.Dir(page), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(page, []byte(archtest.GlossaryPage()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, page) != archtest.GlossaryPage() {
		t.Errorf("docs/glossary.md differs from the table; run: go test ./internal/archtest -update")
	}
	for _, term := range archtest.Glossary {
		folder, name, _ := strings.Cut(term.Package, ".")
		if !declares(t, filepath.Join(root(t), folder), name) {
			t.Errorf("%s: %s does not exist", term.Name, term.Package)
		}
	}
}

func declares(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.Name == name {
						return true
					}
				case *ast.ValueSpec:
					if s.Names[0].Name == name {
						return true
					}
				}
			}
		}
	}
	return false
}

// No name that the glossary replaced is used in Go or in JSON members.
func TestOldNames(t *testing.T) {
	var read int
	err := filepath.WalkDir(root(t), func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root(t)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		read++
		found, err := archtest.OldNames(root(t), path)
		for _, f := range found {
			t.Error(f)
		}
		return err
	})
	if err != nil || read < 100 {
		t.Fatalf("%d files read: %v", read, err)
	}
}

// OldNames finds an old name in each possible place.
func TestOldNamesAreFound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.go")
	source := "package x\ntype openQuestion struct { N int `json:\"fact_count\"` }\nfunc EnsureLane() {}\n"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := archtest.OldNames(filepath.Dir(file), file)
	if err != nil || len(found) != 3 {
		t.Errorf("found %q, %v; want three", found, err)
	}
}
