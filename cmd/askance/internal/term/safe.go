package term

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Safe makes text harmless for a terminal: control characters other than
// newline and tab, characters that change the direction of text or show
// nothing, and broken UTF-8 become visible escapes.
func Safe(s string) string { return escape(s, func(r rune) bool { return r == '\n' || r == '\t' }) }

// SafeLine is Safe for a single line: newlines and tabs become escapes, too.
func SafeLine(s string) string { return escape(s, func(rune) bool { return false }) }

func escape(s string, keep func(rune) bool) string {
	if clean(s, keep) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case keep(r) || shown(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
		i += n
	}
	return b.String()
}

func clean(s string, keep func(rune) bool) bool {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return false
			}
		}
		if !keep(r) && !shown(r) {
			return false
		}
	}
	return true
}

// shown reports whether a character puts something on the screen, where it
// stands in the text. Combining marks do, spaces other than the common one
// look like it and do not.
func shown(r rune) bool {
	return r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Zs, r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// Clip shortens a line to n characters.
func Clip(s string, n int) string {
	if n < 1 || utf8.RuneCountInString(s) <= n {
		return s
	}
	runes := []rune(s)
	return string(runes[:n-1]) + "…"
}
