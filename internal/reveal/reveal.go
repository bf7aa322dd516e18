package reveal

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line reveals a text that is shown on one line: line breaks and tabs become marks, too.
func Line(s string) string { return markText(s, false) }

// Text reveals a text of several lines. Line breaks stay. A tab becomes four spaces, because
// its width depends on the terminal.
func Text(s string) string { return expandTabs(markText(s, true)) }

func expandTabs(s string) string { return strings.ReplaceAll(s, "\t", "    ") }

// Name reveals the name of a person or a program, on one line. Letters of every script are
// unchanged, because a name is not compared with a command. See [Mixed].
func Name(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	show := marker(&b, false)
	before, piled := rune(0), 0
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		piece := s[:n]
		s = s[n:]
		next, _ := utf8.DecodeRuneInString(s)
		if piled++; !unicode.Is(unicode.Mn, r) && !unicode.Is(unicode.Me, r) {
			piled = 0
		}
		broken := r == utf8.RuneError && n == 1
		show(piece, r, broken || Invisible(r) && !isJoiner(r, before, next) || isLoose(r, before, piled) || r == '‹' || r == '›')
		before = r
	}
	return b.String()
}

// MarkedName is Name for places that cannot show next to a name that it is [Mixed], such as a
// terminal: the look-alike letters of such a name become marks.
func MarkedName(s string) string {
	if Mixed(s) {
		return Line(s)
	}
	return Name(s)
}

// isJoiner reports whether r joins or separates two letters of a script that uses joiners,
// such as Persian or Hindi.
func isJoiner(r, before, next rune) bool {
	writes := func(r rune) bool { return r >= 0x600 && r < 0x1100 && (unicode.IsLetter(r) || unicode.IsMark(r)) }
	return (r == 0x200c || r == 0x200d) && writes(before) && writes(next)
}

// Mixed reports whether a word of a name has Latin letters and letters of another
// alphabet that look like them.
func Mixed(s string) bool {
	for len(s) > 0 {
		n := wordLen(s)
		word := s[:n]
		s = s[n:]
		latin := strings.ContainsFunc(word, func(r rune) bool { return unicode.Is(unicode.Latin, r) })
		if latin && strings.ContainsFunc(word, func(r rune) bool { return relativeOf(r) >= 0 }) {
			return true
		}
	}
	return false
}

// Hidden reports whether a character of s would become a mark in Text.
func Hidden(s string) bool { return !isPlain(s) && markText(s, true) != s }

// Mark returns the mark for a character that is not shown as itself.
func Mark(r rune) string { return fmt.Sprintf("‹U+%04X›", r) }

// Escape replaces every character that would become a mark with a JSON escape, which does not
// change the JSON value. s must be JSON, in which such characters occur only inside strings.
func Escape(s string) string {
	for range 4 { // an escape can make its neighbour suspicious
		if !Hidden(s) {
			return s
		}
		s = escapeRunes(s, func(_ rune, hidden bool) bool { return hidden })
	}
	return escapeRunes(s, func(r rune, _ bool) bool { return r >= 0x80 })
}

func escapeRunes(s string, which func(r rune, hidden bool) bool) string {
	var b strings.Builder
	each(s, func(piece string, r rune, hidden bool) {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || r == utf8.RuneError || !which(r, hidden):
			b.WriteString(piece)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	})
	return b.String()
}

func markText(s string, lines bool) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	each(s, marker(&b, lines))
	return b.String()
}

// marker returns a function that writes characters as they are shown.
func marker(b *strings.Builder, lines bool) func(piece string, r rune, hidden bool) {
	return func(piece string, r rune, hidden bool) {
		switch {
		case lines && (r == '\n' || r == '\t'), !hidden:
			b.WriteString(piece)
		case r == utf8.RuneError && len(piece) == 1:
			fmt.Fprintf(b, "‹0x%02X›", piece[0])
		default:
			b.WriteString(Mark(r))
		}
	}
}

// isPlain reports whether s is printable ASCII throughout, as most texts are.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// each walks over the characters of s, word by word, and reports for each whether it must be
// hidden. A broken byte is a piece of its own, with utf8.RuneError.
func each(s string, f func(piece string, r rune, hidden bool)) {
	w := walk{native: nativeScripts(s)}
	for len(s) > 0 {
		n := wordLen(s)
		w.word(s[:n], s[n:], f)
		s = s[n:]
	}
}

// walk is the state of a walk over a text.
type walk struct {
	native map[int]bool // the scripts that it is written in
	before rune         // the previous character; 0 at the beginning
	base   rune         // the previous one that is not a combining mark
	piled  int          // number of combining marks since the last other character
}

