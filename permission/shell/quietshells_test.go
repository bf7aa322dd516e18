package shell_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/permission/shell"
)

// quietPieces are pieces that shells could read differently in lines that are read-only but not
// static.
var quietPieces = []string{
	" ", " ", " ", "x", "E", "x.txt", "'", `"`, "'x y'", `"$X"`, "$X", "$((1+2))", "$(( 1 ))", "$'x'", "$'", `$'\n'`, `\`, "{a,b}", "{", "}", ",",
	"*", "?", "[", "]", "<<E", "<<'E'", "<<-E", "\nE\n", "\nE", "\n\tE\n", "\n", "\t", "<<< x", "<<<", "< x.txt", "<x.txt ", "2>&1", " >/dev/null", "|", " | ", " |& ", "|&",
	";", " && ", " || ", "&", "#", " #", "=", "$", "!", "(", ")", "`", "touch PWNED", "\ntouch PWNED\n", ";rm x.txt;", "$(rm x)", "cat", "ls ", "echo ", "grep x ",
}

// quietStarts are the beginnings of the lines.
var quietStarts = []string{"echo ", "cat ", "ls ", "cat <<E", "cat <<'E'\n", "cat <<-E\n", "echo $'", "ls |& cat", "cat < x.txt", "cat <<< ", "echo {", "echo $((1+", "{ ls; ", "grep x "}

// Read-only lines run only programs that print, in both shells.
func TestQuietLinesInRealShells(t *testing.T) {
	o := newOracle(t)
	harmless := strings.Fields("ls cat grep")
	quiet, pieces := 0, rapid.SampledFrom(quietPieces)
	rapid.Check(t, func(rt *rapid.T) {
		for range 12 {
			line := rapid.SampledFrom(quietStarts).Draw(rt, "start") + strings.Join(rapid.SliceOfN(pieces, 1, 7).Draw(rt, "pieces"), "")
			if !safe(line) || !shell.Parse(line).ReadOnly() {
				continue
			}
			quiet++
			for _, sh := range realShells {
				got := o.run(t, sh, line)
				if len(got.files) > 0 || slices.ContainsFunc(got.runs, func(argv []string) bool { return !slices.Contains(harmless, argv[0]) }) {
					rt.Fatalf("%s ran %q and left %q: %q is read-only", sh, got.runs, got.files, line)
				}
			}
		}
	})
	t.Logf("%d lines were read-only and run", quiet)
	if quiet < 50 {
		t.Errorf("only %d lines were read-only, too few to prove anything", quiet)
	}
}
