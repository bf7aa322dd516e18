package shell_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/permission/shell"
)

// ways are ways to run touch PWNED. %b in joins is replaced by one of them.
var ways = []string{
	"touch PWNED", "'touch' PWNED", `t""ouch PWNED`, `\touch PWNED`, "$'touch' PWNED", `$'\164ouch' PWNED`, "$(echo touch) PWNED", "`echo touch` PWNED",
	"X=touch; $X PWNED", "{touch,PWNED}", "env touch PWNED", "env -u X A=1 touch PWNED", "env -S 'touch PWNED'", "command touch PWNED", "exec touch PWNED",
	"eval touch PWNED", `eval "tou""ch PWNED"`, "sh -c 'touch PWNED'", `bash -c "touch PWNED"`, "bash -c 'eval touch PWNED'", "bash -ec 'touch PWNED'",
	"echo PWNED | xargs touch", "echo touch PWNED | sh", "echo touch PWNED | xargs env", "echo touch | xargs -I{} {} PWNED", "nice -n 5 touch PWNED", "timeout 5 touch PWNED", "timeout -k 1 5 nohup touch PWNED",
	"find . -name x.txt -exec touch PWNED ';'", `find . -name x.txt -execdir touch {} \;`, "A=1 touch PWNED", "A=1 B=2 env touch PWNED", "to\\\nuch PWNED",
	"set -- touch PWNED; \"$@\"", "command -p eval 'touch PWNED'", "sh <<E\ntouch PWNED\nE\n", "bash <<<'touch PWNED'", ">f touch PWNED", "<x.txt touch PWNED",
	"builtin eval 'touch PWNED'", "IFS=,; X=touch,PWNED; $X", "printf 'touch PWNED' | bash", "nohup nice env bash -c 'exec touch PWNED'",
	"source <(echo touch PWNED)", "bash < <(echo touch PWNED)", "sh -c sh <<< 'touch PWNED'", "echo touch PWNED | eval sh", "echo touch PWNED | { sh; }",
	"printf 'touch PWNED' | if true; then sh; fi", "g() { sh; }; echo touch PWNED | g", "echo touch PWNED > >(sh); wait", "env X='a b' bash -c 'touch PWNED'",
}

// joins are ways to put %b next to or inside a harmless git status.
var joins = []string{
	"%b", "git status; %b", "git status;%b", "git status && %b", "git status\n%b", "git status & %b", "git status | %b", "git status |& %b",
	"git status || %b", "(%b)", "{ %b; }", "if true; then %b; fi", "if %b; then :; fi", "for i in 1; do %b; done", "while %b; do break; done",
	"until ! %b; do break; done", "f() { %b; }; f", "git() { %b; }; git status", "function f { %b; }; f", "git status $(%b)", "git status `%b`",
	`git status "$(%b)"`, "git status <(%b)", "git status >(%b)", "! %b", "case x in x) %b;; esac", "git status > out; %b", "git status # c\n%b",
	"git status \\\n; %b", "[[ -z $(%b) ]]", "git status <<E\n$(%b)\nE", "git status ${X:-$(%b)}", "git status $((1+$(%b)))", "coproc %b", "time %b",
	"git status &>f %b", "git status 2>&1 %b", "git status >&2; %b", "echo 'x' \"y\"; %b", "select x in a; do %b; done", "x=$(%b)", "declare x=$(%b)",
	"git status ; ; %b", "git status &&\n%b", "git status |\n%b", "git \\\nstatus\n%b", "git status '\n'; %b", "git status \"\\\"\"; %b", "git status '\\'; %b",
	"git status # '\n%b\n# '", "trap \"%b\" EXIT", "alias git=\"%b\"\ngit status", "a[$(%b)]=1", "((x=$(%b)))", "git status $[$(%b)]", "git status <<'E'\n$(%b)\nE\n%b",
}

// lines returns the corpus: the vectors, every way in some places, and some ways in every place.
func lines(t *testing.T) []string {
	var all []string
	for _, r := range rows(t) {
		all = append(all, r.Command)
	}
	for i, j := range joins {
		for k, w := range ways {
			if strings.Contains(j, `"%b"`) && strings.ContainsAny(w, `"'\$`) {
				continue
			}
			if i < 4 || k < 2 || (i+k)%11 == 0 {
				all = append(all, strings.ReplaceAll(j, "%b", w))
			}
		}
	}
	return all
}

// If bash or dash runs something in the corpus that is not covered, the line is not allowed, and
// a rule that denies it matches or reports that it is unclear.
func TestRealShells(t *testing.T) {
	all := lines(t)
	ran, ask := 0, 0
	const workers = 4
	results := make(chan [2]int, workers)
	t.Run("lines", func(t *testing.T) {
		for w := range workers {
			t.Run(fmt.Sprint(w), func(t *testing.T) {
				t.Parallel()
				o := newOracle(t)
				n := [2]int{}
				for i := w; i < len(all); i += workers {
					if safe(all[i]) {
						n[0]++
						n[1] += judge(t, o, all[i])
					}
				}
				results <- n
			})
		}
	})
	for range workers {
		n := <-results
		ran, ask = ran+n[0], ask+n[1]
	}
	t.Logf("%d lines, %d were run, %d of them ran something that no rule covers", len(all), ran, ask)
	if ran < 400 || ask < 300 {
		t.Errorf("%d lines were run and %d of them ran touch: too few to prove anything", ran, ask)
	}
}

