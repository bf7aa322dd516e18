package toolcall_test

import (
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/toolcall"
)

// TestCheckName: a name that looks like another name is invalid.
func TestCheckName(t *testing.T) {
	for _, good := range []string{"ann", "Ann Müller", "ann@example.com", "Вера", "山田 太郎", "M\u00fcller", "नमस्ते", "o'neil", "team/app-1"} {
		if err := toolcall.CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", " ann", "ann ", "a\tb", "ann\u200b", "ad\u202emin", "ann\u00a0b", "ann\u2003b", "a\u00adnn", "ann\ufe0f", "ann\u3164", "ann\U000e0041", "\ufeffann", "a\xff", "ann\u2028", "ann\ue000", "Mu\u0308ller", "askance-gateway", "Askance-Gateway"} {
		if toolcall.CheckName(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestSamePerson: a name in another case or Unicode form is not a second person.
func TestSamePerson(t *testing.T) {
	forms := map[string]func(string) string{
		"upper case": strings.ToUpper, "lower case": strings.ToLower, "NFC": norm.NFC.String, "NFD": norm.NFD.String, "NFKC": norm.NFKC.String, "NFKD": norm.NFKD.String,
		"upper case in Turkish": func(s string) string { return strings.ToUpperSpecial(unicode.TurkishCase, s) },
		"lower case in Turkish": func(s string) string { return strings.ToLowerSpecial(unicode.TurkishCase, s) },
	}
	letters := rapid.OneOf(rapid.SampledFrom([]rune("aijhtwyIJHTWYİıįⅰ\u0301\u0308\u030a\u030c\u0307\u0323\u0328\u0331\u0345\u02beßſKÅﬁﬀａＡǰẖẗẘẙΐΰᾳᾼςσι")), rapid.RuneFrom(nil, unicode.Latin, unicode.Greek, unicode.Cyrillic))
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringOfN(letters, 1, 4, -1).Draw(t, "name")
		if key := toolcall.PersonKey(name); toolcall.PersonKey(key) != key {
			t.Fatalf("the key of %q is %q, whose key is %q", name, key, toolcall.PersonKey(key))
		}
		for form, of := range forms {
			for second, again := range forms {
				if other := again(of(name)); !toolcall.IsSamePerson(name, other) {
					t.Fatalf("%q in %s and %s is %q, another person", name, form, second, other)
				}
			}
		}
	})
}

// TestSamePersonTable: the letters i of Turkish are one letter, and all other accents separate people.
func TestSamePersonTable(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"İpek", "ipek", true}, {"İpek", "i\u0307pek", true}, {"Işıl", "IŞIL", true}, {"ışıl", "ISIL", false}, {"ILGIN", "ılgın", true},
		{"żak", "zak", false}, {"jan", "j\u0307an", false}, {"íris", "iris", false},
	} {
		if got := toolcall.IsSamePerson(c.a, c.b); got != c.same {
			t.Errorf("IsSamePerson(%q, %q) = %t, want %t", c.a, c.b, got, c.same)
		}
	}
}
