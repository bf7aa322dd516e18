package shell_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/askance-dev/askance/permission/shell"
)

// Ways around a deny rule, as people and agents try them, and lines that only look similar; see
// testdata/README.md.
func TestDodges(t *testing.T) {
	n := eachRow(t, "testdata/dodges.jsonl", func(rule, line, want string) {
		if got := answer(t, rule, line); got != want {
			t.Errorf("%q on %q: %s, want: %s", rule, line, got, want)
		}
	})
	if n < 1800 {
		t.Errorf("only %d rows were read", n)
	}
}

// eachRow calls f for each row of a file and returns their number. A file that cannot be read
// completely fails the test.
func eachRow(t *testing.T, name string, f func(rule, line, want string)) (n int) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // only read
	in := bufio.NewScanner(file)
	for ; in.Scan(); n++ {
		var row struct{ Rule, Line, Want string }
		if err := json.Unmarshal(in.Bytes(), &row); err != nil {
			t.Fatalf("%s:%d: %v", name, n+1, err)
		}
		f(row.Rule, row.Line, row.Want)
	}
	if err := in.Err(); err != nil {
		t.Fatalf("%s:%d: %v", name, n+1, err)
	}
	return n
}

// answer returns the result of a deny rule for a line.
func answer(t *testing.T, rule, line string) string {
	t.Helper()
	matched, err := patterns(t, rule)[0].Matches(shell.Parse(line))
	switch {
	case matched:
		return hit
	case errors.Is(err, shell.ErrUnclear):
		return cloud
	case err != nil:
		t.Errorf("%q on %q: %v is not ErrUnclear", rule, line, err)
	}
	return miss
}
