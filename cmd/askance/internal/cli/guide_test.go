package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/clitest"
)

// TestTutorials follows each tutorial in an empty folder: it writes the files that a reader is
// told to save, runs every command in order, and compares the output with the page (-update
// rewrites the page). The cookbook continues in the folder of the policy tutorial.
func TestTutorials(t *testing.T) {
	root := filepath.Join(clitest.Testdata, "../../../../..")
	pages, err := filepath.Glob(filepath.Join(root, "docs/tutorials/*.md"))
	if err != nil || len(pages) < 3 {
		t.Fatalf("found %d tutorials: %v", len(pages), err)
	}
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			cleanEnvironment(t)
			g := &guide{t: t, root: root, bin: t.TempDir()}
			t.Setenv("PATH", g.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			t.Setenv("ASKANCE_LISTEN", "127.0.0.1:0") // the usual ports may be in use here
			t.Setenv("ASKANCE_HTTP", "127.0.0.1:0")
			g.compare(page, 5, 1)
			if filepath.Base(page) == "policy.md" {
				g.compare(filepath.Join(root, "permission/COOKBOOK.md"), 11, 4)
			}
		})
	}
}

// tutorialPatience is how long a tutorial waits for an expected result.
const tutorialPatience = 2 * time.Minute

// guide follows pages of the documentation.
type guide struct {
	t               *testing.T
	root, bin       string
	commands, files int
	others          []*terminal
	url             string // the server that the page started
}

// terminal is a terminal in which a command of a page keeps running.
type terminal struct {
	cmd *exec.Cmd
	out *lines
}

// lines collects what a command has printed so far.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// compare follows a page and compares it with the output.
func (g *guide) compare(page string, commands, files int) {
	g.t.Helper()
	g.commands, g.files = 0, 0
	text, err := os.ReadFile(page)
	if err != nil {
		g.t.Fatal(err)
	}
	got := g.follow(string(text))
	g.closeTerminals()
	if *clitest.Update {
		write(g.t, page, got)
		return
	}
	if got != string(text) {
		g.t.Errorf("%s shows other output than the commands print (go test -update rewrites it)\n%s", page, firstDifference(string(text), got))
	}
	if g.commands < commands || g.files < files {
		g.t.Errorf("found only %d commands and %d files in %s, so the search is broken", g.commands, g.files, page)
	}
}

var (
	saveAs        = regexp.MustCompile("Save (?:this|it) as `([a-z./-]+)`")
	otherTerminal = regexp.MustCompile(`In a (?:second|third) terminal`)
	otherPrints   = regexp.MustCompile("terminal prints `([^`]+)`")
	loopback      = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
)

// follow carries out the page and returns it with the actual output.
func (g *guide) follow(text string) string {
	g.t.Helper()
	var out strings.Builder
	var fence, save string
	other := false
	var block []string
	for line := range strings.Lines(text) {
		switch bare := strings.TrimSpace(line); {
		case fence == "" && strings.HasPrefix(line, "```"):
			fence, block = strings.TrimPrefix(bare, "```"), nil
			out.WriteString(line)
		case fence != "" && bare == "```":
			g.block(&out, fence, &save, block, other)
			fence, other = "", false
			out.WriteString(line)
		case fence != "":
			block = append(block, line)
		default:
			if m := saveAs.FindStringSubmatch(line); m != nil {
				save = m[1]
			}
			other = other || otherTerminal.MatchString(line)
			if m := otherPrints.FindStringSubmatch(line); m != nil {
				g.await("a terminal prints "+m[1], func() bool {
					return slices.ContainsFunc(g.others, func(o *terminal) bool { return strings.Contains(o.out.String(), m[1]) })
				})
			}
			out.WriteString(line)
		}
	}
	return out.String()
}

// block carries out one block.
func (g *guide) block(out *strings.Builder, kind string, save *string, block []string, other bool) {
	g.t.Helper()
	switch kind {
	case "console":
		g.session(out, block)
		return
	case "sh":
		for _, line := range block {
			if other {
				g.open(strings.TrimSpace(line))
			} else {
				g.run(strings.TrimSpace(line))
			}
		}
	default:
		if *save != "" {
			if err := os.MkdirAll(filepath.Dir(*save), 0o750); err != nil {
				g.t.Fatal(err)
			}
			write(g.t, *save, strings.Join(block, ""))
			g.files++
			*save = ""
		}
	}
	out.WriteString(strings.Join(block, ""))
}

