// Package linediff compares texts line by line.
package linediff

import "slices"

// maxLines bounds the table of Lines; the differing parts of longer texts are returned whole.
const maxLines = 1000

// Lines returns the lines of both texts, marked "- ", "+ " or "  ", by their longest common
// subsequence.
func Lines(a, b []string) []string {
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	if same > 0 {
		return append(markLines("  ", a[:same]), Lines(a[same:], b[same:])...)
	}
	for n := min(len(a), len(b)); same < n && a[len(a)-1-same] == b[len(b)-1-same]; {
		same++
	}
	if same > 0 {
		end := len(a) - same
		return append(Lines(a[:end], b[:len(b)-same]), markLines("  ", a[end:])...)
	}
	if len(a) > maxLines || len(b) > maxLines {
		return append(markLines("- ", a), markLines("+ ", b)...)
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
	return append(append(out, markLines("- ", a[i:])...), markLines("+ ", b[j:])...)
}

func markLines(mark string, lines []string) []string {
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, mark+l)
	}
	return out
}
