//go:build unix

package executor

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A command without descriptors for its pipes was not begun, as one that cannot start.
func TestCommandWithoutPipes(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	out, err := runCommand(t.Context(), exec.Command("true"), time.Second, Task{})
	if back := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); back != nil {
		t.Fatal(back)
	}
	if !errors.Is(err, errNotBegun) {
		t.Errorf("%+v, %v; want that the attempt was not begun", out, err)
	}
}

// Output in a pipe is still read after the pipe was closed, although another process holds its
// other end.
func TestUnreadOutput(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	want := strings.Repeat("x", 60_000)
	if _, err := w.WriteString(want); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	rest := readRest(r, &got)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if rest(); got.String() != want {
		t.Errorf("read %d of %d bytes", got.Len(), len(want))
	}
}
