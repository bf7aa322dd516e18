package reveal

import (
	"maps"
	"strings"
	"unicode/utf8"
)

// maxHeld bounds what a stream holds back, in bytes. Of a longer word, which cannot be judged
// as a whole, only ASCII is shown unmarked.
const maxHeld = 1024

// Stream reveals a text of several lines that arrives in pieces, cut anywhere, as [Text]
// reveals a whole one. A word is shown once it is followed by something. Only the beginning of
// the text tells in which scripts it is written, so a word may be marked that Text leaves
// unmarked, but never the other way round. The zero value is ready to use. It is not safe for
// concurrent use.
type Stream struct {
	walk walk
	held string
	long bool // in the middle of a word longer than maxHeld
}

// Write adds the next piece and returns what can be shown now.
func (s *Stream) Write(piece string) string { return s.show(piece, false) }

// End returns what is left, and begins another text.
func (s *Stream) End() string {
	shown := s.show("", true)
	*s = Stream{}
	return shown
}

func (s *Stream) show(piece string, end bool) string {
	text := s.held + piece
	if s.walk.native == nil {
		s.walk.native = map[int]bool{}
	}
	maps.Copy(s.walk.native, nativeScripts(text))
	var b strings.Builder
	for len(text) > 0 {
		n := wordLen(text)
		last := n == len(text)
		if !end && (last && n <= maxHeld && !s.long || !isWhole(text) || !last && !isWhole(text[n:])) {
			break
		}
		s.word(text[:n], text[n:], last && !end, &b)
		text = text[n:]
	}
	s.held = text
	return expandTabs(b.String())
}

// word shows a word, or a part of one that is too long.
func (s *Stream) word(word, after string, part bool, b *strings.Builder) {
	show := marker(b, true)
	first, _ := utf8.DecodeRuneInString(word)
	s.long = inWord(first) && (s.long || part)
	s.walk.word(word, after, func(piece string, r rune, hidden bool) { show(piece, r, hidden || s.long && r >= utf8.RuneSelf) })
}

// isWhole reports whether a text does not begin with a part of a character.
func isWhole(text string) bool { return utf8.FullRuneInString(text) }
