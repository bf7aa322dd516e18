package shell_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/askance-dev/askance/permission/shell"
)

// Ways around a deny rule, as people and agents try them, and lines that only
// look like it; see testdata/README.md.
func TestDodges(t *testing.T) {
	f, err := os.Open("testdata/dodges.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	n := 0
	for in := bufio.NewScanner(f); in.Scan(); n++ {
		var row struct{ Rule, Line, Want string }
		if err := json.Unmarshal(in.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if got := answer(t, row.Rule, row.Line); got != row.Want {
			t.Errorf("%q on %q: %s, want: %s", row.Rule, row.Line, got, row.Want)
		}
	}
	if n < 1500 {
		t.Errorf("only %d rows were read", n)
	}
}

// answer is what a deny rule says about a line.
func answer(t *testing.T, rule, line string) string {
	t.Helper()
	matched, err := patterns(t, rule)[0].Matches(shell.Parse(line))
	switch {
	case matched:
		return hit
	case errors.Is(err, shell.ErrUnclear):
		return cloud
	case err != nil:
		t.Errorf("%q on %q: %v is no ErrUnclear", rule, line, err)
	}
	return miss
}
