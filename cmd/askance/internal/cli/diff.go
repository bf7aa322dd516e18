package cli

import (
	"strings"

	"github.com/askance-dev/askance/internal/linediff"
)

// diffText shows what changes between two texts, line by line.
func (a *app) diffText(before, after string) string {
	var b strings.Builder
	for _, l := range linediff.Lines(strings.Split(before, "\n"), strings.Split(after, "\n")) {
		switch l[0] {
		case '-':
			b.WriteString(a.err.Bad(l))
		case '+':
			b.WriteString(a.err.Good(l))
		default:
			b.WriteString(a.err.Dim(l))
		}
		b.WriteString("\n")
	}
	return b.String()
}
