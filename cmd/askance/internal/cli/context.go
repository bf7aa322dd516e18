package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/internal/spelling"
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
			of, err := contextFromFlags(env)
			if err != nil {
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
			all.Named[args[0]] = of
			if use {
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

func contextFromFlags(env *environment) (settingsOf, error) {
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
				return nil, err
			}
		}
		of[s.key()] = text
	}
	if _, ok := of["nats_insecure"]; ok {
		of["nats_insecure"] = env.cfg.PlainText
	}
	return of, checkContext(of)
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
			delete(all.Named, args[0])
			if all.Current == args[0] {
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

// contexts are the named servers that a person works with. The file is in the
// configuration folder of the user and has no secrets, only paths of files.
type contexts struct {
	Current string                `yaml:"current,omitempty"`
	Named   map[string]settingsOf `yaml:"contexts"`
}

// settingsOf are the settings of one context, by key.
type settingsOf map[string]any

const maxContexts = 256 << 10

// contextKeys are the settings that a context can have. A context replaces placeKeys,
// which say where the server is and who acts, together.
var (
	placeKeys   = []string{"data", "server", "token_file", "nats", "nats_ca", "nats_insecure", "creds", "space", "as", "http_url"}
	contextKeys = append(slices.Clip(placeKeys), "sign_key")
)

var contextName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// contextsFile follows the XDG base directories; "" without a home folder.
func contextsFile() string {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) && runtime.GOOS == "windows" {
		dir = os.Getenv("APPDATA")
	}
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "askance", "contexts.yaml")
}

// readContexts reads the user's file. If it does not exist, there are no contexts.
func readContexts() (contexts, error) {
	var all contexts
	path := contextsFile()
	if path == "" {
		return all, nil
	}
	data, err := textfile.Read("contexts file", path, maxContexts)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = textfile.DecodeYAML(data, &all)
	}
	for name, of := range all.Named {
		if err == nil {
			_, err = of.values(name)
		}
	}
	if err != nil {
		if _, ok := errors.AsType[*textfile.Error](err); !ok {
			err = &textfile.Error{Kind: "contexts file", File: path, Err: err}
		}
		return contexts{}, err
	}
	return all, nil
}

// values returns the settings as texts, and refuses those that a context cannot have.
func (of settingsOf) values(name string) (map[string][]string, error) {
	out := map[string][]string{}
	for key, v := range of {
		i := slices.IndexFunc(settings, func(s setting) bool { return s.key() == key })
		if i < 0 || !slices.Contains(contextKeys, key) {
			return nil, fmt.Errorf("context %s: %q is not a setting of a context: use %s", name, key, strings.Join(contextKeys, ", "))
		}
		values, err := settings[i].read(filepath.Dir(contextsFile()), v)
		if err != nil {
			return nil, fmt.Errorf("context %s: %s: %w", name, key, err)
		}
		out[key] = values
	}
	return out, nil
}

func (c contexts) find(name string) (settingsOf, error) {
	of, ok := c.Named[name]
	if !ok {
		names := slices.Sorted(maps.Keys(c.Named))
		return nil, &message.Error{Code: message.CodeNotFound, Op: "find context", What: fmt.Sprintf("there is no context %q%s", name, didYouMean("", spelling.Nearest(name, names))), Hint: "askance context list shows the contexts"}
	}
	return of, nil
}

func (c contexts) write() error {
	path := contextsFile()
	if path == "" {
		return usagef("cannot find a home folder for the contexts: set XDG_CONFIG_HOME")
	}
	data, err := yaml.Marshal(c)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		head := "# Written by askance context. It has paths of files, but no secrets.\n"
		err = replaceFile(path, append([]byte(head), data...), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the contexts file: %w", err)
	}
	return nil
}

// addContext adds the settings of the named context, or of the current one. A context
// is used only if no source before it says where the server is.
func (f found) addContext(env *environment, c *cobra.Command) error {
	if c.Flags().Lookup("context") == nil {
		return nil
	}
	named, from := "", f.source("context")
	if from < byNone {
		named = f["context"].values[0]
		if named == "" {
			return nil // --context "" means none
		}
	}
	elsewhere := min(f.source("data"), f.source("nats"), f.source("server"))
	switch {
	case elsewhere < from && elsewhere < byNone:
		return nil
	case elsewhere == from && from < byNone:
		return usagef("the context %s and --data, --nats or --server both say where the server is (%s): leave out one of them", named, f["context"].where)
	}
	all, err := readContexts()
	if err != nil {
		return err
	}
	if from == byNone {
		if named, from = all.Current, byCurrentContext; named == "" {
			return nil
		}
	}
	of, err := all.find(named)
	if err != nil {
		return err
	}
	values, err := of.values(named)
	if err != nil {
		return err
	}
	for _, key := range contextKeys {
		if f.source(key) <= from {
			continue
		}
		if v, ok := values[key]; ok {
			f[key] = given{byCurrentContext, "context " + named + ": " + key, v}
		} else if slices.Contains(placeKeys, key) {
			delete(f, key)
		}
	}
	env.context = named
	return nil
}

// chooseServer removes the weaker one of a server and NATS: a flag counts before a variable.
func (f found) chooseServer() {
	switch server, nats := f.source("server"), f.source("nats"); {
	case server < nats:
		delete(f, "nats")
	case nats < server:
		delete(f, "server")
	}
}

// checkContext refuses a context that has a secret or no server.
func checkContext(of settingsOf) error {
	if of["data"] == nil && of["nats"] == nil && of["server"] == nil {
		return usagef("say where the server is: pass --data, --nats or --server")
	}
	for _, key := range []string{"nats", "server", "http_url"} {
		for one := range strings.SplitSeq(fmt.Sprint(of[key]), ",") {
			if u, err := url.Parse(strings.TrimSpace(one)); of[key] != nil && (err != nil || u.User != nil) {
				return usagef("the URL of a context cannot have a user or a password: log in with a file, --creds FILE or --token-file FILE")
			}
		}
	}
	return nil
}
