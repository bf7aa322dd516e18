package format_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/format"
)

// FuzzSource: a file that loads is formatted without an error, and formatting it again changes
// nothing. Source itself checks that the meaning stays the same.
func FuzzSource(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "../lint/testdata/*/*.yaml", "../testdata/cases/*/rules.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatal(pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := format.Source("f.yaml", text)
		if _, refused := errors.AsType[*permission.LoadError](err); refused {
			return
		}
		if errors.Is(err, format.ErrChanged) {
			return // an unusual layout is kept, which is the purpose of the check
		}
		if err != nil {
			t.Fatal(err)
		}
		twice, err := format.Source("f.yaml", once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("formatted twice: %v\n--- once\n%s\n--- twice\n%s", err, once, twice)
		}
	})
}
