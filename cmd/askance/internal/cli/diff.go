package cli

import (
	"strings"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
)

// diffText paints lines by what became of them.
func diffText(on *term.Out, lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		paint := on.Dim
		switch l[0] {
		case '-':
			paint = on.Bad
		case '+':
			paint = on.Good
		}
		b.WriteString(paint(term.Safe(l)) + "\n")
	}
	return b.String()
}
