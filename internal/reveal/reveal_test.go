package reveal_test

import (
	"encoding/json"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/internal/reveal"
)

func TestText(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"ASCII", `rm -rf "/tmp"`, `rm -rf "/tmp"`},
		{"lines and tabs", "a\n\tb", "a\n    b"},
		{"German, French, emoji", "Grüße à Zoë 🧾 – 5€ „so“", "Grüße à Zoë 🧾 – 5€ „so“"},
		{"Russian", "Удалить а и оно в файле", "Удалить а и оно в файле"},
		{"Greek", "Καλημέρα και ο κόσμος", "Καλημέρα και ο κόσμος"},
		{"Japanese with Latin", "QRコードを見る", "QRコードを見る"},
		{"Arabic digits in Arabic", "عدد٥", "عدد٥"},
		{"escape sequence", "\x1b[2Kok", "‹U+001B›[2Kok"},
		{"carriage return", "safe\rrm", "safe‹U+000D›rm"},
		{"C1 control", "a\u009b31m", "a‹U+009B›31m"},
		{"right to left override", "a\u202eb", "a‹U+202E›b"},
		{"isolates", "\u2066a\u2069", "‹U+2066›a‹U+2069›"},
		{"zero width", "a\u200bb\ufeff", "a‹U+200B›b‹U+FEFF›"},
		{"spaces", "a\u00a0b\u3000c\u2800", "a‹U+00A0›b‹U+3000›c‹U+2800›"},
		{"tag characters", "a\U000e0041", "a‹U+E0041›"},
		{"variation selector", "a\ufe0f", "a‹U+FE0F›"},
		{"Hangul filler", "a\u3164", "a‹U+3164›"},
		{"broken UTF-8", "a\xffb", "a‹0xFF›b"},
		{"Cyrillic letter in a Latin word", "p\u0430ypal", "p‹U+0430›ypal"},
		{"Greek letter in a Latin word", "\u039fK", "‹U+039F›K"},
		{"a whole word that imitates", "\u0430\u0440\u0440\u04cf\u0435.com", "‹U+0430›‹U+0440›‹U+0440›‹U+04CF›‹U+0435›.com"},
		{"Cyrillic letter in a Russian text's Latin word", "файл p\u0430y", "файл p‹U+0430›y"},
		{"full width", "ｒｍ", "‹U+FF52›‹U+FF4D›"},
		{"mathematical", "\U0001d42b\U0001d426", "‹U+1D42B›‹U+1D426›"},
		{"Kelvin sign", "\u212a", "‹U+212A›"},
		{"fraction slash", "a\u2044b\u2215c", "a‹U+2044›b‹U+2215›c"},
		{"option with a dash", "rm –rf —force", "rm ‹U+2013›rf ‹U+2014›force"},
		{"range of numbers", "5–7", "5–7"},
		{"Bengali four for an eight", "\u09ea0", "‹U+09EA›0"},
		{"struck out", "a\u0336b", "a‹U+0336›b"},
		{"combining marks", "e\u0301 n\u0303", "e\u0301 n\u0303"},
		{"pile of marks", "e\u0301\u0302\u0303\u0304", "e\u0301\u0302‹U+0303›‹U+0304›"},
		{"mark on nothing", "a \u0301", "a ‹U+0301›"},
		{"a mark's own brackets", "‹U+0041›", "‹U+2039›U+0041‹U+203A›"},
		{"Greek question mark", "a\u037e", "a‹U+037E›"},
		{"object replacement", "a\ufffcb", "a‹U+FFFC›b"},
		{"blanks that count as graphic", "\U0001d159\U00013441", "‹U+1D159›‹U+13441›"},
		{"backticks", "\u1fefid\u02cb", "‹U+1FEF›id‹U+02CB›"},
		{"Arabic alef for an l", "\u0627ogin -\u0627 ca\u0627\u0627", "‹U+0627›ogin -‹U+0627› ca‹U+0627›‹U+0627›"},
		{"Arabic alef with a mark for an l", "ca\u0627\u064el e\u0301\u0627login", "ca‹U+0627›\u064el e\u0301‹U+0627›login"},
		{"Arabic with vowels", "كِتَابًا اَلْكِتَاب", "كِتَابًا اَلْكِتَاب"},
		{"Arabic", "اقرأ الملف والAPI", "اقرأ الملف والAPI"},
		{"Greek ordinals", "το 1ο άρθρο, του 2ου νόμου", "το 1ο άρθρο, του 2ου νόμου"},
		{"Greek digits in a Greek text", "ποσό 1ο0 και 1οο", "ποσό 1‹U+03BF›0 και 1‹U+03BF›ο"},
		{"Russian formulas", "выброс СО2 и Н2О", "выброс СО2 и Н2О"},
		{"no Russian formulas", "код СО25, СО2", "код С‹U+041E›25, СО2"},
		{"a formula without Russian", "СО2", "‹U+0421›‹U+041E›2"},
		{"Cyrillic digits in a Russian text", "цена 1О00 и З5, дом 10б", "цена 1‹U+041E›00 и ‹U+0417›5, дом 10б"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := reveal.Text(tc.in); got != tc.want {
				t.Errorf("Text(%q) = %q, want %q", tc.in, got, tc.want)
			}
			if got, want := reveal.Hidden(tc.in), strings.ReplaceAll(tc.in, "\t", "    ") != tc.want; got != want {
				t.Errorf("Hidden = %v, want %v", got, want)
			}
		})
	}
	if got := reveal.Line("a\n\tb"); got != "a‹U+000A›‹U+0009›b" {
		t.Errorf("Line = %q", got)
	}
}

