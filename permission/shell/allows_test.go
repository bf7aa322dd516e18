package shell_test

import (
	"os"
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission/shell"
)

// Lines that an allow rule seems to cover but that do more than it says, and everyday lines that
// it does cover; see testdata/README.md.
func TestAllows(t *testing.T) {
	n := eachRow(t, "testdata/allows.jsonl", func(rule, line, want string) {
		got := "asked"
		c := shell.Parse(line).Cover(patterns(t, rule))
		if c.Covered {
			got = "covered"
		}
		if got != want {
			t.Errorf("%q on %q: %s, want: %s: %+v", rule, line, got, want, c)
		}
	})
	if n < 190 {
		t.Errorf("only %d rows were read", n)
	}
}

// Each row but the empty ones says why the rule does not cover the line; real programs did more
// than the rule means.
func TestAllowsOnlyWhatRuleMeans(t *testing.T) {
	const folder, value = "may be a folder whose hooks run here: write this remote in the rule", "with the value"
	const none, option, operand = "no allow rule names", "which is not among those that a rule admits", " is an argument that the rule does not name"
	for _, tt := range []struct{ rule, line, why string }{
		{"git push:*", "git push evil HEAD:refs/heads/zz", "git push reaches evil, which " + folder},
		{"git push:*", "git push evil.git main", folder},
		{"git push * main", "git push evil main", folder},
		{"git pull:*", "git pull evil", folder},
		{"git fetch:*", "git fetch evil main", folder},
		{"git fetch:*", "git fetch --multiple origin evil", "--multiple"},
		{"git ls-remote:*", "git ls-remote evil", folder},
		{"git push:*", "git push --repo=evil main", value},
		{"git push:*", "git push C:evil main", "no <remote>"},
		{"git push:*", "git push a/b:c main", "no <remote>"},
		{"git push:*", "git push upstream main", ""},
		{"git push:*", "git push git@github.com:a/b.git main", ""},
		{"git pull:*", "git pull https://github.com/a/b.git main", ""},
		{"git fetch:*", "git fetch ssh://git@github.com/a/b main", ""},
		{"git push fork:*", "git push fork main", ""},
		{"git push fork *", "git push fork main", ""},
		{"git push fork:*", "git push evil main", none},
		{"git fetch:*", "git fetch -f origin a:b", option},
		{"git fetch:*", "git fetch -pf origin a:b", option},
		{"git fetch:*", "git fetch --force origin a:b", option},
		{"git fetch:*", "git fetch origin +a:b", "no <ref>"},
		{"git fetch:*", "git fetch origin a:b", ""},
		{"git fetch -f:*", "git fetch -f origin a:b", ""},
		{"git pull:*", "git pull --force origin a:b", option},
		{"git pull:*", "git pull -f origin a:b", option},
		{"git push:*", "git push --force-with-lease origin main", option},
		{"git push:*", "git push --force-with-lease=main origin main", option},
		{"git push:*", "git push origin main --force-with-lease", option},
		{"git push --force-with-lease:*", "git push --force-with-lease origin main", ""},
		{"git push --force-with-lease=main:*", "git push --force-with-lease=main origin main", ""},
		{"git push --force-with-lease:*", "git push --force-with-lease -f origin main", option},
		{"rm:*", "=rm x", none},
		{"=rm:*", "=rm x", "what the options of =rm do is not known"},
		{"* x", "=rm x", "what the options of =rm do is not known"},
		{"rm:*", "zf_rm x", none},
		{"cat:*", "=ls", none},
		{"unzip:*", "unzip -l x.zip Makefile", ""},
		{"unzip:*", "unzip -qt x.zip", ""},
		{"unzip -l:*", "unzip -l x.zip", ""},
		{"unzip:*", "unzip x.zip -l Makefile", operand},
		{"unzip:*", "unzip -q x.zip -l", "has the option -q,"},
		{"unzip:*", "unzip -- -l x.zip", "has the option -l,"},
		{"unzip:*", "unzip -l -- -l x.zip", "-l"}, // -- turns -l off
		{"unzip:*", "unzip -l--l x.zip", "-l"},
		{"terraform fmt:*", "terraform fmt -check .", ""},
		{"terraform fmt:*", "terraform fmt -write=false -diff .", ""},
		{"terraform fmt:*", "terraform fmt . -check", operand},
		{"terraform fmt:*", "terraform fmt . -write=false", operand},
		{"terraform:*", "terraform fmt -diff . -check", "has the option -diff,"},
		{"tofu fmt:*", "tofu fmt -check .", ""},
		{"tofu fmt:*", "tofu fmt . -check", operand},
		{"tofu fmt:*", "tofu fmt . -write=false", operand},
		{"gofmt:*", "gofmt -l .", ""},
		{"gofmt:*", "gofmt . -l", operand},
		{"dpkg:*", "dpkg -L bash", ""},
		{"dpkg:*", "dpkg bash -L", operand},
		{"xxd:*", "xxd -p x", ""},
		{"xxd:*", "xxd x -p", "-p" + operand}, // the file that it writes
		{"uniq:*", "uniq -c x", ""},
		{"uniq:*", "uniq x -c", "-c" + operand}, // also a file, except with GNU
	} {
		c := shell.Parse(tt.line).Cover(patterns(t, tt.rule))
		if why := c.Commands[0].Why.Detail; c.Covered != (tt.why == "") || !strings.Contains(why, tt.why) {
			t.Errorf("%q on %q: covered %v, %q, want: %q", tt.rule, tt.line, c.Covered, why, tt.why)
		}
	}
}

// Everyday lines need no more rules than one would expect.
func TestEveryday(t *testing.T) {
	text, err := os.ReadFile("testdata/everyday.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for row := range strings.Lines(string(text)) {
		rule, line, ok := strings.Cut(strings.TrimSpace(row), " | ")
		if !ok || row[0] == '#' {
			continue
		}
		n++
		if c := shell.Parse(line).Cover(patterns(t, rule)); !c.Covered {
			t.Errorf("%q does not cover %q: %+v", rule, line, c)
		}
	}
	if n < 150 {
		t.Errorf("only %d rows were read", n)
	}
}

// Arguments with which a program that usually only prints does more.
func TestNotReadOnly(t *testing.T) {
	for _, line := range []string{
		"less -p 'x\n!touch PWNED\n' f", "less -pX f", "less --pattern=x f", "more -p '!touch' f",
		"git branch -quorigin/main", "git branch -vuorigin/main", "git branch -qtx",
		"git remote show evil.com:x", "git remote show ssh://evil.com/secret", "git remote show user@evil.com",
		"tree -Po '*' out", "tree -aIo x out d", "tree -L2o 2 out",
	} {
		if shell.Parse(line).ReadOnly() {
			t.Errorf("%q is read-only", line)
		}
	}
	for _, line := range []string{"less -N f", "more f", "git branch -q", "git branch -vv", "git remote show origin", "tree -aL 2 -I vendor d"} {
		if l := shell.Parse(line); !l.ReadOnly() {
			t.Errorf("%q is not read-only: %v", line, l.Reasons)
		}
	}
}
