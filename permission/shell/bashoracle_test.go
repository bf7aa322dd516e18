package shell_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/askance-dev/askance/permission/shell"
)

// lookups keeps bash from starting programs: PATH is an empty folder, and bash passes each
// program that it does not find to a function, which records the arguments.
type lookups struct{ bash, dir, log, said, rc string }

// record is this function. The limits end endless loops and stop files from growing, and FUNCNEST
// limits functions that call themselves.
const record = `ulimit -t 1 -f 32 -n 64 -v 1000000; FUNCNEST=20
command_not_found_handle() { builtin printf '%s\0' "$#" "$@" >>"$LOOKUPS"; }
enable -n kill enable cd pushd popd dirs pwd ulimit umask history fc suspend logout
`

func newLookups(t testing.TB) *lookups {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatalf("this test compares with bash: %v", err)
	}
	top := t.TempDir()
	o := &lookups{bash: bash, dir: filepath.Join(top, "work"), log: filepath.Join(top, "log"), said: filepath.Join(top, "said"), rc: filepath.Join(top, "rc")}
	if err := errors.Join(os.Mkdir(filepath.Join(top, "none"), 0o700), os.WriteFile(o.rc, []byte(record), 0o600)); err != nil {
		t.Fatal(err)
	}
	return o
}

// run returns the arguments of the programs that bash looks up. If a line does not end in time,
// what it did until then counts.
func (l *lookups) run(t testing.TB, line string) [][]string {
	t.Helper()
	if err := errors.Join(os.RemoveAll(l.log), os.RemoveAll(l.dir), os.Mkdir(l.dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.bash, "-c", line)
	cmd.Args[0], cmd.Dir = "bash", l.dir
	cmd.Env = []string{"PATH=" + filepath.Join(filepath.Dir(l.log), "none"), "LC_ALL=C.UTF-8", "BASH_ENV=" + l.rc, "LOOKUPS=" + l.log}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	said, err := os.Create(l.said) // a pipe would wait for background processes
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = said.Close() }() // bash has written it
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // also kills background processes
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	text, err := os.ReadFile(l.said)
	if err != nil {
		t.Fatal(err)
	}
	runs := l.read(t)
	for _, m := range notExecuted.FindAllStringSubmatch(string(text), -1) {
		runs = append(runs, []string{m[1]})
	}
	return runs
}

// notExecuted is the error of exec for a program that it does not find.
var notExecuted = regexp.MustCompile(`: exec: ([A-Za-z0-9.+-]+): not found`)

func (l *lookups) read(t testing.TB) (runs [][]string) {
	t.Helper()
	text, err := os.ReadFile(l.log)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Split(string(text), "\x00")
	for len(words) > 1 {
		n, err := strconv.Atoi(words[0])
		if err != nil || n+1 >= len(words) {
			return runs // two programs wrote at the same time, or the limit cut off the end
		}
		runs = append(runs, words[1:n+1])
		words = words[n+1:]
	}
	return runs
}

// mayLookUp reports whether a line may be given to bash here: it names no path and cannot start
// an unlimited number of processes.
func mayLookUp(line string) bool {
	forks := strings.Contains(line, "()") || strings.Contains(line, "function")
	return safe(line) && !(forks && strings.ContainsAny(line, "|&")) && !strings.Contains(line, "LOOKUPS") && !strings.Contains(line, "trap")
}

// checkSeen checks that the analysis saw every program that bash starts, with its arguments, or
// reports the line as unclear.
func checkSeen(t testing.TB, o *lookups, line string) (ran int) {
	t.Helper()
	l := shell.Parse(line)
	if l.Hidden != nil || l.Unread() != nil || !mayLookUp(line) {
		return 0
	}
	all := slices.Concat(l.Commands, l.Nested)
	for _, argv := range o.run(t, line) {
		if len(argv) == 0 || !plainName.MatchString(argv[0]) {
			continue
		}
		ran++
		p, err := shell.Compile(argv[0] + ":*")
		if err != nil {
			t.Fatal(err)
		}
		matched, err := p.Matches(l)
		if err != nil { // the analysis reports that the line is unclear
			continue
		}
		if !matched {
			t.Errorf("bash starts %q in %q, but the analysis does not see the program: %q", argv, line, words(all))
			continue
		}
		if !slices.ContainsFunc(all, func(c shell.Command) bool { return mayBe(c.Argv, argv) }) && !hasText(all) && !evaluatesIndex.MatchString(line) && !isDenied(t, l, argv) {
			t.Errorf("bash starts %q in %q, but the analysis sees other arguments: %q", argv, line, words(all))
		}
	}
	return ran
}

