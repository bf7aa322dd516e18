package shell_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission/shell"
)

func TestCompileRefuses(t *testing.T) {
	for _, content := range []string{"", " ", "\t", "git\u202e:*", "a\x00b", strings.Repeat("x", 5000), "\xff"} {
		if p, err := shell.Compile(content); !errors.Is(err, shell.ErrPattern) {
			t.Errorf("%.20q: %v, %v", content, p, err)
		}
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		content, line string
		want          bool
	}{
		{"git status:*", "git status", true},
		{"git status:*", "git status -s", true},
		{"git status:*", "git statusx", false},
		{"git status:*", "git 'status'", true},
		{"git status:*", "git 'status -s'", false},
		{"git status:*", "./git status", false},
		{"git status:*", "/usr/bin/git status", false},
		{"git status:*", "git -C x status", false},
		{"git status *", "git status", true},
		{"git status *", "git status -s", true},
		{"git * main", "git push main", true},
		{"git * main", "git push 'x main'", false},
		{"git * main", "git push main x", false},
		{"git log --format=*", "git log --format=%h", true},
		{"git show HEAD~*", "git show HEAD~1", true},
		{"npm install", "npm install", true},
		{"npm install", "npm install x", false},
		{"npm install", "npm  'install' | tail -5", true},
		{"npm install", "npm installx", false},
		{"ls", "curl x; ls", false},
		{"l*", "ls", true},
		{"*", "ls x", true},
		{"*", "unknown-program", false},
		{":*", "ls", false},
		// A program that is not in the option table.
		{"unknown-program:*", "unknown-program", false},
		{"unknown-program x", "unknown-program x", true},
		{"unknown-program x", "unknown-program x y", false},
		{"git rebase main", "git rebase main", true},
		{"git rebase main", "git rebase main x", false},
		{"find . -delete", "find . -delete", true},
		// Programs that read their commands from a pipe.
		{"sh", "echo x | sh", false},
		{"sh", "sh", true},
		{"python", "echo x | python", false},
		{"xargs rm", "echo x | xargs rm", false},
		{"awk:*", "echo x | awk '{print $1}'", true},
		{"grep:*", "echo x | grep x", true},
	} {
		l := shell.Parse(tt.line)
		if got := l.Covers(patterns(t, tt.content, "echo:*")); got != tt.want {
			t.Errorf("%q covers %q: %v, want %v: %+v", tt.content, tt.line, got, tt.want, l.Cover(patterns(t, tt.content)))
		}
	}
}

func TestNotice(t *testing.T) {
	for content, want := range map[string]string{
		"git status:*":    "",
		"git * main":      "",
		"npm install":     "exactly this line",
		"unknown x:*":     "not known",
		"git rebase:*":    "more than its name says",
		"find . -delete":  "exactly this line",
		"* --version":     "names no program",
		"sort --output:*": "whole of it",
	} {
		p := patterns(t, content)[0]
		got := p.Notice()
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: notice %q, want one with %q", content, got, want)
		}
		if len(want) > 0 && strings.Contains(got, "trust_options") && p.TrustOptions().Notice() != "" {
			t.Errorf("%q: a rule that trusts options has the notice %q", content, p.TrustOptions().Notice())
		}
		if p.String() != content {
			t.Errorf("String of %q is %q", content, p)
		}
	}
}

// Every reason has its code and position.
func TestReasons(t *testing.T) {
	for _, tt := range []struct {
		line   string
		code   shell.Code
		offset int
	}{
		{"ls\x07", shell.CodeHidden, 2},
		{"ls \u200b", shell.CodeHidden, 3},
		{"ls " + strings.Repeat("x", shell.MaxBytes), shell.CodeTooLong, shell.MaxBytes},
		{strings.Repeat("ls;", 51), shell.CodeTooMany, 150},
		{"  # nothing", shell.CodeEmpty, 0},
		{"", shell.CodeEmpty, 0},
		{"ls 'x", shell.CodeSyntax, 0},
		{"ls 12>&1", shell.CodeShells, 0},
		{"ls & ls", shell.CodeBackground, 0},
		{"ls; ! ls $X", shell.CodeNegation, 4},
		{"ls; (ls $X)", shell.CodeControl, 4},
		{"f() { ls; }", shell.CodeFunction, 0},
		{"ls > x", shell.CodeRedirect, 3},
		{"ls; A=1 ls", shell.CodeAssignment, 4},
		{"export A=1", shell.CodeDeclaration, 0},
		{"ls; alias a=b", shell.CodeDeclaration, 4},
		{"echo $(ls)", shell.CodeSubst, 5},
		{"echo $X", shell.CodeExpansion, 5},
		{"echo ~", shell.CodeExpansion, 5},
		{"echo *", shell.CodeGlob, 5},
		{"echo {a,b}", shell.CodeBraces, 5},
		{"echo $'a'", shell.CodeQuoting, 5},
		{"cd x && git log", shell.CodeFolder, 8},
		{"cd x; make", shell.CodeFolder, 6},
	} {
		l := shell.Parse(tt.line)
		found := false
		for _, r := range l.Reasons {
			found = found || r.Code == tt.code && r.Offset == tt.offset
			if r.Detail == "" || !strings.Contains(r.String(), string(r.Code)) {
				t.Errorf("%.40q: a reason without a text: %+v", tt.line, r)
			}
		}
		if !found || l.Static() {
			t.Errorf("%.40q: no %s at %d: %+v", tt.line, tt.code, tt.offset, l.Reasons)
		}
	}
	for _, line := range []string{"echo ./*", "ls /x/[ab]?", "echo a 2>&1 >/dev/null", "[ -f x ]", "! ls", "(ls; if ls; then ls; fi)", "echo {} {a}", "echo 'é' x~"} {
		if l := shell.Parse(line); !l.Static() {
			t.Errorf("%q is not static: %+v", line, l.Reasons)
		}
	}
}

