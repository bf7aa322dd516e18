package reference_test

import (
	"flag"
	"os"
	"testing"

	"github.com/askance-dev/askance/permission/internal/reference"
)

var update = flag.Bool("update", false, "write REFERENCE.md")

const path = "../../REFERENCE.md"

func TestReference(t *testing.T) {
	want, err := reference.Markdown()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("REFERENCE.md differs from the code; run make generate")
	}
}
