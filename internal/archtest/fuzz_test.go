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

// A target that is not listed is never fuzzed, and `go test -fuzz` is content
// with a name that matches nothing. So the Makefile's list and the tree are
// compared both ways.
func TestFuzzTargetsAreListed(t *testing.T) {
	listed := listedTargets(read(t, filepath.Join(root(t), "Makefile")))
	var found []string
	for _, s := range sources(t) {
		found = append(found, fuzzTargets(s)...)
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
			t.Errorf("the Makefile's list FUZZ names %s, which does not exist: take it out", l)
		}
		if slices.Contains(listed[:i], l) {
			t.Errorf("the Makefile's list FUZZ names %s twice", l)
		}
	}
}

var fuzzList = regexp.MustCompile(`(?m)^FUZZ :=((?:.*\\\n)*.*)$`)

// listedTargets reads the words of the variable FUZZ: folder:FuzzName.
func listedTargets(makefile string) []string {
	m := fuzzList.FindStringSubmatch(makefile)
	if m == nil {
		return nil
	}
	return strings.Fields(strings.ReplaceAll(m[1], "\\\n", " "))
}

func fuzzTargets(s archtest.Source) []string {
	if !s.Test() {
		return nil
	}
	var out []string
	for _, d := range s.AST.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") && len(f.Type.Params.List) == 1 {
			out = append(out, s.Folder+":"+f.Name.Name)
		}
	}
	return out
}

func TestListedTargets(t *testing.T) {
	const makefile = "OTHER := x\nFUZZ := \\\n  a:FuzzA \\\n  b/c:FuzzB\n\nNEXT := y\n"
	if got, want := listedTargets(makefile), []string{"a:FuzzA", "b/c:FuzzB"}; !slices.Equal(got, want) {
		t.Errorf("listedTargets = %q, want %q", got, want)
	}
	if got := listedTargets("NONE := x\n"); got != nil {
		t.Errorf("listedTargets = %q, want none", got)
	}
}