func TestReadOnly(t *testing.T) {
	for line, want := range map[string]bool{
		"ls": true, "ls -la | grep x && git log": true, "{ ls; cat x; }": true, "echo $X \"$Y\" *": true, "cat <<EOF\nhi\nEOF": true,
		"ls 'open": true, "ls \"open": true, "cd x && ls": true, "git config --get user.name": true, "find . -name '*.go'": true, "rg x": true,
		"": false, "ls > x": false, "ls & rm x": false, "rm x": false, "ls 'a'; rm 'open": false, "ls\nrm x 'open": false, "echo ${X:=1}": false,
		"echo $(ls)": false, "cat <<EOF\n$(rm x)\nEOF": false, "cat <<EOF\nx\\\nEOF\nrm x\nEOF": false, "GREP_X=1 ls": false, "FOO=1 ls": true, "(ls)": false,
		"find . -delete": false, "find . $X": false, "grep $X x": true, "git branch x": false, "git branch -D x": false, "git tag x": false,
		"git log --output=x": false, "git config user.name x": false, "rg --pre x y": false, "echo x | tee y": false, "ls {a,b}": true,
		"sort -o x y": false, "ls\u202e": false, "git diff --ext-diff": false, "cd x && git log": false, "xargs ls": false,
		// Lines that change nothing in either shell.
		"ls |& cat": true, "echo $((1+2))": true, "echo $'x'": true, "cat <<'E'\n$(ls)\nE": true, "cat <<< x": true, "cat < x": true,
		"cat <<-EOF\n\thi\n\tEOF": true, "cat <<EOF\n$X\nEOF": true, "echo {1..3}": true,
		"ls &": true, "ls & pwd & cat x": true, "LANG=C ls": true, "A=1 TZ=UTC ls -l | cat": true, "cat <<\"E\"\n$(ls)\nE": true,
		"find ~ -name x": true, "grep -rn x src/* ~/y": true, "git diff ~/a": true, "less src/*.py": true, "git log -- *.py $X": true, "which $X": true,
		"git branch --list 'f/*' g": true, "git tag -l v1": true, "git branch --contains abc": true, "git branch --merged main": true,
		// Lines that only look read-only.
		"find ~ -delete": false, "less *": false, "rg x *": false, "git diff *.py": false, "git diff -*": false, "git log $X -- a": false, "find ~bob": false,
		"git branch -l x": false, "git branch x --list": false, "git branch --list x -D y": false, "git tag v1 -l": false, "git branch --list -u x": false,
		"l* x": false, "~/bin/ls x": false, "git checkout -- *": false, "find src/* -delete": false, "file src/* -C": false, "git branch src/*": false,
		"LD_PRELOAD=x ls": false, "PATH=x ls": false, "LANG=../x ls": false, "LANG=$(x) ls": false, "A=$X ls": false, "A+=1 ls": false, "A=(1) ls": false,
		"A=1": false, "A=1; ls": false, "GIT_PAGER=x git log": false, "TERM=x less y": false, "coproc ls": false, "ls &>x": false, "rm x & ls": false,
		"cat <<\"E\"\nE\nrm x\nE": false, "cat <<$\"E\"\n$(x)\nE": false, "cat <<\"$E\"\n$(x)\n$E": false,
		"printf %n PATH": false, "echo $((x))": false, "echo $((x=1))": false, "echo $((1+$(rm x)))": false, "echo $[1]": false,
		"echo $'a\\'; rm x #'": false, "cat <<'E'\nE\nrm x\nE": false, "cat <<'E'\n E\nrm x\nE": false, "cat <<< $(rm x)": false,
		"ls |& tee x": false, "ls |& cat\nrm x": false, "rm x\nls |& cat": false, "sh <<< ls": false, "cat < /dev/tcp/h/80": false,
		"cat <> x": false, "cat < x > y": false, "wc < <(rm x)": false, "git status {a,b}": false, "find . {-delete,}": false,
		"find . $'-delete'": false, "git branch --u": false, "git status 'open": false, "{echo,rm} x": false, "cat <<EOF\n${X:=1}\nEOF": false,
	} {
		if got := shell.Parse(line).ReadOnly(); got != want {
			t.Errorf("%q is read-only: %v, want %v", line, got, want)
		}
	}
}
