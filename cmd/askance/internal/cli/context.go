package cli

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/message"
)

func newContextCommand(env *environment) *cobra.Command {
	return newGroup(&cobra.Command{
		Use:     "context",
		Aliases: []string{"ctx"},
		Short:   "Manage the servers that you work with",
		Long: `A context is a named server with your login. The commands that talk to a server use the
current context, or the one of --context. The contexts are in askance/contexts.yaml in
$XDG_CONFIG_HOME or ~/.config. The file has the paths of login files, but no secrets.

The first source that has a setting wins: flags, then ASKANCE_… variables, then
askance.yaml, then the current context. If --data, --nats or --server is set by a flag, a
variable or askance.yaml, the current context is not used at all. --context takes
precedence over variables and askance.yaml; --context "" uses none.`,
		Example: `  askance context add prod --server https://askance.example --token-file ~/ann.token --use
  askance context add staging --nats tls://nats.internal:4222 --creds ~/ann.creds
  askance context list
  askance context use staging
  askance list --context prod`,
	}, newContextListCommand(env), newContextUseCommand(env), newContextAddCommand(env), newContextRemoveCommand(env), newContextShowCommand(env))
}

// completeContexts completes the names of contexts, as an argument or as a value.
var completeContexts = completeFirst(func(*cobra.Command) []string {
	all, _ := readContexts() // a file that cannot be read names none
	return slices.Sorted(maps.Keys(all.Named))
})

var oneContext = wantArgs(1, "one context; askance context list shows them")

type contextRow struct {
	Name     string     `json:"name"`
	Current  bool       `json:"current"`
	Settings settingsOf `json:"settings"`
}

func newContextListCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List contexts",
		Example: "  askance context list\n  askance context list -o json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := readContexts()
			if err != nil {
				return err
			}
			rows := []contextRow{}
			var lines [][]string
			for _, name := range slices.Sorted(maps.Keys(all.Named)) {
				of, mark := all.Named[name], ""
				if name == all.Current {
					mark = env.out.Good("*")
				}
				text := func(key string) string {
					if v, ok := of[key]; ok {
						return term.SafeLine(fmt.Sprint(v))
					}
					return ""
				}
				server := cmp.Or(text("server"), text("nats"), text("data"))
				rows = append(rows, contextRow{name, name == all.Current, of})
				lines = append(lines, []string{env.out.Name(name), mark, server, text("as"), text("space"), cmp.Or(text("creds"), text("token_file"))})
			}
			if len(rows) == 0 && !env.json {
				return env.print(nil, "There are no contexts. Add one with askance context add NAME --nats URL --creds FILE.\n")
			}
			return env.print(map[string]any{"file": contextsFile(), "contexts": rows}, tableText(env.out, []string{"NAME", "CURRENT", "SERVER", "AS", "SPACE", "LOGIN"}, lines))
		},
	}
}

