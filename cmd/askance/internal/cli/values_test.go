package cli_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
)

// Values of flags are checked before a call is looked up: this test has no server.
func TestValuesAreCheckedFirst(t *testing.T) {
	cleanEnvironment(t)
	for args, want := range map[string]string{
		"approve c --remember --scope nope":        "--scope is",
		"approve c --remember --until soon":        "--until is",
		"approve c --remember --budget lots":       "--budget is",
		"approve c --remember --uses many":         `--uses is "many"`,
		"approve c --scope session":                "pass --remember as well",
		"approve c d --digest sha256:00":           "--digest is for one call",
		"edit c --args [1]":                        "are not a JSON object",
		"edit c --args {":                          "are not a JSON object",
		"respond c":                                "--output is missing",
		"resolve c":                                "--outcome is missing",
		"resolve c --outcome done":                 `--outcome "done": use happened, did_not_happen or run_again`,
		"resolve c --outcome happened":             `--output is missing: pass the result that the model gets, or --output ""`,
		"resolve c --outcome run_again --output x": "--output is for --outcome happened",
		"delegate": "expected one call",
	} {
		words := append(strings.Fields(args), "--data", t.TempDir())
		if r := fails(t, cli.ExitUsage, want, words...); strings.Contains(r.err, "journal") || r.out != "" {
			t.Errorf("%s looked for the call first:\n%s%s", args, r.out, r.err)
		}
	}
}
