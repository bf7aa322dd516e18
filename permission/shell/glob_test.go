package shell

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// expression returns the meaning of a wildcard as a regular expression: \* is a star, and a final
// " *" also matches nothing.
func expression(content string) *regexp.Regexp {
	body, rest := strings.CutSuffix(content, " *")
	var b strings.Builder
	for i := 0; i < len(body); i++ {
		switch {
		case body[i] == '*':
			b.WriteString(".*")
			continue
		case body[i] == '\\' && i+1 < len(body) && (body[i+1] == '*' || body[i+1] == '\\'):
			i++
		}
		b.WriteString(regexp.QuoteMeta(body[i : i+1]))
	}
	if rest {
		b.WriteString("( .*)?")
	}
	return regexp.MustCompile("(?s)^(?:" + b.String() + ")$")
}

func TestGlobIsTheExpression(t *testing.T) {
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		draw := func(letters string, most int) string {
			return string(rapid.SliceOfN(rapid.SampledFrom([]byte(letters)), 0, most).Draw(t, letters))
		}
		content := draw(`ab *\`, 8)
		if rapid.Bool().Draw(t, "rest") {
			content += " *"
		}
		g, want := readGlob(content), expression(content)
		for range 10 {
			text := draw("ab \n*\\", 8)
			if rapid.Bool().Draw(t, "near") {
				text = strings.ReplaceAll(content, "*", text)
			}
			got := g.matchesText(text)
			if got != want.MatchString(text) {
				t.Fatalf("%q matches %q: %v", content, text, got)
			}
			if got {
				matched++
			}
		}
	})
	if matched == 0 {
		t.Error("nothing matched")
	}
}
