package archtest_test

import (
	"go/ast"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/archtest"
)

// A target that is not listed is never fuzzed, and `go test -fuzz` accepts a name that matches
// nothing. So the Makefile's list and the code are compared in both directions.
func TestFuzzTargetsAreListed(t *testing.T) {
	listed := listedTargets(read(t, filepath.Join(root(t), "Makefile")), "FUZZ")
	var found []string
	for _, s := range sources(t) {
		found = append(found, testFunctions(s, "Fuzz")...)
	}
	slices.Sort(found)
	if len(found) == 0 {
		t.Fatal("found no fuzz target; the module has some, so the search is broken")
	}
	for _, f := range found {
		if !slices.Contains(listed, f) {
			t.Errorf("%s is not in the Makefile's list FUZZ: add it, so that `make test` runs it", f)
		}
	}
	for i, l := range listed {
		if !slices.Contains(found, l) {
			t.Errorf("the Makefile's list FUZZ names %s, which does not exist: remove it", l)
		}
		if slices.Contains(listed[:i], l) {
			t.Errorf("the Makefile's list FUZZ names %s twice", l)
		}
	}
}

// A listed name that matches nothing runs nothing without an error, and `go test -skip` skips
// every test with the name. So each listed test exists, and no other has its name.
func TestUnracedTestsAreListed(t *testing.T) {
	listed := listedTargets(read(t, filepath.Join(root(t), "Makefile")), "UNRACED_TESTS")
	if len(listed) == 0 {
		t.Fatal("found no list UNRACED_TESTS in the Makefile")
	}
	var found []string
	for _, s := range sources(t) {
		found = append(found, testFunctions(s, "Test")...)
	}
	for i, l := range listed {
		if !slices.Contains(found, l) {
			t.Errorf("the Makefile's list UNRACED_TESTS names %s, which does not exist: remove it", l)
		}
		if slices.Contains(listed[:i], l) {
			t.Errorf("the Makefile's list UNRACED_TESTS names %s twice", l)
		}
		_, name, _ := strings.Cut(l, ":")
		for _, f := range found {
			if f != l && strings.HasSuffix(f, ":"+name) {
				t.Errorf("%s has the name of %s, so `make race` would run neither with the race detector: rename it", f, l)
			}
		}
	}
}

// listedTargets returns the words of a variable of the Makefile: folder:Name.
func listedTargets(makefile, variable string) []string {
	m := regexp.MustCompile(`(?m)^` + variable + ` :=((?:.*\\\n)*.*)$`).FindStringSubmatch(makefile)
	if m == nil {
		return nil
	}
	return strings.Fields(strings.ReplaceAll(m[1], "\\\n", " "))
}

// testFunctions returns the functions of a test file that go test finds by this prefix.
func testFunctions(s archtest.Source, prefix string) []string {
	if !s.Test() {
		return nil
	}
	var out []string
	for _, d := range s.AST.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, prefix) && len(f.Type.Params.List) == 1 {
			out = append(out, s.Folder+":"+f.Name.Name)
		}
	}
	return out
}

func TestListedTargets(t *testing.T) {
	const makefile = "OTHER := x\nFUZZ := \\\n  a:FuzzA \\\n  b/c:FuzzB\n\nNEXT := y\n"
	if got, want := listedTargets(makefile, "FUZZ"), []string{"a:FuzzA", "b/c:FuzzB"}; !slices.Equal(got, want) {
		t.Errorf("listedTargets = %q, want %q", got, want)
	}
	if got := listedTargets("NONE := x\n", "FUZZ"); got != nil {
		t.Errorf("listedTargets = %q, want none", got)
	}
}
