package shell_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/askance-dev/askance/permission/shell"
)

// Lines that look as if an allow rule covered them and do more than it says, and
// everyday lines beside them that it does cover; see testdata/README.md.
func TestAllows(t *testing.T) {
	f, err := os.Open("testdata/allows.jsonl")
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
		got := "asked"
		c := shell.Parse(row.Line).Cover(patterns(t, row.Rule))
		if c.Covered {
			got = "covered"
		}
		if got != row.Want {
			t.Errorf("%q on %q: %s, want: %s: %+v", row.Rule, row.Line, got, row.Want, c)
		}
	}
	if n < 100 {
		t.Errorf("only %d rows were read", n)
	}
}

// Arguments by which a program that only prints does more.
func TestNotReadOnly(t *testing.T) {
	for _, line := range []string{
		"less -p 'x\n!touch PWNED\n' f", "less -pX f", "less --pattern=x f", "more -p '!touch' f",
		"git branch -quorigin/main", "git branch -vuorigin/main", "git branch -qtx",
		"git remote show evil.com:x", "git remote show ssh://evil.com/secret", "git remote show user@evil.com",
	} {
		if shell.Parse(line).ReadOnly() {
			t.Errorf("%q is read-only", line)
		}
	}
	for _, line := range []string{"less -N f", "more f", "git branch -q", "git branch -vv", "git remote show origin"} {
		if l := shell.Parse(line); !l.ReadOnly() {
			t.Errorf("%q is not read-only: %v", line, l.Reasons)
		}
	}
}
