package approve_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/askance-dev/askance/engine/internal/approve"
)

var update = flag.Bool("update", false, "write the table of checks into APPROVALS.md")

const (
	document = "../../APPROVALS.md"
	begin    = "<!-- checks:begin -->\n"
	end      = "<!-- checks:end -->"
)

// The documentation has the checks that the engine makes, in their order.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	got, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatal("APPROVALS.md has no block of checks")
	}
	if *update {
		if err := os.WriteFile(document, []byte(before+begin+approve.Table()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != approve.Table() {
		t.Errorf("APPROVALS.md has other checks; run: go test ./engine/internal/approve -update\n%s", approve.Table())
	}
}
