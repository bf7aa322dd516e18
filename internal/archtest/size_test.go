package archtest_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/archtest"
)

// Limits for the code that the command links. Lower them when the code gets smaller; only a new
// feature may raise one.
const (
	maxLines      = 147_925
	maxFiles      = 542
	maxSmallFiles = 20 // files with fewer than smallFile lines
	smallFile     = 40
)

// size counts files and lines, with comments and blank lines.
type size struct{ lines, files, small int }

// add counts a file.
func (s *size) add(text []byte) {
	n := bytes.Count(text, []byte("\n"))
	s.lines += n
	s.files++
	if n < smallFile {
		s.small++
	}
}

// A reader can know the whole product only if it does not grow unnoticed.
func TestSize(t *testing.T) {
	got := productSize(t.Context(), t, root(t))
	t.Logf("%d lines in %d files, %d of them under %d lines", got.lines, got.files, got.small, smallFile)
	if got.files < 100 {
		t.Fatalf("found %d product files; the command links more, so the search is broken", got.files)
	}
	for _, c := range []struct {
		what      string
		got, most int
	}{
		{"product lines", got.lines, maxLines},
		{"product files", got.files, maxFiles},
		{"product files under 40 lines", got.small, maxSmallFiles},
	} {
		if c.got > c.most {
			t.Errorf("%d %s, at most %d: merge fragments, and delete duplicates and unused code", c.got, c.what, c.most)
		}
	}
}

// productSize counts the module's own files that cmd/askance links on Linux.
func productSize(ctx context.Context, t *testing.T, dir string) size {
	t.Helper()
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-f", `{{.ImportPath}}|{{.Dir}}|{{join .GoFiles "|"}}`, "./cmd/askance")
	list.Dir, list.Env = dir, append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var total size
	for line := range strings.Lines(string(out)) {
		parts := strings.Split(strings.TrimSpace(line), "|")
		if !strings.HasPrefix(parts[0], archtest.Module+"/") {
			continue
		}
		for _, name := range parts[2:] {
			text, err := os.ReadFile(filepath.Join(parts[1], name))
			if err != nil {
				t.Fatal(err)
			}
			total.add(text)
		}
	}
	return total
}

func TestSizeCounts(t *testing.T) {
	var s size
	s.add([]byte(strings.Repeat("x\n", smallFile-1)))
	s.add([]byte(strings.Repeat("x\n", smallFile)))
	if want := (size{lines: 2*smallFile - 1, files: 2, small: 1}); s != want {
		t.Errorf("counted %+v, want %+v", s, want)
	}
}
