package shell_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/askance-dev/askance/permission/shell"
)

// FuzzParse looks for lines that are allowed but run something else in bash or dash, and for
// texts that cause a panic.
func FuzzParse(f *testing.F) {
	for _, r := range rows(f) {
		f.Add(r.Command)
	}
	for i, j := range joins {
		f.Add(j)
		f.Add(ways[i%len(ways)])
	}
	for _, line := range plainLines {
		f.Add(line)
	}
	o := newOracle(f)
	allow := patterns(f, "git:*", "ls:*", "cat:*", "grep:*", "echo:*", "true:*", "[:*", "test:*", "a", "b *", "foo *")
	for _, trusted := range []string{"foo *", "b:*"} {
		allow = append(allow, patterns(f, trusted)[0].TrustOptions())
	}
	f.Fuzz(func(t *testing.T, line string) {
		l := shell.Parse(line)
		consistent(t, l, allow)
		if !l.Covers(allow) || !safe(line) {
			return
		}
		for _, sh := range realShells {
			checkRuns(t, l, sh, o.run(t, sh, line))
		}
	})
}

// plainLines are covered and contain everything that the readers must agree on.
var plainLines = []string{
	"git|stat", "git log --oneline # x", "git log 'a;b' \"c|d\" e\\ f", "git status 2>&1 >/dev/null </dev/null", "ls ./* | grep x\\*",
	"echo \"a\\\"b\" '\\' \\# x#y", "git log \\\n -n 3", "a\nb c\n\n", "echo a=b {x} }{ $'' \"$\" !", "ls -- ./[a]?",
	"echo \"$)\" \"a\\\nb\"; [ a = b ] && true", "foo '' \"\" \\a", "git log 12>&1", "echo é 'ü\u00a0'",
}

// consistent checks properties that hold for every line.
func consistent(t *testing.T, l *shell.Line, allow []*shell.Pattern) {
	t.Helper()
	c := l.Cover(allow)
	if c.Covered != l.Covers(allow) {
		t.Errorf("%q: Cover and Covers differ", l.Text)
	}
	if c.Covered && (!l.Static() || l.Hidden != nil || len(l.Commands) == 0 || len(l.Text) > shell.MaxBytes || len(l.Commands) > shell.MaxCommands) {
		t.Errorf("%q is covered: %+v", l.Text, l)
	}
	if len(c.Commands) != len(l.Commands) {
		t.Errorf("%q: %d commands, %d in the cover", l.Text, len(l.Commands), len(c.Commands))
	}
	if l.ReadOnly() && l.Hidden != nil {
		t.Errorf("%q is read-only although it contains a hidden character", l.Text)
	}
	for _, list := range [][]shell.Command{l.Commands, l.Nested} {
		for _, cmd := range list[:min(len(list), 20)] {
			denied(t, l, cmd)
		}
	}
}

// denied checks that a rule that denies a command's program matches the line.
func denied(t *testing.T, l *shell.Line, cmd shell.Command) {
	t.Helper()
	if len(cmd.Argv) == 0 || !cmd.Argv[0].Fixed {
		return
	}
	p, err := shell.Compile(cmd.Argv[0].Text + ":*")
	if err != nil || len(cmd.Argv[0].Text) == 0 {
		return
	}
	if strings.ContainsFunc(cmd.Argv[0].Text, unicode.IsSpace) {
		return // a rule separates words by spaces
	}
	matched, err := p.Matches(l)
	if !matched && !errors.Is(err, shell.ErrUnclear) {
		t.Errorf("%q runs %q, but a rule that denies it does not match", l.Text, cmd.Argv[0].Text)
	}
}

// FuzzCompile looks for contents of rules that cause a panic, and for allow rules that cover what
// they do not match as deny rules.
func FuzzCompile(f *testing.F) {
	for _, r := range rows(f) {
		f.Add(r.AllowRules[0], r.Command)
	}
	for _, content := range []string{"git * main", "npm install", `a\*b *`, "*", ":*", "* --force", `\`, "a**b"} {
		f.Add(content, "git push origin main")
	}
	f.Fuzz(func(t *testing.T, content, line string) {
		p, err := shell.Compile(content)
		if err != nil {
			if !errors.Is(err, shell.ErrPattern) {
				t.Errorf("%q: %v is not ErrPattern", content, err)
			}
			return
		}
		l := shell.Parse(line)
		matched, err := p.Matches(l)
		if l.Covers([]*shell.Pattern{p}) && !matched && err == nil {
			t.Errorf("allow %q covers %q, but deny %q does not match it", content, line, content)
		}
	})
}
