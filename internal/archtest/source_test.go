package archtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/askance-dev/askance/internal/archtest"
)

// Files that git or the go command ignores are not checked.
func TestSourcesLeaveOut(t *testing.T) {
	for _, git := range []bool{true, false} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"go.mod": "module x\n", ".gitignore": "/bin/\n", "a.go": "package a\n", "b/b.go": "package b\n", "new/n.go": "package n\n",
			"bin/tool.go": "package main, and no Go\n", "b/testdata/t.go": "none either\n", "_old/o.go": "nor this\n", ".hidden/h.go": "nor this\n",
			"other/go.mod": "module y\n", "other/deep/o.go": "nor this\n",
		} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"a.go", "b/b.go", "new/n.go"}
		if git {
			for _, args := range [][]string{{"init", "-q"}, {"add", "a.go", "b", ".gitignore", "go.mod"}} {
				if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
					t.Fatalf("git %v: %v\n%s", args, err, out)
				}
			}
		} else if err := os.RemoveAll(filepath.Join(dir, "bin")); err != nil { // without git, ignored files are not known
			t.Fatal(err)
		}
		all, err := archtest.Sources(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range all {
			got = append(got, s.File)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("with git %v: %v, want %v", git, got, want)
		}
	}
}
