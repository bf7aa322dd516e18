package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"testing"

	"github.com/askance-dev/askance/internal/archtest"
)

// maxMethods is the maximum number of methods of a type in product code.
const maxMethods = 30

// A type with too many methods combines several parts that each have their own state.
func TestMethodsOfTypes(t *testing.T) {
	counts := countMethods(sources(t))
	if len(counts) < 200 {
		t.Fatalf("found %d types with methods; the module has more, so the search is broken", len(counts))
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[name]; n > maxMethods {
			t.Errorf("%s has %d methods, more than %d: split it into parts that each own their state", name, n, maxMethods)
		}
	}
}

// countMethods counts the methods of each type by folder and name. A method with one
// variant for each system counts once.
func countMethods(all []archtest.Source) map[string]int {
	found := map[string]map[string]bool{}
	for _, s := range all {
		if s.Test() {
			continue
		}
		for _, d := range s.AST.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			name := s.Folder + "." + receiver(f.Recv.List[0].Type)
			if found[name] == nil {
				found[name] = map[string]bool{}
			}
			found[name][f.Name.Name] = true
		}
	}
	counts := map[string]int{}
	for name, methods := range found {
		counts[name] = len(methods)
	}
	return counts
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.ParenExpr:
		return receiver(e.X)
	}
	return "?"
}

func TestCountMethods(t *testing.T) {
	parse := func(file, text string) archtest.Source {
		tree, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		return archtest.Source{Folder: "a", File: file, AST: tree}
	}
	got := countMethods([]archtest.Source{
		parse("a/a.go", "package a\nfunc (x T) A() {}\nfunc (x *T) B() {}\nfunc (x *G[K]) A() {}\nfunc (x (*H[K, V])) A() {}\nfunc F() {}\n"),
		parse("a/a_linux.go", "package a\nfunc (T) C() {}\n"),
		parse("a/a_windows.go", "package a\nfunc (T) C() {}\n"),
		parse("a/a_test.go", "package a\nfunc (T) D() {}\n"),
	})
	if want := map[string]int{"a.T": 3, "a.G": 1, "a.H": 1}; !maps.Equal(got, want) {
		t.Errorf("countMethods = %v, want %v", got, want)
	}
}