// isDenied reports whether a rule with exactly these words matches the line, as it does if the
// analysis only knows a text that contains them.
func isDenied(t testing.TB, l *shell.Line, argv []string) bool {
	t.Helper()
	for _, arg := range argv {
		if !plainWord.MatchString(arg) {
			return false
		}
	}
	p, err := shell.Compile(strings.Join(argv, " "))
	if err != nil {
		t.Fatal(err)
	}
	matched, err := p.Matches(l)
	return matched || err != nil
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9.+=-]+$`)

// evaluatesIndex finds an index that arithmetic evaluates and whose words alone are known.
var evaluatesIndex = regexp.MustCompile("\\[[^\\]]*[`$]")

func words(commands []shell.Command) (all []string) {
	for _, c := range commands {
		all = append(all, c.String())
	}
	return all
}

var plainName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9.+-]*$`)

// mayBe reports whether arguments may come from the words. A word that is not fixed may be
// anything.
func mayBe(words []shell.Word, argv []string) bool {
	if len(words) == 0 {
		return len(argv) == 0
	}
	if words[0].Fixed {
		return len(argv) > 0 && argv[0] == words[0].Text && mayBe(words[1:], argv[1:])
	}
	for n := range len(argv) + 1 {
		if mayBe(words[1:], argv[n:]) {
			return true
		}
	}
	return false
}

// hasText reports whether a builtin runs a text of which only the words are known, or exec runs a
// program whose arguments the oracle does not see.
func hasText(commands []shell.Command) bool {
	return slices.ContainsFunc(commands, func(c shell.Command) bool {
		return len(c.Argv) > 0 && slices.Contains(strings.Fields("eval source . alias exec printf unset read test [ let declare typeset export local wait mapfile"), c.Argv[0].Text)
	})
}

// some returns every tenth command line of testdata/dodges.jsonl, because each starts bash.
func some(t testing.TB) []string {
	t.Helper()
	file, err := os.Open("testdata/dodges.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // only read
	var all []string
	in := bufio.NewScanner(file)
	for n := 0; in.Scan(); n++ {
		var row struct{ Line string }
		if n%10 != 0 {
			continue
		}
		if err := json.Unmarshal(in.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		all = append(all, row.Line)
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// FuzzBash looks for lines in which bash starts a program that the analysis does not see.
func FuzzBash(f *testing.F) {
	for _, line := range some(f) {
		f.Add(line)
	}
	for _, line := range odd {
		f.Add(line)
	}
	for i, j := range joins {
		f.Add(strings.ReplaceAll(j, "%b", ways[i%len(ways)]))
	}
	o := newLookups(f)
	f.Fuzz(func(t *testing.T, line string) { checkSeen(t, o, line) })
}

// odd are lines that a parser and bash could read differently.
var odd = []string{
	"`)`; rm -r etc", "a[1]=2 rm x", "a[1]+=2 b=(1 2) rm x", "ls\n)\nrm x", "a=(1) rm x", "echo ${x:-$(rm x)}", "echo $((`rm x`))", "time -p rm x", "! ! rm x", "coproc rm x",
	"if rm x; then :; fi", "for i in $(rm x); do :; done", "for ((i=$(rm x); i<1; i++)); do :; done", "case $(rm x) in *) rm y;; esac", "case x in x) rm a;& y) rm b;; esac",
	"select i in a; do rm x; break; done <<< 1", "[[ $(rm x) ]] && rm y", "(( $(rm x) ))", "{ rm x; } 2>&1", "cat <<E\n$(rm x)\nE", "cat <<-\tE\n\t$(rm x)\n\tE\nrm y",
	"cat <<'E'\n$(rm x)\nE\nrm y", "cat <<E | rm y\nx\nE", "<<E rm x\nE", "rm <<< x", "<&-rm x", ">&-rm x", "<& -rm x", "2>&-rm x", "<&-\"r\"m x", "{fd}>f rm x", "2>&1 rm x", "&>f rm x", "a=$(rm x) b=$(rm y)", "x=rm; $x y", "x=rm\n$x y",
	"echo \\\n; rm x", "rm#x y", "a #b\nrm x", "a;#b\nrm x", "'r'm x", "r$'\\x6d' x", "$'rm' x", "$'\\0'rm x", "$'r\\x00zz'm x", "$'\\562m' x", "$'\\U0'rm x", "$\"rm\" x", "{rm,x}", "r{m,n} x", "rm {a,b}{c,d}", "rm {0},}", "env {a=1},rm} x", "rm {1..3}", "rm *", "rm [a", "rm a?",
	"eval rm x", "eval 'rm x'", "eval \"r\"'m x'", "exec rm x", "command rm x", "builtin eval rm x", "set -- rm x; \"$@\"", "shopt -s extglob\nrm !(x)", "rm @(a|b)", "echo @(a|b); rm x",
	"f() { rm x; }; f", "function f { rm x; }; f", "f() (rm x); f", "rm() { :; }; command rm x", "while rm x; do break; done", "until ! rm x; do break; done", "echo \"`rm x`\"", "echo \"$(echo \"$(rm x)\")\"",
	"echo `echo \\`rm x\\``", "`r\\`\\`m x`", "echo `r\\`true\\`m x`", "0`A\\`\\`0`", "echo $(case x in x) rm y;; esac)", "echo $(# )\nrm x)", "rm \"a\nb\"", "rm a\\\nb", "rm 'a\\\nb'", "rm \"a\\\nb\"", "let 'a[$(rm x)]=1'", "test -v 'a[$(rm x)]'", "declare 'a[$(rm x)]=1'",
	"read -r a <<< rm; $a x", "printf -v 'a[$(rm x)]' y", "unset 'a[$(rm x)]'", "((a[$(rm x)]=1))", "a[$(rm x)]=1", "echo ${a[$(rm x)]}", "echo ${a:$(rm x)}", "x='a[$(rm x)]'; ((x))", "echo $[$(rm x)]",
	"((')$(rm x)'))", "((a'$(rm x)'))", "((a$'$(rm x)'))", "((a'`rm x`'))", "(('$(rm x)\"'))", "echo $((a'$(rm x)'))", "echo $[a'$(rm x)']", "a['$(rm x)']=1", "echo ${a['$(rm x)']}", "a=(['$(rm x)']=1)", "exec {a['$(rm x)']}>f", "for ((i='$(rm x)'; i<1;)); do break; done",
	"A \\", "{a0,}", "{,} rm x", "rm {,a}", "rm x &\nwait", "rm x & rm y", "rm a || rm b", "! rm a && rm b", "rm a |& rm b", "rm a;\n\nrm b", "{ rm a; rm b; }", "( rm a )", "((rm a); rm b)", "$(echo rm) x", "$(echo rm x)", "`echo rm` x",
}

// The property of FuzzBash holds for all its seeds, and in most of them bash starts a program.
func TestBashStartsWhatIsSeen(t *testing.T) {
	o := newLookups(t)
	started, ran := 0, 0
	for _, line := range slices.Concat(odd, some(t)) {
		if n := checkSeen(t, o, line); n > 0 {
			started, ran = started+1, ran+n
		}
	}
	t.Logf("bash started %d programs of %d lines", ran, started)
	if started < 200 {
		t.Errorf("bash started programs in only %d lines, too few to prove anything", started)
	}
}

// The oracle must see what bash starts, otherwise the tests that use it prove nothing.
func TestLookupsSee(t *testing.T) {
	got := newLookups(t).run(t, "rm 'a b' \"\"; env ls | foo $(bar); exec baz x")
	for _, want := range [][]string{{"rm", "a b", ""}, {"env", "ls"}, {"foo"}, {"bar"}, {"baz"}} {
		if !slices.ContainsFunc(got, func(argv []string) bool { return slices.Equal(argv, want) }) {
			t.Errorf("%q is not seen: %q", want, got)
		}
	}
}
