package archtest_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/askance-dev/askance/internal/archtest"
)

// vectorFolders are the folders of testdata with copies of recorded vectors, under their original
// names.
var vectorFolders = []string{"agentscope", "policy", "ag-ui", "shell-dodges"}

// The vectors are recorded elsewhere and copied into the packages that run them. If the originals
// are next to the module, the copies are compared with them byte for byte.
func TestVectorsAreTheOriginals(t *testing.T) {
	dir := root(t)
	origin := filepath.Join(dir, "../shared/spec/vectors")
	if _, err := os.Stat(origin); err != nil {
		t.Logf("the originals are not available, so nothing was compared: %v", err)
		return
	}
	files, err := archtest.Files(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, file := range files {
		if !copiedVector(file) {
			continue
		}
		compared++
		if problem := drift(os.DirFS(dir), os.DirFS(origin), file); problem != "" {
			t.Error(problem)
		}
	}
	if compared == 0 {
		t.Error("found no copied vector; the module has some, so the search is broken")
	}
	t.Logf("%d files compared", compared)
}

// drift describes how a copy differs from its original, or returns "" if it does not.
func drift(module, origin fs.FS, file string) string {
	path := filepath.ToSlash(filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file)))
	want, err := fs.ReadFile(origin, path)
	if err != nil {
		return file + ": has no original (" + err.Error() + "): rename it, or move it out of the folder of copies"
	}
	got, err := fs.ReadFile(module, file)
	if err != nil {
		return file + ": " + err.Error()
	}
	if !bytes.Equal(got, want) {
		return file + ": differs from its original: copy it again, and fix the code, not the vectors"
	}
	return ""
}