// session runs the commands of a block. Output with an ellipsis is kept if it matches.
func (g *guide) session(out *strings.Builder, block []string) {
	g.t.Helper()
	for i, line := range block {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		end := i + 1
		for end < len(block) && !strings.HasPrefix(block[end], "$ ") {
			end++
		}
		shown, got := strings.Join(block[i+1:end], ""), g.run(strings.TrimSpace(command))
		if pattern := strings.ReplaceAll(regexp.QuoteMeta(shown), "…", "(?s:.*)"); strings.Contains(shown, "…") && regexp.MustCompile("^"+pattern+"$").MatchString(got) {
			got = shown
		}
		out.WriteString(line + got)
	}
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
	want := 0
	if m := exitComment.FindStringSubmatch(command); m != nil {
		if _, err := fmt.Sscan(m[1], &want); err != nil {
			g.t.Fatal(err)
		}
		command = strings.TrimSuffix(command, m[0])
	}
	var both []byte
	try := func() bool {
		c := g.shell(command)
		both, _ = c.CombinedOutput() // only the exit code matters
		if c.ProcessState.ExitCode() == want {
			return true
		}
		if !strings.HasPrefix(command, "askance approve") { // the request that it approves may come a moment later
			g.t.Fatalf("%s: exit %d, want %d\n%s", command, c.ProcessState.ExitCode(), want, both)
		}
		return false
	}
	g.await(command, try)
	if g.url != "" {
		both = bytes.ReplaceAll(both, []byte(g.url), []byte("http://127.0.0.1:8787"))
	}
	return string(both)
}

// shell prepares a command of the page.
func (g *guide) shell(command string) *exec.Cmd {
	g.t.Helper()
	if strings.Contains(command, "go run ./shop") {
		command = strings.ReplaceAll(command, "go run ./shop", g.build("shop"))
	}
	if g.url != "" {
		command = strings.ReplaceAll(command, "http://127.0.0.1:8787", g.url)
	}
	return exec.CommandContext(g.t.Context(), "sh", "-c", command)
}

// build compiles a program that the page wrote, as if it were in the repository.
func (g *guide) build(folder string) string {
	g.t.Helper()
	root, err := filepath.Abs(g.root)
	if err != nil {
		g.t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		g.t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(root, folder, "main.go"): filepath.Join(here, folder, "main.go"),
	}})
	if err != nil {
		g.t.Fatal(err)
	}
	file, program := filepath.Join(g.t.TempDir(), "overlay.json"), filepath.Join(g.t.TempDir(), folder)
	write(g.t, file, string(overlay))
	c := exec.CommandContext(g.t.Context(), "go", "build", "-overlay", file, "-o", program, "./"+folder)
	c.Dir = root
	if both, err := c.CombinedOutput(); err != nil {
		g.t.Fatalf("go build ./%s: %v\n%s", folder, err, both)
	}
	return program
}

// open runs a command in a new terminal, which stays open until the page ends.
func (g *guide) open(command string) {
	g.t.Helper()
	g.commands++
	c := g.shell("exec " + command)
	o := &terminal{cmd: c, out: &lines{}}
	c.Stdout, c.Stderr = o.out, o.out
	c.Cancel, c.WaitDelay = func() error { return c.Process.Signal(syscall.SIGTERM) }, tutorialPatience
	if err := c.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.others = append(g.others, o)
	if !strings.HasPrefix(command, "askance serve ") {
		return
	}
	g.await("the server", func() bool {
		g.url = loopback.FindString(o.out.String())
		return g.url != ""
	})
}

// closeTerminals stops the commands that the page left running, the newest first.
func (g *guide) closeTerminals() {
	g.t.Helper()
	for _, o := range slices.Backward(g.others) {
		if strings.Contains(o.cmd.Args[2], "exec askance ") { // the others end by themselves
			_ = o.cmd.Process.Signal(syscall.SIGTERM)
		}
		if err := o.cmd.Wait(); err != nil {
			g.t.Errorf("%s: %v\n%s", o.cmd.Args, err, o.out)
		}
	}
	g.others, g.url = nil, ""
}

// await waits until holds returns true, or fails with the output of the terminals.
func (g *guide) await(what string, holds func() bool) {
	g.t.Helper()
	for end := time.Now().Add(tutorialPatience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			shown := ""
			for _, o := range g.others {
				shown += o.out.String()
			}
			g.t.Fatalf("timed out waiting for: %s\n%s", what, shown)
		}
	}
}

// install checks that the page installs a program, and lets the test binary stand in for it.
// Linking another binary would take longer than everything else (see TestMain).
func (g *guide) install(command string) {
	g.t.Helper()
	what := strings.TrimPrefix(command, "go install ")
	c := exec.CommandContext(g.t.Context(), "go", "list", "-f", "{{.Name}}", what)
	c.Dir = g.root
	if both, err := c.CombinedOutput(); err != nil || strings.TrimSpace(string(both)) != "main" {
		g.t.Fatalf("%s would not install a program: %v\n%s", command, err, both)
	}
	self, err := os.Executable()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(g.bin, filepath.Base(what))); err != nil {
		g.t.Fatal(err)
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
