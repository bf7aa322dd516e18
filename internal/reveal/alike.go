package reveal

import (
	"strings"
	"unicode"
)

// The letters and digits that look like ASCII, from the scripts whose alphabets are related
// to the Latin one.
const (
	cyrillicAlike = "аеорсухѕіјһԁԛԝѵӏгкптвмнАВЕЅІЈКМНОРСТУХҮӀԌԚԜѴҺԀԐ"
	greekAlike    = "αβγδενικοπρτυχωϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿ"
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
	"︰" // two dot leader

// imitates reports whether a character is an ASCII one in disguise.
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
	}
	return strings.ContainsRune(imitation, r)
}