// word walks over the next word; after is the text that follows it.
func (w *walk) word(word, after string, f func(piece string, r rune, hidden bool)) {
	alike, honest := judge(word, w.native), word == "СО2" || word == "Н2О"
	for len(word) > 0 {
		r, n := utf8.DecodeRuneInString(word)
		piece := word[:n]
		word = word[n:]
		next := rune(0) // only of a base character: a mark imitates none
		if !unicode.IsMark(r) {
			next, _ = utf8.DecodeRuneInString(cmp.Or(strings.TrimLeftFunc(word, unicode.IsMark), after))
		}
		if unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r) {
			w.piled++
		} else {
			w.piled = 0
		}
		broken := r == utf8.RuneError && n == 1
		hidden := broken || Invisible(r) || !honest && imitates(r, w.base, next) || alike(r) || isLoose(r, w.before, w.piled)
		f(piece, r, hidden)
		if w.before = r; !unicode.IsMark(r) {
			w.base = r
		}
	}
}

// wordLen is the length of the word at the beginning of s, or of the one character there that
// belongs to no word.
func wordLen(s string) int {
	n := 0
	for i, r := range s {
		if !inWord(r) {
			break
		}
		n = i + utf8.RuneLen(r)
	}
	if n == 0 {
		_, n = utf8.DecodeRuneInString(s)
	}
	return n
}

func inWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '_')
}

// blank contains characters that count as graphic and show nothing: the empty Braille pattern, the
// object replacement character, which browsers omit, and blanks of musical and ancient scripts.
const blank = "\u2800\ufffc\U0001d159\U00013441\U00013442\U00016fe4"

// Invisible reports whether terminals obey a character, or it changes the direction of text,
// or it shows nothing. The ordinary space is none of these.
func Invisible(r rune) bool {
	switch {
	case r == ' ':
		return false
	case strings.ContainsRune(blank, r):
		return true
	}
	return !unicode.IsGraphic(r) || unicode.IsSpace(r) || unicode.Is(unicode.Zs, r) ||
		unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.Is(unicode.Variation_Selector, r)
}

// isLoose reports whether a combining mark strikes out or encloses its letter, has no letter,
// or is one too many.
func isLoose(r, before rune, piled int) bool {
	if !unicode.IsMark(r) {
		return false
	}
	over := r >= 0x0334 && r <= 0x0338 || r >= 0x20d0 && r <= 0x20ff || unicode.Is(unicode.Me, r)
	return over || piled > 2 || before == 0 || !unicode.IsLetter(before) && !unicode.IsMark(before)
}

// Cell makes a CSV cell from s: text that a spreadsheet could take for a formula gets a
// leading apostrophe.
func Cell(s string) string {
	text := strings.TrimLeft(s, " \u00a0\u3000\t\r\n\v\f")
	if text == "" {
		return s
	}
	first, _ := utf8.DecodeRuneInString(text)
	if strings.ContainsRune("=+-@\uff1d\uff0b\uff0d\uff20", first) || strings.ContainsRune("\t\r\n", rune(s[0])) {
		return "'" + s
	}
	return s
}

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

// The letters and digits that look like ASCII, from the scripts whose alphabets are related
// to the Latin one.
const (
	cyrillicAlike = "аеорсухѕіјһԁԛԝѵӏгкптвмнАВЕЗЅІЈКМНОРСТУХҮӀԌԚԜѴҺԀԐ"
	greekAlike    = "αβγδενικοπρτυχωϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϜϹͿ"
	armenianAlike = "օսոցհզքյՕՏՍԼ"
)

// relatives are the scripts from which letters are borrowed to imitate Latin.
var relatives = []struct {
	table *unicode.RangeTable
	alike string // all of its letters that imitate; "" means any may
}{
	{unicode.Cyrillic, cyrillicAlike},
	{unicode.Greek, greekAlike},
	{unicode.Armenian, armenianAlike},
	{unicode.Cherokee, ""},
	{unicode.Coptic, ""},
	{unicode.Lisu, ""},
	{unicode.Deseret, ""},
	{unicode.Gothic, ""},
	{unicode.Old_Italic, ""},
	{unicode.Carian, ""},
	{unicode.Lycian, ""},
	{unicode.Lydian, ""},
	{unicode.Tifinagh, ""},
	{unicode.Osage, ""},
	{unicode.Warang_Citi, ""},
	{unicode.Canadian_Aboriginal, ""},
}

// relativeOf returns the index of r's script in relatives, or -1.
func relativeOf(r rune) int {
	if r < 0x370 {
		return -1
	}
	for i, s := range relatives {
		if unicode.Is(s.table, r) {
			return i
		}
	}
	return -1
}

