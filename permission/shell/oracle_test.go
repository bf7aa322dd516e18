package shell_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// oracle runs lines in real shells, in a temporary folder. PATH contains only stubs, which record
// their arguments and do nothing else, and the few real programs that run others.
type oracle struct {
	dir, bin, log string
}

// stubs are the programs that the lines of the tests use.
var stubs = strings.Fields("git touch ls cat grep rm tee sort npm make curl sudo foo a b")

// runners are real programs that are linked into the folder because they run others.
var runners = strings.Fields("sh bash dash env xargs nice timeout nohup find")

// realShells are the shells that run the lines.
var realShells = []string{"bash", "dash"}

func newOracle(t testing.TB) *oracle {
	t.Helper()
	top := t.TempDir()
	o := &oracle{dir: filepath.Join(top, "work"), bin: filepath.Join(top, "bin"), log: filepath.Join(top, "log")}
	for _, d := range []string{o.dir, o.bin} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range runners {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("this test compares with real shells and needs %s: on Debian install bash, dash, coreutils and findutils: %v", name, err)
		}
		if err := os.Symlink(path, filepath.Join(o.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	dash, err := exec.LookPath("dash")
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!%s\nprintf '%%s\\0' \"${0##*/}\" \"$#\" \"$@\" >>'%s'\n", dash, o.log)
	for _, name := range stubs {
		if err := os.WriteFile(filepath.Join(o.bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// seen is what a line did.
type seen struct {
	runs  [][]string // the programs that ran, with their arguments
	files []string   // the files that the line added to the folder
	said  string     // standard error
}

// safe reports whether a text may be run: everything that it does must stay in the folder, so no
// path leaves it and nothing signals other processes.
func safe(line string) bool {
	if len(line) > 2000 || strings.ContainsAny(line, "~\x00") || strings.Contains(line, "..") {
		return false
	}
	for _, word := range []string{"kill", "ulimit", "cd", "pushd", "enable", "HOME", "OLDPWD", "PWD", "BASH", "SHELL", "PATH", "_"} {
		if strings.Contains(strings.ReplaceAll(line, "PWNED", ""), word) {
			return false
		}
	}
	rest := strings.NewReplacer("/dev/null", "", " ./", " ").Replace(line)
	return !strings.Contains(rest, "/") && !strings.Contains(rest, `\x2f`) && !strings.Contains(rest, `\57`) && !strings.Contains(rest, `\057`)
}

// run runs a line with limits of time, memory and file size.
func (o *oracle) run(t testing.TB, shell, line string) seen {
	t.Helper()
	if !safe(line) {
		t.Fatalf("this line may leave the folder and is not run: %q", line)
	}
	o.clean(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var said strings.Builder
	const limits = `ulimit -t 2; ulimit -f 64; ulimit -n 64; ulimit -v 1000000; exec "$0" -c "$1"`
	cmd := exec.CommandContext(ctx, filepath.Join(o.bin, "dash"), "-c", limits, filepath.Join(o.bin, shell), line)
	cmd.Dir, cmd.Env, cmd.Stderr = o.dir, []string{"PATH=" + o.bin, "LC_ALL=C.UTF-8"}, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	group := cmd.Process.Pid
	err := cmd.Wait()
	_ = syscall.Kill(-group, syscall.SIGKILL) // also kills background processes
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatalf("%s: %v", shell, err)
	}
	return seen{runs: o.read(t), files: o.files(t), said: said.String()}
}

// clean empties the folder except for a few files that globs can find.
func (o *oracle) clean(t testing.TB) {
	t.Helper()
	for _, dir := range []string{o.dir, o.log} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range given {
		if err := os.WriteFile(filepath.Join(o.dir, f), []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// given are the files that exist in the folder when a line runs.
var given = []string{"--output=PWNED", "x.txt"}

func (o *oracle) files(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !slices.Contains(given, e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

// read reads the log: name, number of arguments, arguments.
func (o *oracle) read(t testing.TB) [][]string {
	t.Helper()
	text, err := os.ReadFile(o.log)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	var runs [][]string
	for len(words) >= 2 {
		n, err := strconv.Atoi(words[1])
		if err != nil || len(words) < n+2 {
			t.Fatalf("the log cannot be read: %q", text)
		}
		runs = append(runs, append([]string{words[0]}, words[2:n+2]...))
		words = words[n+2:]
	}
	return runs
}

// ran reports whether a program ran.
func (s seen) ran(program string) bool {
	return slices.ContainsFunc(s.runs, func(argv []string) bool { return argv[0] == program })
}

// The oracle must see what runs, otherwise the tests that use it prove nothing.
func TestOracleSees(t *testing.T) {
	o := newOracle(t)
	for _, sh := range realShells {
		got := o.run(t, sh, "git status 'a b'; touch PWNED | foo > made")
		if len(got.runs) != 3 || !slices.Equal(got.runs[0], []string{"git", "status", "a b"}) || !got.ran("touch") || !got.ran("foo") {
			t.Errorf("%s: saw %q", sh, got.runs)
		}
		if !slices.Equal(got.files, []string{"made"}) {
			t.Errorf("%s: files %q", sh, got.files)
		}
		if got := o.run(t, sh, "nothing here"); !strings.Contains(got.said, "not found") {
			t.Errorf("%s: an unknown program is not reported: %q", sh, got.said)
		}
	}
}

func TestUnsafeLinesAreNotRun(t *testing.T) {
	for _, line := range []string{"touch /etc/x", "touch ../x", "echo > ~/x", "cd x", "kill -9 -1", `$'\x2fbin\x2fls'`} {
		if safe(line) {
			t.Errorf("%q counts as safe", line)
		}
	}
}
