package shell_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/permission/shell"
)

// If a line writes more files than are checked, it may run one of them.
func TestManyWrittenFiles(t *testing.T) {
	var line strings.Builder
	for i := range 200 {
		fmt.Fprintf(&line, "echo x >f%d;", i)
	}
	line.WriteString("sh f7")
	deny := patterns(t, "rm:*")[0]
	if matched, err := deny.Matches(shell.Parse(line.String())); matched || err == nil {
		t.Errorf("%v, %v, want unclear", matched, err)
	}
}

// Copies in an order that takes many searches to follow are unclear.
func TestCopiesBackwards(t *testing.T) {
	var line strings.Builder
	line.WriteString("curl -o f0 u; ")
	for i := 50; i > 0; i-- {
		fmt.Fprintf(&line, "cp f%d f%d; ", i-1, i)
	}
	deny := patterns(t, "rm:*")[0]
	if matched, err := deny.Matches(shell.Parse(line.String())); matched || err == nil {
		t.Errorf("%v, %v, want unclear", matched, err)
	}
}

// A file that a line writes and runs is seen behind any number of commands.
func TestWrittenBehindManyCommands(t *testing.T) {
	deny := patterns(t, "rm:*")[0]
	for _, text := range []string{"printf 'r%s y' m > s; sh s", "curl -o s x; sh s", "(curl -o s x); sh s"} {
		if matched, err := deny.Matches(shell.Parse(strings.Repeat("true; (true); ", 60) + text)); !matched && err == nil {
			t.Errorf("60 commands and %q: does not match", text)
		}
	}
}

// A text of printf that counts as certain is what bash and dash print.
func TestPrintfIsWhatShellsPrint(t *testing.T) {
	parts := strings.Fields(`%s %b %c %d %5s %-5s %.2s %.*s %*s %-*d %03d %% r m \n \\ \162 \0162 \562 \\562 %.s %5.1s %.3b %5c %02s %'d %hs %ls %i %q %n % %5 \c %*.*s %.0s %5% %*b 5`)
	args := []string{"", "r", "rm", "0", "1", "2", "-3", "12", "007", "0x1", "'a", `\162`, `\0162m`, `\\0162`, `\562`, `\c`, `\x72`, `\"`, "é", "x y", "-0", "+1", " 1", "1z", `\`, `\0`}
	rapid.Check(t, func(t *rapid.T) {
		line := "printf"
		for _, w := range append([]string{strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 1, 3).Draw(t, "format"), "")}, rapid.SliceOfN(rapid.SampledFrom(args), 0, 3).Draw(t, "arguments")...) {
			line += " '" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		commands := shell.Parse(line).Commands
		texts, exact := commands[0].Printed()
		if !exact {
			return
		}
		text := texts[len(commands[0].Argv)-1] // it follows the arguments
		for _, name := range []string{"bash", "dash"} {
			out, err := exec.Command(name, "-c", line).Output()
			if got := string(out); got != text {
				t.Errorf("%s prints %q for %s (%v), want %q", name, got, line, err, text)
			}
		}
	})
}
