//go:build unix

package executor

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

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
