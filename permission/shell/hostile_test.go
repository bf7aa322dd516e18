package shell_test

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/askance-dev/askance/permission/shell"
)

// hostile returns texts that are expensive, or that hide a command behind a limit.
func hostile() map[string]string {
	const big = 20 << 10
	rep := func(s string, n int) string { return strings.Repeat(s, n/len(s)) }
	nested := "rm x"
	for range 12 {
		nested = "bash -c '" + strings.ReplaceAll(nested, "'", `'\''`) + "'"
	}
	return map[string]string{
		"padding":          "echo " + rep("x", 300<<10) + "; rm x",
		"many":             rep("true;", 1000) + "rm x",
		"very many":        rep("true;", big) + "rm x",
		"parentheses":      rep("(", big) + "rm x" + rep(")", big),
		"some parentheses": rep("(", 150) + "rm x" + rep(")", 150),
		"substitutions":    rep("$(", big) + "rm x" + rep(")", big),
		"backquotes":       rep("`", big) + "rm x",
		"braces":           rep("{a,", big/2) + rep("}", big/2) + "; rm x",
		"brace product":    "echo " + rep("{a,b}", 500) + "; rm x",
		"brace range":      "echo {1..100000000}; rm x",
		"env chain":        rep("env ", big) + "rm x",
		"sudo chain":       rep("sudo -u x ", 10000) + "rm x",
		"unknown chain":    rep("foo ", big) + "rm x",
		"rm words":         "foo " + rep("rm ", big),
		"bash in bash":     nested,
		"not closed":       "rm x; '" + rep("a", big),
		"if chain":         rep("if ", big) + "; rm x",
		"while chain":      rep("while true; do ", big) + "rm x",
		"case chain":       rep("case x in x) ", big) + "rm x",
		"heredocs":         rep("cat <<E\n", big) + "rm x",
		"tests":            "[[ " + rep("! ", big) + "x ]]; rm x",
		"arithmetic":       "((" + rep("-", big) + "1)); rm x",
		"and chain":        rep("true && ", big) + "rm x",
		"texts":            "foo " + rep("'rm x; ls' ", big),
		"functions":        rep("f() { ", 60000) + "rm x" + rep(" ; }", 60000),
		"indices":          rep("a[", big) + "; rm x",
	}
}

// cpuTime returns the processor time that the test has used, so other programs and waiting do not
// count.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano())
}

// Work and memory are limited, no limit hides a command from deny rules, and nothing above a
// limit is allowed.
func TestHostile(t *testing.T) {
	deny := patterns(t, "rm:*")[0]
	others := patterns(t, "git * main", "* --force", "git push --force:*", "literal words")
	allow := patterns(t, "true:*", "echo:*", "rm:*", "cat:*", "*")
	for name, text := range hostile() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := cpuTime(t)
			l := shell.Parse(text)
			parsed := cpuTime(t) - start
			runtime.ReadMemStats(&after)
			if l.Covers(allow) && (len(text) > shell.MaxBytes || len(l.Commands) > shell.MaxCommands) {
				t.Error("covered")
			}
			matched, err := deny.Matches(l)
			if !matched {
				t.Errorf("deny rm:* does not match (%v): %d commands, %d nested", err, len(l.Commands), len(l.Nested))
			}
			for _, p := range others {
				_, _ = p.Matches(l)
			}
			_ = l.ReadOnly()
			took, used := cpuTime(t)-start, (after.TotalAlloc-before.TotalAlloc)>>20
			t.Logf("parsed in %v, all in %v, %d MiB", parsed, took, used)
			if took > 20*time.Second || used > 1024 {
				t.Errorf("took %v and %d MiB", took, used)
			}
		})
	}
}
