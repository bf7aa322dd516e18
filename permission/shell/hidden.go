package shell

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Hidden is a character that hides from a person who reads a command what
// runs. A line that has one is denied, not asked about: no person could
// answer the approval request.
type Hidden struct {
	Offset int    // in bytes
	Char   rune   // utf8.RuneError where the text is not UTF-8
	What   string // the kind of character, in words
}

// String names the character and its place.
func (h *Hidden) String() string {
	if h.Char == utf8.RuneError {
		return fmt.Sprintf("%s at byte %d", h.What, h.Offset)
	}
	return fmt.Sprintf("%s U+%04X at byte %d", h.What, h.Char, h.Offset)
}

// findHidden returns the first character that a person cannot see, nil if
// there is none.
func findHidden(text string) *Hidden {
	for i := 0; i < len(text); {
		if c := text[i]; c >= ' ' && c < 0x7f || c == '\n' || c == '\t' {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 {
			return &Hidden{Offset: i, Char: utf8.RuneError, What: "invalid UTF-8"}
		}
		if what := hiddenKind(r); what != "" {
			return &Hidden{Offset: i, Char: r, What: what}
		}
		i += size
	}
	return nil
}

func hiddenKind(r rune) string {
	switch {
	case r == '\n' || r == '\t':
		return ""
	case unicode.Is(unicode.Cc, r):
		return "control character"
	case unicode.Is(unicode.Cf, r):
		return "format character"
	case r == 0x2028 || r == 0x2029:
		return "line separator"
	case emojiStyle(r):
		return "" // part of common emoji; oddRune lets no allow rule cover it
	case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r), unicode.Is(unicode.Variation_Selector, r):
		return "invisible character"
	}
	return ""
}

// emojiStyle are the variation selectors that choose between text and emoji.
func emojiStyle(r rune) bool { return r >= 0xFE00 && r <= 0xFE0F }

// oddRune says whether a character, outside quotes, may look like something
// else: like a blank, or like nothing. Such lines are asked about.
func oddRune(r rune) bool {
	return r >= utf8.RuneSelf && (emojiStyle(r) || !unicode.IsPrint(r))
}