// Names in every script are readable. Invisible and direction characters are marked.
func TestName(t *testing.T) {
	for _, tc := range []struct {
		in, want string
		mixed    bool
	}{
		{"ann", "ann", false},
		{"Åsa Ünal", "Åsa Ünal", false},
		{"李小龙", "李小龙", false},
		{"Ольга", "Ольга", false},
		{"Сара Росс", "Сара Росс", false},
		{"Αννα", "Αννα", false},
		{"Նարե", "Նարե", false},
		{"ᏣᎳᎩ", "ᏣᎳᎩ", false},
		{"علی\u200cرضا", "علی\u200cرضا", false},
		{"Зоя O’Neill–Ross", "Зоя O’Neill–Ross", false},
		{"p\u0430ypal", "p\u0430ypal", true},
		{"a\u200cb", "a‹U+200C›b", false},
		{"an\u202en\u2066", "an‹U+202E›n‹U+2066›", false},
		{"an\x1b[2Kn\n", "an‹U+001B›[2Kn‹U+000A›", false},
		{"an\u200bn", "an‹U+200B›n", false},
		{"\xffann", "‹0xFF›ann", false},
		{"‹U+0041›", "‹U+2039›U+0041‹U+203A›", false},
		{"a\u0336nn", "a‹U+0336›nn", false},
	} {
		if got := reveal.Name(tc.in); got != tc.want || reveal.Mixed(tc.in) != tc.mixed {
			t.Errorf("Name(%q) = %q, mixed %v, want %q, %v", tc.in, got, reveal.Mixed(tc.in), tc.want, tc.mixed)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := interestingText().Draw(t, "text")
		shown := reveal.Name(in)
		if got := back(shown); got != in {
			t.Fatalf("%q is shown as %q, which reads back as %q", in, shown, got)
		}
		if strings.ContainsFunc(strings.NewReplacer("\u200c", "", "\u200d", "").Replace(shown), reveal.Invisible) {
			t.Fatalf("%q is shown with an invisible character: %q", in, shown)
		}
	})
}

var mark = regexp.MustCompile(`‹(U\+|0x)([0-9A-F]+)›`)

// back recovers a text from what Line shows.
func back(s string) string {
	return mark.ReplaceAllStringFunc(s, func(m string) string {
		parts := mark.FindStringSubmatch(m)
		n, _ := strconv.ParseUint(parts[2], 16, 32)
		if parts[1] == "0x" {
			return string([]byte{byte(n)})
		}
		return string(rune(n))
	})
}

// interestingText draws texts with many characters that the package treats specially.
func interestingText() *rapid.Generator[string] {
	odd := rapid.SampledFrom([]rune("aZ09 _-\n\t\x1b\r\u009b\u202e\u200b\u0430\u03bf\u0301\u0336‹›U+ｒ\u2044–٥ध日\U0001d42b\U000e0041\ufffd"))
	return rapid.OneOf(
		rapid.Map(rapid.SliceOf(odd), func(r []rune) string { return string(r) }),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.String(),
	)
}

