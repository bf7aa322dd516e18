package shell

import (
	"fmt"
	"strings"
	"testing"
)

// shapes are pieces of expensive lines; # is a different number in each.
var shapes = []string{
	"eval ", "eval a=b ", "sh -c 'a b' ", "sh -c 'a # b' ", "env ", "sudo -u x ", "find . -exec ", "find . -name 'a #' -exec ", "fd -x ", "xargs ", "time ", "exec ",
	"'x:a b' ", "'x:a # b' ", "--a='b # c' ", "-c'x # y' ", "-axy'z # w' ", "-o'|x#' ", "a='b # c' ", "export A='b # c' ", "declare x='a[#] b' ",
	"trap 'a #' 1 ", "env -S'a #' ", "tar -I 'a #' ", "git -c a.#='!b c' ", "git git ", "python -c 'x # y' ", "'a #;b #' ", "'$(a #) b' ",
	"a;b#;", "a | b# | ", "true && ", "x# & ", "$(x 'a # b') ", "`x #` ", "<(x #) ", "${x#[y]} ", "$((x#+1)) ", "${x:-${y:-z #}} ",
	"{a,b#} ", "* ", "cat <<E\na #\nE\n", "<<<'a # b' ", "f#() { a; }; ", "if a#; then b; fi; ", "for x in 'a #'; do b; done; ", "( ", "{ ", "[[ x == y# ]]; ",
	"x &>f# ", "'", "\\ ", "\n", "\"$x # y\" ",
}

func hostileLine(prefix, shape string, size int) string {
	var b strings.Builder
	b.WriteString(prefix)
	for i := 0; ; i++ {
		next := strings.ReplaceAll(shape, "#", fmt.Sprint(i))
		if b.Len()+len(next) > size {
			return b.String()
		}
		b.WriteString(next)
	}
}

// stepsOf parses a text and returns the steps that took, and the number of words to compare with
// each rule.
func stepsOf(text string) (steps, words int) {
	l, steps := parseCounted(text)
	for _, list := range [][]Command{l.Commands, l.Nested} {
		for i := range list {
			words += len(list[i].Argv)
		}
	}
	for _, c := range l.crude {
		words += len(c)
	}
	return steps, words
}

// The work for a line grows linearly with its length, and each byte of the longest line costs a
// limited number of steps.
func TestWorkIsLinear(t *testing.T) {
	const perByte = 20
	for _, shape := range shapes {
		for _, prefix := range []string{"", "foo "} {
			half, _ := stepsOf(hostileLine(prefix, shape, MaxBytes/8))
			steps, _ := stepsOf(hostileLine(prefix, shape, MaxBytes/4))
			if steps > 2*half+half/2+MaxBytes/8 {
				t.Errorf("%q and %q: %d steps, but %d for half the length", prefix, shape, steps, half)
			}
		}
		steps, words := stepsOf(hostileLine("foo ", shape, MaxBytes))
		t.Logf("%q: %d steps, %d words for each byte", shape, steps/MaxBytes, words/MaxBytes)
		if steps > perByte*MaxBytes || words > perByte*MaxBytes {
			t.Errorf("%q: %d steps, %d words, over %d for each byte", shape, steps, words, perByte)
		}
	}
}

// The work for a line beyond the limits of allow rules is limited, too: up to maxText by its length,
// beyond that by a look at each byte and word.
func TestWorkOfLongLinesIsLimited(t *testing.T) {
	for _, shape := range shapes {
		for size, perByte := range map[int]int{maxText: 40, 1 << 20: 3} {
			steps, words := stepsOf(hostileLine("", shape, size))
			if steps > perByte*size || words > perByte*size {
				t.Errorf("%q of %d bytes: %d steps, %d words", shape, size, steps, words)
			}
		}
	}
}

// If a command has too many words that may be statements, a deny or ask rule matches it.
func TestTooManyStatements(t *testing.T) {
	p, err := Compile("psql * DROP TABLE*")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"psql " + strings.Repeat("a ", 8000): true, "psql " + strings.Repeat("a ", 800): false, "psql -c 'DROP TABLE x'": true} {
		if matched, _ := p.Matches(Parse(text)); matched != want {
			t.Errorf("%.30q of %d bytes: %v", text, len(text), matched)
		}
	}
}

// Commands that hide among many others are found, or the line counts as unclear.
func TestCrowdsHideNothing(t *testing.T) {
	p, err := Compile("git push --force:*")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		want bool
	}{
		{"foo " + strings.Repeat("git ", 2000) + "push --force", true},
		{"foo " + strings.Repeat("git a ", 1000) + "git push --force", true},
		{"foo " + strings.Repeat("git a ", 1000) + "git " + strings.Repeat("-c a ", 20) + "push --force", false},
	} {
		matched, err := p.Matches(Parse(c.text))
		if matched != c.want || !matched && err == nil {
			t.Errorf("%.40q: %v, %v", c.text, matched, err)
		}
	}
}
