package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askance-dev/askance/internal/spelling"
)

// unknownCommand refuses a word that is not a command of c, and suggests those that
// could be meant.
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
		names = spelling.Nearest(word, words)
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
	return usagef("%w%s", err, didYouMean("--", spelling.Nearest(missing.GetSpecifiedName(), words)))
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
