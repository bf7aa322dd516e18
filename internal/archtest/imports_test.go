package archtest_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/archtest"
)

func root(t *testing.T) string {
	t.Helper()
	dir, err := archtest.Root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func sources(t *testing.T) []archtest.Source {
	t.Helper()
	all, err := archtest.Sources(t.Context(), root(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("found %d Go files; the module has more, so the search is broken", len(all))
	}
	return all
}

func TestImports(t *testing.T) {
	table := archtest.Rules()
	judged := 0
	for _, s := range sources(t) {
		if _, ok := table.Row(s.Folder); !ok {
			t.Errorf("%s: folder %s has no row; add one to internal/archtest/table.go with its reason", s.File, s.Folder)
			continue
		}
		for _, i := range s.Imports() {
			judged++
			if err := table.Check(i); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("%d imports judged", judged)
}

func TestNoTestLibraryInCode(t *testing.T) {
	table := archtest.Rules()
	graph, err := archtest.Packages(t.Context(), root(t))
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{} // what git ignores is not part of the module
	for _, s := range sources(t) {
		own[strings.TrimSuffix(archtest.Module+"/"+s.Folder, "/.")] = true
	}
	judged := 0
	for _, path := range slices.Sorted(maps.Keys(graph)) {
		if !own[path] || table.TestOnly(path) {
			continue
		}
		judged++
		if chain := archtest.Reach(graph, path, table.TestOnly); chain != nil {
			t.Errorf("a test library is reachable from code that is not a test: %s", strings.Join(chain, " imports "))
		}
	}
	if judged < 5 {
		t.Errorf("judged %d packages; the module has more, so the search is broken", judged)
	}
}