// judge compares what a line does with the analysis. It returns 1 if the line ran something that
// is not covered.
func judge(t *testing.T, o *oracle, line string) int {
	t.Helper()
	l := shell.Parse(line)
	allow := patterns(t, "git status:*", "git log:*", "echo:*", "ls:*", "true:*", "cat:*")
	deny := patterns(t, "touch:*")[0]
	covered, readOnly := l.Covers(allow), l.ReadOnly()
	matched, err := deny.Matches(l)
	if err != nil && !errors.Is(err, shell.ErrUnclear) {
		t.Errorf("%q: %v", line, err)
	}
	fired := 0
	for _, sh := range realShells {
		got := o.run(t, sh, line)
		bad := got.ran("touch") || len(got.files) > 0
		if bad {
			fired = 1
		}
		if bad && (covered || readOnly) {
			t.Errorf("%s ran %q and left %q, but %q is covered (%v) or read-only (%v)", sh, got.runs, got.files, line, covered, readOnly)
		}
		if covered {
			checkRuns(t, l, sh, got)
		}
		if got.ran("touch") && !matched && err == nil {
			t.Errorf("%s ran %q in %q, but no deny rule for touch matches:\n%+v\n%+v", sh, got.runs, line, l.Commands, l.Nested)
		}
	}
	return fired
}

// notFound is what bash and dash say about a program that they do not find.
var notFound = regexp.MustCompile(`(?m): ([^:\n]+): (?:command )?not found$`)

// checkRuns checks that Parse found every command that ran.
func checkRuns(t testing.TB, l *shell.Line, sh string, got seen) {
	t.Helper()
	for _, argv := range got.runs {
		if !slices.ContainsFunc(l.Commands, func(c shell.Command) bool { return fits(c.Argv, argv) }) {
			t.Errorf("%s ran %q in %q, which is covered, but Parse found only %+v", sh, argv, l.Text, l.Commands)
		}
	}
	if len(got.files) > 0 {
		t.Errorf("%s left %q after %q, which is covered", sh, got.files, l.Text)
	}
	for _, m := range notFound.FindAllStringSubmatch(got.said, -1) {
		if slices.ContainsFunc(l.Commands, func(c shell.Command) bool { return len(c.Argv) > 0 && c.Argv[0].Fixed && c.Argv[0].Text == m[1] }) {
			continue // Parse saw it; the folder has no such program
		}
		t.Errorf("%s looked for another program in %q, which is covered: %s", sh, l.Text, got.said)
	}
}

// fits reports whether arguments come from the words. A word that is not fixed stands for
// arguments that begin with "/" or "./".
func fits(words []shell.Word, argv []string) bool {
	for i, w := range words {
		if !w.Fixed {
			for n := len(argv); n >= 0; n-- {
				rooted := !slices.ContainsFunc(argv[:n], func(a string) bool { return !strings.HasPrefix(a, "/") && !strings.HasPrefix(a, "./") })
				if rooted && fits(words[i+1:], argv[n:]) {
					return true
				}
			}
			return false
		}
		if len(argv) == 0 || argv[0] != w.Text {
			return false
		}
		argv = argv[1:]
	}
	return len(argv) == 0
}

// Lines are made of pieces that readers could read differently. Covered lines run only what Parse
// found, in both shells.
func TestPiecesInRealShells(t *testing.T) {
	o := newOracle(t)
	allow := patterns(t, "git:*", "ls:*", "echo:*", "a", "b *")
	for i := range allow {
		allow[i] = allow[i].TrustOptions()
	}
	pieces := rapid.SampledFrom([]string{
		"git", "ls", "echo", "a", "b", " ", " ", " ", "\t", "'x y'", `"x y"`, `'`, `"`, `\`, "\\\n", `\ `, `\\`, "#", " #", "\n", ";", " && ", "||", " | ", "&",
		"2>&1", " >/dev/null", "</dev/null", "12>&1", ">&2", "=", "a=", "$", `"$"`, "$'", "~", "{", "}", "{}", "!", "-", "--", "[", "]", " ./*", "?", "%", "^", ":", ",", "..", "é", "\u00a0", "if", "time", "then", "(", ")",
	})
	lines := rapid.Custom(func(rt *rapid.T) *shell.Line {
		start := rapid.SampledFrom([]string{"git ", "echo ", "a;", "ls x"}).Draw(rt, "start")
		return shell.Parse(start + strings.Join(rapid.SliceOfN(pieces, 1, 9).Draw(rt, "pieces"), ""))
	}).Filter(func(l *shell.Line) bool { return l.Covers(allow) && safe(l.Text) })
	rapid.Check(t, func(rt *rapid.T) {
		l := lines.Draw(rt, "covered line")
		for _, sh := range realShells {
			checkRuns(t, l, sh, o.run(t, sh, l.Text))
		}
		if t.Failed() {
			rt.FailNow()
		}
	})
}
