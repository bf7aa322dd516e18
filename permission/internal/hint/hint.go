// Package hint guesses what the author of a policy meant by something that a
// rule file or an expression cannot have, and says what to write.
//
// Each table is tried from top to bottom; the first line that fits gives the
// hint. A hint is never part of a decision.
package hint

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// DidYouMean is the hint that names one candidate; "" for none.
func DidYouMean(name string) string {
	if name == "" {
		return ""
	}
	return "did you mean " + name + "?"
}

// Nearest returns the candidate that looks like a misspelling of name, or "".
func Nearest(name string, candidates []string) string {
	best, bestDist := "", 2
	if len(name) > 3 {
		bestDist = max(2, len(name)/3) + 1
	}
	for _, c := range candidates {
		d := Distance(strings.ToLower(name), strings.ToLower(c))
		if len(name) > 3 && strings.HasPrefix(c, name) {
			d = 1 // cut short
		}
		if d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

// Distance counts the letters to insert, delete and replace, and the pairs of
// neighbours to exchange, over bytes; the names it sees are short.
func Distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	above, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		above, last, row = last, row, above
		row[0] = i + 1
		for j := range b {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], above[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// List joins names, but at most twelve of them.
func List(names []string) string {
	if len(names) > 12 {
		return strings.Join(names[:12], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// line is one line of a table: a pattern, and the hint for what fits it. $1 in
// the hint is the first group of the pattern.
type line struct{ pattern, hint string }

var compiled sync.Map // pattern → *regexp.Regexp

func find(table []line, text string) string {
	for _, l := range table {
		re, ok := compiled.Load(l.pattern)
		if !ok {
			re, _ = compiled.LoadOrStore(l.pattern, regexp.MustCompile("(?s)"+l.pattern))
		}
		pattern := re.(*regexp.Regexp)
		if at := pattern.FindStringSubmatchIndex(text); at != nil {
			return string(pattern.ExpandString(nil, l.hint, text, at))
		}
	}
	return ""
}

// words are lines of the form "meaning <- word word …".
type words string

func (w words) find(word string) string {
	for l := range strings.Lines(string(w)) {
		if meaning, list, ok := strings.Cut(l, " <- "); ok && slices.Contains(strings.Fields(list), word) {
			return meaning
		}
	}
	return ""
}
