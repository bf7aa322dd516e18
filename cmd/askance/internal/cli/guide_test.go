package cli_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/askance-dev/askance/internal/clitest"
)

// TestGuide does what permission/GUIDE.md and then COOKBOOK.md say, in their
// order, in an empty folder. It writes the files that a reader is told to save,
// runs every command, and compares what each prints with what the page shows
// (-update writes that).
func TestGuide(t *testing.T) {
	root := filepath.Join(clitest.Testdata, "../../../../..")
	cleanEnvironment(t)
	g := &guide{t: t, root: root, bin: t.TempDir()}
	t.Setenv("PATH", g.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("ASKANCE_LISTEN", "127.0.0.1:0") // the usual port may be in use here
	for _, name := range []string{"permission/GUIDE.md", "permission/COOKBOOK.md"} {
		g.commands, g.files = 0, 0
		page := filepath.Join(root, name)
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		got := g.follow(string(text))
		if *clitest.Update {
			write(t, page, got)
			continue
		}
		if got != string(text) {
			t.Errorf("%s shows other output than the commands print (go test -update rewrites it)\n%s", name, firstDifference(string(text), got))
		}
		if g.commands < 11 || g.files < 4 {
			t.Errorf("found %d commands and %d files in %s; the page has more, so the search is broken", g.commands, g.files, name)
		}
	}
}

// guide is a walk through the pages.
type guide struct {
	t               *testing.T
	root, bin       string
	commands, files int
}

var saveAs = regexp.MustCompile("Save (?:this|it) as `([a-z.-]+)`")

// follow does what the page says and returns it with the output that came.
func (g *guide) follow(text string) string {
	g.t.Helper()
	var out strings.Builder
	var fence, save string
	var block []string
	for line := range strings.Lines(text) {
		switch bare := strings.TrimSpace(line); {
		case fence == "" && strings.HasPrefix(line, "```"):
			fence, block = strings.TrimPrefix(bare, "```"), nil
			out.WriteString(line)
		case fence != "" && bare == "```":
			g.block(&out, fence, &save, block)
			fence = ""
			out.WriteString(line)
		case fence != "":
			block = append(block, line)
		default:
			if m := saveAs.FindStringSubmatch(line); m != nil {
				save = m[1]
			}
			out.WriteString(line)
		}
	}
	return out.String()
}

// block does what one block says.
func (g *guide) block(out *strings.Builder, kind string, save *string, lines []string) {
	switch kind {
	case "console":
		for _, line := range lines {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				out.WriteString(line)
				out.WriteString(g.run(strings.TrimSpace(command)))
			}
		}
		return
	case "sh":
		for _, line := range lines {
			g.run(strings.TrimSpace(line))
		}
	case "yaml", "json":
		if *save != "" {
			write(g.t, *save, strings.Join(lines, ""))
			g.files++
			*save = ""
		}
	}
	out.WriteString(strings.Join(lines, ""))
}

var exitComment = regexp.MustCompile(`\s+# exit code (\d+)$`)

// run runs one command and returns what it printed.
func (g *guide) run(command string) string {
	g.t.Helper()
	g.commands++
	if strings.HasPrefix(command, "go install ") {
		g.install(command)
		return ""
	}
	if strings.HasPrefix(command, "askance serve ") {
		g.serve(command)
		return ""
	}
	want := 0
	if m := exitComment.FindStringSubmatch(command); m != nil {
		if _, err := fmt.Sscan(m[1], &want); err != nil {
			g.t.Fatal(err)
		}
		command = strings.TrimSuffix(command, m[0])
	}
	c := exec.CommandContext(g.t.Context(), "sh", "-c", command)
	both, err := c.CombinedOutput()
	if code := c.ProcessState.ExitCode(); code != want {
		g.t.Errorf("%s: exit %d, want %d: %v\n%s", command, code, want, err, both)
	}
	return string(both)
}

// install makes sure that what the page installs is a program, and lets the test
// binary stand in for it: linking another one would take longer than all the
// rest (see TestMain).
func (g *guide) install(command string) {
	g.t.Helper()
	what := strings.TrimPrefix(command, "go install ")
	c := exec.CommandContext(g.t.Context(), "go", "list", "-f", "{{.Name}}", what)
	c.Dir = g.root
	if both, err := c.CombinedOutput(); err != nil || strings.TrimSpace(string(both)) != "main" {
		g.t.Fatalf("%s would install no program: %v\n%s", command, err, both)
	}
	self, err := os.Executable()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(g.bin, filepath.Base(what))); err != nil {
		g.t.Fatal(err)
	}
}

// serve starts a server, waits until it says what it serves, and stops it.
func (g *guide) serve(command string) {
	g.t.Helper()
	c := exec.CommandContext(g.t.Context(), "sh", "-c", "exec "+command)
	stdout, err := c.StdoutPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	var errs bytes.Buffer
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		g.t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	said := ""
	for lines.Scan() {
		if said += lines.Text() + "\n"; strings.Contains(said, "3 rules") {
			break
		}
	}
	_ = c.Process.Signal(syscall.SIGTERM) // it may have ended, which Wait tells
	if err := c.Wait(); err != nil || !strings.Contains(said, "3 rules") {
		g.t.Errorf("%s: %v\n%s%s", command, err, said, errs.String())
	}
}

// firstDifference shows where two texts begin to differ.
func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d:\n- %s\n+ %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines and %d", len(a), len(b))
}
