package cli

import (
	"slices"
	"strings"
)

// diffText shows what changes between two texts, line by line.
func (a *app) diffText(before, after string) string {
	var b strings.Builder
	for _, l := range diffLines(strings.Split(before, "\n"), strings.Split(after, "\n")) {
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

// maxDiffLines bounds the table of diffLines; longer texts are shown whole.
const maxDiffLines = 1000

// diffLines gives the lines of both, marked "- ", "+ " or "  ", by their
// longest common subsequence.
func diffLines(a, b []string) []string {
	if len(a) > maxDiffLines || len(b) > maxDiffLines {
		return append(marked("- ", a), marked("+ ", b)...)
	}
	// common[i][j] is how many lines a[i:] and b[j:] have in common.
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i, v := range slices.Backward(a) {
		for j := len(b) - 1; j >= 0; j-- {
			if v == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			out = append(out, "  "+a[i])
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			out = append(out, "- "+a[i])
			i++
		default:
			out = append(out, "+ "+b[j])
			j++
		}
	}
	return append(append(out, marked("- ", a[i:])...), marked("+ ", b[j:])...)
}

func marked(mark string, lines []string) []string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, mark+l)
	}
	return out
}
