package argtree_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/cmd/askance/internal/argtree"
)

func TestRender(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		width    int
		want     string
	}{
		{"members keep their order", `{"order_id":"A-1042","amount_cents":19900}`, 60, `
order_id      "A-1042"
amount_cents  19900`},
		{"levels", `{"customer":{"name":"Ann","tags":["vip","true",true]},"empty":{},"none":[],"null":null}`, 60, `
customer
  name  "Ann"
  tags  3 items
    1  "vip"
    2  "true"
    3  true
empty     {}
none      []
null      null`},
		{"numbers keep their digits", `{"n":9007199254740993,"x":1.10}`, 60, `
n  9007199254740993
x  1.10`},
		{"several lines", `{"script":"set -e\n\trm \u001b[2K\n"}`, 60, `
script  3 lines
        │ set -e
        │     rm ‹U+001B›[2K
        │`},
		{"a line breaks where the text or where the width ends", `{"s":"# 01234567890123456789\nrm"}`, 24, `
s  2 lines
   │ # 01234567890123456
   ┊ 789
   │ rm`},
		{"long values stay in their column", `{"note":"0123456789012345678901234567890"}`, 24, `
note  "01234567890123456
      78901234567890"`},
		{"a value pretends to be a member", `{"a":"1                      b   2"}`, 24, `
a  "1
      b   2"`},
		{"odd names", `{"a b":1,"":2,"p\u0430y":3}`, 60, `
"a b"         1
""            2
"p‹U+0430›y"  3`},
		{"a name longer than its column", `{"abcdefghijklmnopqrstuvwxyz0123456789":"v","b":1}`, 60, `
abcdefghijklmnopqrstuvwxyz0123456789
   "v"
b  1`},
		{"no object", `"just text"`, 60, `
"just text"`},
		{"no JSON", "{\"a\":\x1b", 60, `
{"a":‹U+001B›`},
		{"a duplicate name is not accepted as JSON", `{"a":1,"a":2}`, 60, `
{"a":1,"a":2}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, l := range argtree.Render(tc.in, tc.width, nil) {
				got = append(got, strings.TrimRight(l, " "))
			}
			if text := "\n" + strings.Join(got, "\n"); text != tc.want {
				t.Errorf("got%s\nwant%s", text, tc.want)
			}
		})
	}
}

// For any input, lines fit and contain nothing that a terminal would interpret.
func TestRenderIsHarmless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(rapid.String(), rapid.Map(value(3), func(v any) string {
			b, _ := json.Marshal(v)
			return string(b)
		})).Draw(t, "json")
		width := rapid.IntRange(24, 100).Draw(t, "width")
		harmless(t, in, width)
	})
}

func value(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.Float64Range(-1e9, 1e9), func(f float64) any { return f }), rapid.Just[any](nil), rapid.Just[any](true))
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(value(depth-1), 0, 4), func(v []any) any { return v }),
		rapid.Map(rapid.MapOfN(rapid.String(), value(depth-1), 0, 4), func(v map[string]any) any { return v }))
}

func harmless(t interface{ Errorf(string, ...any) }, in string, width int) {
	for _, l := range argtree.Render(in, width, nil) {
		if w := ansi.StringWidth(l); w > width {
			t.Errorf("%q becomes a line of %d columns, want at most %d: %q", in, w, width, l)
		}
		for _, r := range l {
			if !unicode.IsGraphic(r) {
				t.Errorf("%q is shown with %U", in, r)
			}
		}
	}
}

func FuzzRender(f *testing.F) {
	f.Add(`{"a":["b\u001b",{"c":1}]}`, 40)
	f.Fuzz(func(t *testing.T, in string, width int) {
		harmless(t, in, 24+max(0, width)%200)
	})
}
