package linediff_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/internal/linediff"
)

func TestLines(t *testing.T) {
	for _, tc := range []struct{ a, b, want string }{
		{"a b c", "a b c", "  a|  b|  c"},
		{"a b c", "a x c", "  a|- b|+ x|  c"},
		{"a", "a b", "  a|+ b"},
		{"a b", "b", "- a|  b"},
		{strings.Repeat("x ", 2000) + "a" + strings.Repeat(" y", 2000), strings.Repeat("x ", 2000) + "b" + strings.Repeat(" y", 2000), strings.Repeat("  x|", 2000) + "- a|+ b" + strings.Repeat("|  y", 2000)},
	} {
		got := strings.Join(linediff.Lines(strings.Fields(tc.a), strings.Fields(tc.b)), "|")
		if got != tc.want {
			t.Errorf("diff %q %q = %s, want %s", tc.a, tc.b, got, tc.want)
		}
	}
}

// Both texts can be recovered from their difference.
func TestLinesAreWhole(t *testing.T) {
	text := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "- x", "+ y", ""}), 0, 12)
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		var left, right []string
		for _, l := range linediff.Lines(a, b) {
			if l[0] != '+' {
				left = append(left, l[2:])
			}
			if l[0] != '-' {
				right = append(right, l[2:])
			}
		}
		if strings.Join(left, "\n") != strings.Join(a, "\n") || strings.Join(right, "\n") != strings.Join(b, "\n") {
			t.Fatalf("Lines(%q, %q) contains %q and %q", a, b, left, right)
		}
	})
}
