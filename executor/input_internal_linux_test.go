package executor

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// The seals also apply to a descriptor that is opened again for writing, which any process of
// the same user can do.
func TestSealedMemoryCannotBeOpenedForChanges(t *testing.T) {
	in, release, err := memoryInput([]byte(`{"n":1}`))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	w, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", in.Fd()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	_, written := w.WriteAt([]byte(`{"n":2}`), 0)
	_, grown := w.WriteAt([]byte(" "), 7)
	for what, err := range map[string]error{"changed": written, "grown": grown, "cut": w.Truncate(1)} {
		if !errors.Is(err, unix.EPERM) {
			t.Errorf("the input can be %s: %v", what, err)
		}
	}
}