func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := interestingText().Draw(t, "text")
		shown := reveal.Line(in)
		if got := back(shown); got != in {
			t.Fatalf("%q is shown as %q, which reads back as %q", in, shown, got)
		}
		for _, r := range shown {
			if !unicode.IsGraphic(r) || r != ' ' && unicode.IsSpace(r) {
				t.Fatalf("%q is shown with %U", in, r)
			}
		}
	})
}

func TestEscapeKeepsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := strings.ToValidUTF8(interestingText().Draw(t, "text"), "?")
		raw, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		safe := reveal.Escape(string(raw))
		var got string
		if err := json.Unmarshal([]byte(safe), &got); err != nil || got != in {
			t.Fatalf("Escape(%s) = %s, which is %q, %v", raw, safe, got, err)
		}
		if reveal.Hidden(safe) {
			t.Fatalf("Escape(%s) = %s still hides something", raw, safe)
		}
	})
}

// streamText shows a text that is cut into pieces of these sizes in bytes.
func streamText(text string, pieces []int) string {
	var s reveal.Stream
	var b strings.Builder
	for _, n := range pieces {
		n = min(n, len(text))
		b.WriteString(s.Write(text[:n]))
		text = text[n:]
	}
	b.WriteString(s.Write(text))
	b.WriteString(s.End())
	return b.String()
}

func TestStream(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"ASCII", "one two", "one two"},
		{"a word that is cut", "p\u0430ypal", "p‹U+0430›ypal"},
		{"Russian", "Удалить а и оно", "Удалить а и оно"},
		{"not known yet to be Russian", "а удалить", "‹U+0430› удалить"},
		{"option with a dash", "rm –rf", "rm ‹U+2013›rf"},
		{"a dash at the end", "so –", "so ‹U+2013›"},
		{"lines and tabs", "a\n\tb", "a\n    b"},
		{"a word without end", "ж" + strings.Repeat("x", 1100) + "ж ж", "‹U+0436›" + strings.Repeat("x", 1100) + "‹U+0436› ж"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3} {
				pieces := make([]int, len(tc.in)/size)
				for i := range pieces {
					pieces[i] = size
				}
				if got := streamText(tc.in, pieces); got != tc.want {
					t.Errorf("in pieces of %d: %q, want %q", size, got, tc.want)
				}
			}
		})
	}
}

func TestStreamMarksNoLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := strings.ReplaceAll(interestingText().Draw(t, "text"), "\t", " ")
		got := streamText(in, rapid.SliceOf(rapid.IntRange(0, 9)).Draw(t, "pieces"))
		if back(got) != in {
			t.Fatalf("%q is shown as %q, which reads back as %q", in, got, back(got))
		}
		for whole, shown := reveal.Text(in), got; whole != ""; {
			w, s := leadingText(whole), leadingText(shown)
			if len(w) > utf8.UTFMax && s != w {
				t.Fatalf("%q is shown as %q, in pieces as %q", in, reveal.Text(in), got)
			}
			whole, shown = whole[len(w):], shown[len(s):]
		}
	})
}

// leadingText returns the first mark or character of a shown text.
func leadingText(s string) string {
	if at := mark.FindStringIndex(s); at != nil && at[0] == 0 {
		return s[:at[1]]
	}
	_, n := utf8.DecodeRuneInString(s)
	return s[:n]
}

func FuzzLine(f *testing.F) {
	f.Add("p\u0430y\x1b[2K")
	f.Fuzz(func(t *testing.T, in string) {
		if got := back(reveal.Line(in)); got != in {
			t.Errorf("%q is shown as something that reads back as %q", in, got)
		}
	})
}

// The work for a text grows with its length, not with the square of it.
func TestLongText(t *testing.T) {
	text := strings.Repeat("line: the quick brown fox\n", 2000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if got := reveal.Text(text); got != text {
		t.Errorf("a plain text of %d bytes changed", len(text))
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 100*uint64(len(text)) {
		t.Errorf("a text of %d bytes took %d bytes of memory", len(text), used)
	}
	began := time.Now()
	reveal.Text(strings.Repeat("\u0301", 40_000))
	if took := time.Since(began); took > 10*time.Second { // a minute if each mark looks at all later ones
		t.Errorf("a text of combining marks took %s", took)
	}
}
