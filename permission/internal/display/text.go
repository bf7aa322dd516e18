// Package display prepares texts from rules and inputs for people: bounded, on one line, and
// without invisible characters.
package display

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits on texts made from rules and inputs, in bytes.
const (
	MaxMessage    = 5 << 10 // of a rule's message
	MaxReasonExpr = 200     // of a condition repeated in a reason
	MaxErrorText  = 500     // of an error repeated in a decision
)

// Shorten cuts s to at most n bytes at a character boundary.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// OneLine replaces every run of white space by one space.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// IsMisleading reports whether a character can make a file look like something else: control
// characters, which terminals obey, bidirectional ones, and line separators that YAML does not
// treat as line ends.
func IsMisleading(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case unicode.Is(unicode.Cc, r), r == '\u2028', r == '\u2029', r == '\ufeff', unicode.Is(unicode.Bidi_Control, r):
		return true
	}
	return false
}

// Visible escapes what a person could not see, or would see as something else: control and format
// characters (above all bidirectional overrides) and broken UTF-8. Newlines and tabs stay.
func Visible(s string) string {
	if allPlain(s) {
		return s
	}
	clean := func(r rune) bool {
		return r == '\n' || r == '\t' || (r != utf8.RuneError && !unicode.Is(unicode.Cc, r) &&
			!unicode.Is(unicode.Cf, r) && r != '\u2028' && r != '\u2029')
	}
	if strings.IndexFunc(s, func(r rune) bool { return !clean(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if clean(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}

// allPlain reports whether a text has only printable ASCII, newlines and tabs, as nearly all do.
func allPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\n' && c != '\t') || c > '~' {
			return false
		}
	}
	return true
}

// Quoted formats a tool or rule name for people.
func Quoted(name string) string { return Visible(Shorten(name, 200)) }
