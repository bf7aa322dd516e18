package cli

import (
	"log/slog"

	"github.com/spf13/cobra"
)

// Tree gives every command that there is, groups of commands among them, by the
// words with which it is called.
func Tree() map[string]*cobra.Command {
	env := &environment{log: slog.New(slog.DiscardHandler)}
	root := newRootCommand(env)
	root.InitDefaultCompletionCmd("completion")
	out := map[string]*cobra.Command{"": root}
	var add func(words string, c *cobra.Command)
	add = func(words string, c *cobra.Command) {
		for _, sub := range c.Commands() {
			path := sub.Name()
			if words != "" {
				path = words + " " + path
			}
			out[path] = sub
			add(path, sub)
		}
	}
	add("", root)
	return out
}