func newContextUseCommand(env *environment) *cobra.Command {
	var none bool
	c := &cobra.Command{
		Use:               "use NAME",
		Short:             "Make a context the current one",
		Example:           "  askance context use prod\n  askance context use --none",
		ValidArgsFunction: completeContexts,
		Args: func(c *cobra.Command, args []string) error {
			if none {
				return noArgs(c, args)
			}
			return oneContext(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := readContexts()
			if err != nil {
				return err
			}
			all.Current = ""
			if !none {
				if _, err := all.find(args[0]); err != nil {
					return err
				}
				all.Current = args[0]
			}
			if err := all.write(); err != nil {
				return err
			}
			text := "There is no current context now.\n"
			if !none {
				text = fmt.Sprintf("Current context: %s.\n", env.out.Name(all.Current))
			}
			return env.print(map[string]string{"current": all.Current}, text)
		},
	}
	c.Flags().BoolVar(&none, "none", false, "use no context")
	return c
}

func newContextAddCommand(env *environment) *cobra.Command {
	var use, replace bool
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a context",
		Long: `Adds a context with the settings of these flags. Relative paths are stored as absolute
ones. Variables and askance.yaml are not stored.`,
		Example: `  askance context add local --data ./data
  askance context add prod --nats tls://nats.internal:4222 --creds ann.creds --http-url https://askance.example --use`,
		Args: wantArgs(1, "one name, for instance: prod"),
		RunE: func(_ *cobra.Command, args []string) error {
			if !contextName.MatchString(args[0]) {
				return usagef("%q is not a valid context name: use letters, digits, dots, - and _", args[0])
			}
			of := settingsOf{}
			for _, s := range settings {
				g, ok := env.found[s.key()]
				if !ok || g.from != byFlag || !slices.Contains(contextKeys, s.key()) {
					continue
				}
				text := g.values[0]
				if s.path != "" {
					var err error
					if text, err = filepath.Abs(text); err != nil {
						return err
					}
				}
				of[s.key()] = text
				if s.key() == "nats_insecure" {
					of[s.key()] = env.cfg.PlainText
				}
			}
			if err := checkContext(of); err != nil {
				return err
			}
			all, err := readContexts()
			if err != nil {
				return err
			}
			if all.Named[args[0]] != nil && !replace {
				return &message.Error{Code: message.CodeConflict, Op: "add context", What: "the context " + args[0] + " already exists", Hint: "pass --replace to change it"}
			}
			if all.Named == nil {
				all.Named = map[string]settingsOf{}
			}
			if all.Named[args[0]] = of; use {
				all.Current = args[0]
			}
			if err := all.write(); err != nil {
				return err
			}
			text := fmt.Sprintf("Added the context %s to %s.\n", env.out.Name(args[0]), contextsFile())
			if !use {
				text += "Make it the current one with askance context use " + args[0] + ".\n"
			}
			return env.print(contextRow{args[0], args[0] == all.Current, of}, text)
		},
	}
	env.cfg.bind(c, &env.cfg.Data, &env.cfg.Server, &env.cfg.TokenFile, &env.cfg.NATS, &env.cfg.Creds, &env.cfg.CA, &env.cfg.PlainText, &env.cfg.Space, &env.cfg.As, &env.cfg.SignKey, &env.cfg.HTTPURL)
	c.Flags().BoolVar(&use, "use", false, "make it the current context")
	c.Flags().BoolVar(&replace, "replace", false, "replace an existing context")
	return c
}

func newContextRemoveCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:               "remove NAME",
		Aliases:           []string{"rm"},
		SuggestFor:        []string{"delete"},
		Short:             "Remove a context",
		Example:           "  askance context remove staging",
		Args:              oneContext,
		ValidArgsFunction: completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := readContexts()
			if err != nil {
				return err
			}
			if _, err := all.find(args[0]); err != nil {
				return err
			}
			text := fmt.Sprintf("Removed the context %s.\n", env.out.Name(args[0]))
			if delete(all.Named, args[0]); all.Current == args[0] {
				all.Current = ""
				text += "There is no current context now.\n"
			}
			if err := all.write(); err != nil {
				return err
			}
			return env.print(map[string]string{"removed": args[0]}, text)
		},
	}
}

func newContextShowCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:               "show [NAME]",
		Short:             "Show a context, by default the current one",
		Example:           "  askance context show\n  askance context show prod -o yaml",
		ValidArgsFunction: completeContexts,
		Args:              optional(oneContext),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := readContexts()
			if err != nil {
				return err
			}
			name := cmp.Or(onlyArg(args), all.Current)
			if name == "" {
				return &message.Error{Code: message.CodeNotFound, Op: "show context", What: "there is no current context", Hint: "choose one with askance context use NAME"}
			}
			of, err := all.find(name)
			if err != nil {
				return err
			}
			head := env.out.Name(name)
			if name == all.Current {
				head += ", the current context"
			}
			s := newSheet(env.out, 13, head)
			for _, key := range contextKeys {
				if v, ok := of[key]; ok {
					s.row(key, term.SafeLine(fmt.Sprint(v)))
				}
			}
			return env.print(contextRow{name, name == all.Current, of}, s.String())
		},
	}
}
