package term

import (
	"unicode/utf8"

	"github.com/askance-dev/askance/internal/reveal"
)

// Safe makes text harmless for a terminal and for whoever reads it there, as
// [reveal.Text] does for the inboxes: the same text looks the same everywhere.
func Safe(s string) string { return reveal.Text(s) }

// SafeLine is Safe for a single line: newlines and tabs become marks, too.
func SafeLine(s string) string { return reveal.Line(s) }

// Clip shortens a line to n characters.
func Clip(s string, n int) string {
	if n < 1 || utf8.RuneCountInString(s) <= n {
		return s
	}
	runes := []rune(s)
	return string(runes[:n-1]) + "…"
}
