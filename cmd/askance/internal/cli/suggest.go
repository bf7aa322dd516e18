package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// unknownCommand refuses a word that is no command of c, and names those that were
// perhaps meant.
func unknownCommand(c *cobra.Command, word string) error {
	var names, words []string
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if slices.Contains(sub.SuggestFor, strings.ToLower(word)) {
			names = append(names, sub.Name())
		}
		words = append(words, sub.Name())
	}
	if len(names) == 0 {
		names = nearest(word, words)
	}
	return usagef("unknown command %q for %s%s", word, c.CommandPath(), didYouMean("", names))
}

// flagError explains why the flags of c cannot be read.
func flagError(c *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return valueError("--"+bad.GetFlag().Name, err)
	}
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usageError{err}
	}
	if args := c.Flags().Args(); c.HasAvailableSubCommands() && len(args) > 0 {
		return unknownCommand(c, args[0]) // its flags are unknown because the command is
	}
	var words []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			words = append(words, f.Name)
		}
	})
	return usagef("%w%s", err, didYouMean("--", nearest(missing.GetSpecifiedName(), words)))
}

func didYouMean(prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	for i, n := range names {
		names[i] = prefix + n
	}
	return "; did you mean " + strings.Join(names, " or ") + "?"
}

// maxSuggestions is how many words an error suggests.
const maxSuggestions = 3

// nearest gives the words that a person perhaps meant, the most similar first.
func nearest(word string, words []string) []string {
	word = strings.ToLower(word)
	type match struct {
		word     string
		distance int
	}
	var found []match
	for _, w := range words {
		d := editDistance(word, w)
		if len(word) >= 3 && strings.HasPrefix(w, word) {
			d = 1
		}
		if d <= max(1, min(len(word), len(w))/3) {
			found = append(found, match{w, d})
		}
	}
	slices.SortStableFunc(found, func(a, b match) int { return a.distance - b.distance })
	var out []string
	for _, m := range found[:min(maxSuggestions, len(found))] {
		out = append(out, m.word)
	}
	return out
}

// editDistance counts the letters to insert, remove, replace or swap.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
