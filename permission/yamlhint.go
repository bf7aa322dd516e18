package permission

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// syntaxHint says how to mend what the YAML parser could not read. line is the
// text of the line.
func syntaxHint(msg, line string) string {
	value := ""
	if _, after, ok := strings.Cut(line, ":"); ok {
		value = strings.TrimSpace(after)
	}
	switch {
	case strings.Contains(line, "\t"):
		return "indent with blanks, and write one behind a colon: YAML does not take tabs there"
	case strings.ContainsAny(line, "\u00a0\u2007\u202f\u3000"):
		return "the line has a blank that is none for YAML, as web pages and word processors write it: type it anew"
	case strings.HasPrefix(msg, "could not find end character"):
		return "a quote is opened and never closed"
	case strings.HasPrefix(msg, "found unknown escape"):
		return `in double quotes YAML reads \ for itself: write \\, or the whole in single quotes`
	case strings.HasPrefix(value, "*"):
		return `put it in quotes: "*"`
	case strings.Contains(value, ": "):
		return "a text with a colon and a blank in it must be in quotes, or in a block behind |"
	case strings.HasPrefix(value, `"`) || strings.HasPrefix(value, "'"):
		return "a text that begins with a quote ends at the next one: put the whole in quotes of the other kind, or in a block behind |"
	case strings.HasPrefix(value, "%") || strings.HasPrefix(value, "@") || strings.HasPrefix(value, "`"):
		return "a text must not begin so: put it in quotes"
	case strings.HasPrefix(msg, "non-map value"):
		return "a key has a colon and a blank behind it, as in behavior: ask; a line that goes on with a text begins further right than its key"
	case strings.Contains(msg, "not allowed in this context"), strings.Contains(msg, "unexpected"):
		return "keys that belong together begin in the same column"
	default:
		return ""
	}
}

// notUTF8 is where a file stops being UTF-8, and what it may be instead.
func notUTF8(data []byte) (line, col int, hint string) {
	hint = "save it as UTF-8"
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return 1, 1, "it looks like UTF-16: save it as UTF-8"
	}
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	line, col = position(data, at)
	return line, col, hint
}

// position is the place of a byte: line and column from 1, in characters.
func position(data []byte, at int) (line, col int) {
	start := bytes.LastIndexByte(data[:at], '\n') + 1
	return bytes.Count(data[:start], []byte("\n")) + 1, utf8.RuneCount(data[start:at]) + 1
}
