package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	words := []string{"list", "load", "show", "approve", "reject", "session", "since", "startsWith"}
	for word, want := range map[string]string{
		"lst": "list", "aprove": "approve", "app": "approve", "shwo": "show", "LIST": "list", "x": "", "sesion": "session", "quit": "",
		"startswith": "startsWith", "lis": "list", strings.Repeat("s", 100): "",
	} {
		if got := strings.Join(Nearest(word, words), " "); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "", 2}, {"ab", "ba", 1}, {"abc", "abd", 1}, {"abc", "bc", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{
		"ann": "ann", "a/b.c-1": "a/b.c-1", "": "''", "Ann Lee": "'Ann Lee'", "o'neil": `'o'\''neil'`, "$(rm x)": "'$(rm x)'", "a;b": "'a;b'", "a\nb": "'a\nb'",
	} {
		if got := ShellWord(word); got != want {
			t.Errorf("ShellWord(%q) = %s, want %s", word, got, want)
		}
	}
}

func TestOrList(t *testing.T) {
	for want, words := range map[string][]string{"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}} {
		if got := OrList(words); got != want {
			t.Errorf("OrList(%q) is %q, want %q", words, got, want)
		}
	}
}
