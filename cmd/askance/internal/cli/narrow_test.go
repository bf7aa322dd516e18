package cli_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/internal/termtest"
)

// On a narrow terminal a list omits columns, and every call still takes one line.
func TestNarrowList(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "call_1", "boss", `{}`)
	s.propose("r2", "toolu_01ABCDEFGH", "pay", `{"cents":500}`)
	for width, want := range map[int]string{
		60:  "ID STATUS DUE SUMMARY",
		70:  "ID STATUS DUE AGE TOOL SUMMARY",
		120: "ID STATUS DUE AGE AGENT TOOL RULE SUMMARY",
	} {
		x := termtest.Open(t, width, 20, exec.CommandContext(t.Context(), os.Args[0], "list", "--data", s.data))
		screen := x.See("call_1", "toolu_01ABCDEFGH")
		x.Ends(cli.ExitOK)
		lines := strings.Split(strings.TrimRight(screen, " \n"), "\n")
		if got := strings.Join(strings.Fields(lines[0]), " "); got != want || len(lines) != 3 {
			t.Errorf("%d columns show %q in %d lines, want %q:\n%s", width, got, len(lines), want, screen)
		}
	}
}

// On a narrow terminal a row continues below its text, not below its label.
func TestNarrowRows(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	x := termtest.Open(t, 44, 30, exec.CommandContext(t.Context(), os.Args[0], "status", "--data", s.data))
	screen := x.See("durability", "calls")
	x.Ends(cli.ExitOK)
	_, row, _ := strings.Cut(screen, "  durability ")
	lines := strings.Split(row, "\n")
	if indent := strings.Repeat(" ", 13); !strings.HasPrefix(lines[1], indent) || strings.HasPrefix(lines[1], indent+" ") {
		t.Errorf("the row continues as %q:\n%s", lines[1], screen)
	}
}

// What doctor finds continues below itself on a narrow terminal.
func TestNarrowDoctor(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	x := termtest.Open(t, 70, 60, exec.CommandContext(t.Context(), os.Args[0], "doctor", "--data", s.data))
	screen := x.See("login", "disk", "warning")
	if _, fix, _ := strings.Cut(screen, "→ create logins"); !strings.HasPrefix(strings.Split(fix, "\n")[1], strings.Repeat(" ", 22)) {
		t.Errorf("a hint does not continue below itself:\n%s", screen)
	}
}

// A help text fits the terminal.
func TestNarrowHelp(t *testing.T) {
	cleanEnvironment(t)
	x := termtest.Open(t, 70, 60, exec.CommandContext(t.Context(), os.Args[0], "open", "--help"))
	screen := x.See("Usage:", "--output")
	x.Ends(cli.ExitOK)
	if _, flag, _ := strings.Cut(screen, "  --context string"); !strings.HasPrefix(strings.Split(flag, "\n")[1], strings.Repeat(" ", 20)) {
		t.Errorf("a flag does not continue below its text:\n%s", screen)
	}
}

// No command waits for a terminal that does not reply to questions.
func TestCommandAsksTerminalNothing(t *testing.T) {
	cleanEnvironment(t)
	x := termtest.Open(t, 80, 20, exec.CommandContext(t.Context(), os.Args[0], "version"))
	x.See("askance")
	x.Ends(cli.ExitOK)
	if strings.Contains(x.Raw(), "\x1b") {
		t.Errorf("askance version sent %q", x.Raw())
	}
}

// The names that a list prints for other commands each mean one call, even if ids repeat.
func TestListedNamesAreAddresses(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "call_1", "boss", `{}`)
	s.propose("r2", "call_1", "pay", `{"cents":500}`)
	at := []string{"--data", s.data}
	out := ok(t, append([]string{"list", "--tool", "pay", "-o", "name"}, at...)...)
	if out != "s1/r2/call_1\n" {
		t.Errorf("list -o name printed %q", out)
	}
	ok(t, append([]string{"approve", strings.TrimSpace(out), "--yes", "--as", "ann"}, at...)...)
}

func TestHelpOfUnknownCommand(t *testing.T) {
	cleanEnvironment(t)
	fails(t, cli.ExitUsage, `unknown command "aprove" for askance; did you mean approve?`, "help", "aprove")
	fails(t, cli.ExitUsage, `unknown command "lnt" for askance policy; did you mean lint?`, "help", "policy", "lnt")
	if out := ok(t, "help", "policy", "lint"); !strings.Contains(out, "askance policy lint [FILE...]") {
		t.Errorf("help policy lint printed\n%s", out)
	}
}

// A prefix that is too short names no call, and the error says so.
func TestShortBeginningOfAnID(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "call_1", "boss", `{}`)
	fails(t, cli.ExitNotFound, "give at least the first 4 letters of an id", "show", "cal", "--data", s.data)
}

// On a terminal that is too narrow for its columns, a table lists the cells of each row below each
// other, and no line is longer than the terminal.
func TestNarrowTables(t *testing.T) {
	cleanEnvironment(t)
	s := serveRules(t, memoryRules)
	at := []string{"--data", s.data, "--as", "ann"}
	s.propose("r1", "c1", "pay", `{"cents":500}`)
	ok(t, append([]string{"approve", "c1", "--yes", "--remember", "--uses", "2"}, at...)...)
	for _, tc := range []struct {
		width       int
		command     string
		want, lacks []string
	}{
		{60, "standing list", []string{"ID         sta_", "GRANTED BY ann", "UNTIL", "LIMITS"}, []string{"STATE"}},
		{200, "standing list", []string{"STATE ", "GRANTED BY "}, nil},
		{60, "load", []string{"ann", "RESPONSES 1", "APPROVED  100%"}, []string{"REVIEWER"}},
		{80, "load", []string{"REVIEWER  OPEN  RESPONSES  APPROVED"}, []string{"LAST MIN"}},
	} {
		x := termtest.Open(t, tc.width, 40, exec.CommandContext(t.Context(), os.Args[0], append(strings.Fields(tc.command), at...)...))
		screen := x.See(tc.want...)
		x.Ends(cli.ExitOK)
		for _, bad := range tc.lacks {
			if strings.Contains(screen, bad) {
				t.Errorf("%s at %d columns has %q:\n%s", tc.command, tc.width, bad, screen)
			}
		}
		for line := range strings.Lines(x.Raw()) {
			if w := ansi.StringWidth(strings.TrimRight(line, "\r\n")); w > tc.width {
				t.Errorf("%s at %d columns has a line of %d:\n%s", tc.command, tc.width, w, line)
			}
		}
	}
}
