package term_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/reveal"
)

// TestSafe: the commands show text as the inboxes do; internal/reveal defines how.
func TestSafe(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"plain", "rm -rf /", "rm -rf /"},
		{"lines stay", "a\n\tb", "a\n    b"},
		{"umlauts and emoji stay", "Grüße 🧾", "Grüße 🧾"},
		{"escape sequence", "\x1b[2Kok", "‹U+001B›[2Kok"},
		{"right to left override", "a\u202eb", "a‹U+202E›b"},
		{"a letter that looks like another", "p\u0430y", "p‹U+0430›y"},
		{"broken UTF-8", "a\xffb", "a‹0xFF›b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := term.Safe(tc.in); got != tc.want || got != reveal.Text(tc.in) {
				t.Errorf("Safe(%q) = %q, want %q", tc.in, got, tc.want)
			}
			if got, want := term.SafeLine(tc.in), reveal.Line(tc.in); got != want {
				t.Errorf("SafeLine(%q) = %q, want %q as in the inboxes", tc.in, got, want)
			}
		})
	}
	if got := term.SafeLine("a\n\tb"); got != "a‹U+000A›‹U+0009›b" {
		t.Errorf("SafeLine = %q", got)
	}
}

func TestSafeHasNoControls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		for _, r := range term.SafeLine(in) {
			if r < 0x20 || r >= 0x7f && r < 0xa0 {
				t.Fatalf("SafeLine(%q) has %U", in, r)
			}
		}
	})
}

func TestNoColourWithoutTerminal(t *testing.T) {
	o := term.New(&bytes.Buffer{})
	if o.Terminal() {
		t.Error("a buffer counts as a terminal")
	}
	for _, s := range []string{o.Good("x"), o.Bad("x"), o.Ask("x"), o.Work("x"), o.Name("x"), o.Who("x"), o.Dim("x"), o.Bold("x")} {
		if s != "x" {
			t.Errorf("painted %q for a buffer", s)
		}
	}
}

func TestWrapper(t *testing.T) {
	var b strings.Builder
	w := term.Wrapper{Out: func(s string) { b.WriteString(s) }, Indent: "  ", Width: 12}
	for _, piece := range []string{"one tw", "o three", " four\nfive incomprehensibilities six"} {
		w.Write(piece)
	}
	w.Flush()
	want := "  one two\n  three four\n  five\n  incomprehensibilities\n  six\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestClip(t *testing.T) {
	if got := term.Clip("äöüß", 3); got != "äö…" {
		t.Errorf("Clip = %q", got)
	}
	if got := term.Clip("请在明天", 5); got != "请在…" {
		t.Errorf("Clip = %q", got)
	}
	if got := term.Clip("abc", 3); got != "abc" {
		t.Errorf("Clip = %q", got)
	}
}

func TestFit(t *testing.T) {
	help := `A paragraph whose
lines are too long for the terminal, and --a-flag.

A list:
- an item whose line is too long for the terminal
- a short item

  askance command --with "many words" --that stay on one line
  askance command  # and a comment that stays on its line, too
  -f, --flag string   what the flag means (default "x")
  --short   it fits
      a setting without a label on its own line
`
	want := `A paragraph whose lines are too long for the
terminal, and --a-flag.

A list:
- an item whose line is too long for the
  terminal
- a short item

  askance command --with "many words" --that stay on one line
  askance command  # and a comment that stays on its line, too
  -f, --flag string   what the flag means
                      (default "x")
  --short   it fits
      a setting without a label on its own
      line
`
	if got := term.Fit(help, 46); got != want {
		t.Errorf("Fit =\n%s\nwant\n%s", got, want)
	}
	if got := term.Fit(help, 80); got != help {
		t.Errorf("Fit changed what fits:\n%s", got)
	}
}
