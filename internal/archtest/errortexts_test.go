package archtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/archtest"
)

// TestErrorTexts: the list of all error texts is up to date, so a reviewer sees each new text in
// one place.
func TestErrorTexts(t *testing.T) {
	got := archtest.ErrorTexts(sources(t))
	for _, want := range []string{"\tonly one of --nats-cert and --nats-key is set: pass both\n", "\tcanceled: nothing was sent\n", "\tno call has the id … (give at least the first 4 letters of an id; for an archived call give SESSION/REPLY/CALL)\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the list lacks %q", want)
		}
	}
	path := filepath.Join("testdata", "errors.txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs from the source; read what changes and run go test ./internal/archtest -run TestErrorTexts -update", path)
	}
}
