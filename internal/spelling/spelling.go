// Package spelling suggests the words that a person may have meant, and writes lists of words and
// the words of a command.
package spelling

import (
	"regexp"
	"slices"
	"strings"
)

// maxSuggestions is the number of words that an error suggests.
const maxSuggestions = 3

// Nearest returns the words that may be meant, most similar first. It ignores case, and
// a prefix of a word counts like a word with one error.
func Nearest[S ~string](word string, words []S) []string {
	word = strings.ToLower(word)
	type match struct {
		word     string
		distance int
	}
	var found []match
	for _, w := range words {
		lower := strings.ToLower(string(w))
		d := Distance(word, lower)
		if len(word) >= 3 && strings.HasPrefix(lower, word) {
			d = min(d, 1)
		}
		if d <= max(1, min(len(word), len(w))/3) {
			found = append(found, match{string(w), d})
		}
	}
	slices.SortStableFunc(found, func(a, b match) int { return a.distance - b.distance })
	var out []string
	for _, m := range found[:min(maxSuggestions, len(found))] {
		out = append(out, m.word)
	}
	return out
}

// Distance returns the number of bytes to insert, remove, replace or swap. For texts
// that are too long to be names it returns the longer length.
func Distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range b {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// OrList joins words as people list alternatives: a, b or c.
func OrList[S ~string](words []S) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// ShellWord returns a word of a suggested command as a POSIX shell reads it.
func ShellWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