// nativeScripts returns the relatives in which s is written: those with a letter that
// imitates nothing.
func nativeScripts(s string) map[int]bool {
	native := map[int]bool{}
	for _, r := range s {
		if i := relativeOf(r); i >= 0 && relatives[i].alike != "" && !strings.ContainsRune(relatives[i].alike, r) {
			native[i] = true
		}
	}
	return native
}

// judge returns the test for the characters of one word. In a word with ASCII letters, those
// of a relative are hidden, even if the text has words of that script. In a word without
// ASCII letters they are hidden if the whole word imitates and the text is not in that script.
func judge(word string, native map[int]bool) func(rune) bool {
	var ascii, foreignDigit, other bool // other: a dead letter that imitates nothing
	scripts := map[int]bool{}
	for _, r := range word {
		i := relativeOf(r)
		switch {
		case r < 0x80 && unicode.IsLetter(r):
			ascii = true
		case r >= 0x80 && unicode.IsDigit(r):
			foreignDigit = true
		case i >= 0:
			scripts[i] = true
			alike := relatives[i].alike
			other = other || native[i] || alike != "" && !strings.ContainsRune(alike, r)
		case unicode.IsLetter(r) && r >= 0x80 && !unicode.Is(unicode.Latin, r):
			other = true
		}
	}
	latin := ascii || strings.ContainsFunc(word, func(r rune) bool { return unicode.Is(unicode.Latin, r) })
	if len(scripts) == 0 && !foreignDigit {
		return func(rune) bool { return false }
	}
	hideLetters := latin || len(scripts) > 1 || !other
	return func(r rune) bool {
		switch {
		case relativeOf(r) >= 0:
			return hideLetters
		case r >= 0x80 && unicode.IsDigit(r):
			return latin || !other && len(scripts) == 0
		}
		return false
	}
}

// imitation contains characters that look like ASCII ones and are not used in ordinary
// text.
const imitation = "⁄∕⧸╱〳" + // slash
	"∖⧵⧹╲" + // backslash
	"․܁܂ꓸ۔" + // full stop
	"\u2010\u2011‒⁃−˗" + // hyphen
	"∶꞉ː׃։" + // colon
	"\u037e" + // semicolon
	"ǃ" + // exclamation mark
	"∣ǀ❘⏐" + // bar
	"∗⁎" + // asterisk
	"∼˜⁓" + // tilde
	"˂˃❮❯‹›" + // angles, those of the marks among them
	"꞊゠⹀" + // equals sign
	"‚٫" + // comma
	"٪" + // percent sign
	"ʹʺˈ׳" + // quotes
	"\u1fef\u02cb" + // backtick
	"︰" // two dot leader

// imitates reports whether a character is an ASCII one in disguise. before and next are its neighbours
// without combining marks.
func imitates(r, before, next rune) bool {
	switch {
	case r < 0x80:
		return false
	case r >= 0x250 && r <= 0x2af, // IPA: ɑ, ɡ, ɩ
		r >= 0x1d00 && r <= 0x1dbf,                        // small capitals
		r >= 0x2100 && r <= 0x214f && unicode.IsLetter(r), // ℓ, the Kelvin sign
		r >= 0x2160 && r <= 0x217f,                        // Roman numerals
		r >= 0xa720 && r <= 0xa7ff && r != 0xa7ff,         // Latin Extended-D
		r >= 0xfe50 && r <= 0xfe6f,                        // small forms
		r >= 0xff01 && r <= 0xff5e,                        // full-width forms
		r >= 0x1d400 && r <= 0x1d7ff,                      // mathematical letters
		r >= 0x1f100 && r <= 0x1f1ff:                      // enclosed letters and flags' letters
		return true
	case r == '–' || r == '—': // between words it is a dash, but before a word it may look like an option
		return next != ' ' && !(unicode.IsDigit(before) && unicode.IsDigit(next))
	case isAlef(r): // between Arabic letters it is one, elsewhere it looks like an l
		return !writesArabic(before) && !writesArabic(next)
	case r == 'ο': // "1ο" and "1ου" are Greek ordinals
		return isDigit(next) || isDigit(before) && strings.ContainsRune(digitAlike, next)
	case strings.ContainsRune(digitAlike, r): // also in a Russian text
		return isDigit(before) || isDigit(next)
	}
	return strings.ContainsRune(imitation, r)
}

// digitAlike contains Cyrillic and Greek letters that look like a digit next to one.
const digitAlike = "ОоЗзΟο"

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func isAlef(r rune) bool { return r == 0x627 || r == 0xfe8d || r == 0x1ee00 }

func writesArabic(r rune) bool {
	return !isAlef(r) && unicode.Is(unicode.Arabic, r)
}
