// Package codectest contains checks for the tests of every codec: that what was read can be
// written and read again, and that two JSON texts are equivalent. Only tests import it.
package codectest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Stable checks that encoding, decoding and encoding again results in the same bytes. A text of
// more than most bytes is not decoded again (0 means no limit).
func Stable[T any](t testing.TB, v T, most int, encode func(T) ([]byte, error), decode func([]byte) (T, error)) {
	t.Helper()
	once, err := encode(v)
	if err != nil {
		t.Fatalf("what was read cannot be written: %v", err)
	}
	if most > 0 && len(once) > most {
		return
	}
	again, err := decode(once)
	if err != nil {
		t.Fatalf("what was written cannot be read: %v\n%s", err, once)
	}
	twice, err := encode(again)
	if err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("not stable: %v\n%s\n%s", err, once, twice)
	}
}

// SameJSON compares as values, ignoring the order of members and the form of numbers.
func SameJSON(t testing.TB, got, want []byte) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil { //nolint:forbidigo // a test compares as any reader would
		t.Fatalf("%v in %s", err, got)
	}
	if err := json.Unmarshal(want, &w); err != nil { //nolint:forbidigo // a test compares as any reader would
		t.Fatal(err)
	}
	if d := cmp.Diff(w, g); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
