package executor

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// A program can read all of its input from the beginning and cannot change it.
func TestInputIsCompleteAndSealed(t *testing.T) {
	text := `{"pad":"` + strings.Repeat("x", 200_000) + `"}`
	for name, kept := range map[string]func([]byte) (*os.File, func(), error){"chosen": sealInput, "file": fileInput} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			first, release, err := kept([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			second, releaseSecond, err := kept([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			defer releaseSecond()
			for _, in := range []*os.File{first, second} { // each has its own offset
				got, err := io.ReadAll(in)
				if err != nil || string(got) != text {
					t.Errorf("read %d bytes, %v; want %d", len(got), err, len(text))
				}
			}
			if _, err := first.WriteAt([]byte("{}"), 0); err == nil {
				t.Error("the input can be changed")
			}
			if err := first.Truncate(1); err == nil {
				t.Error("the input can be cut")
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 && os.PathSeparator == '/' {
				t.Errorf("%v, %v are left in the temporary folder", left, err)
			}
		})
	}
}

// A call always has arguments, so a program never starts without them.
func TestNoInputIsNoProgram(t *testing.T) {
	for _, b := range [][]byte{nil, {}} {
		if _, _, err := sealInput(b); !errors.Is(err, errNotStarted) {
			t.Errorf("sealInput(%q) = %v, want errNotStarted", b, err)
		}
	}
}

// Without a temporary folder there is an error and no incomplete file.
func TestInputWithoutAFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/missing")
	if _, _, err := fileInput([]byte("{}")); err == nil {
		t.Error("a file was made in a folder that does not exist")
	}
}
