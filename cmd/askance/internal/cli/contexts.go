package cli

import (
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

	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
)

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

func (all contexts) find(name string) (settingsOf, error) {
	of, ok := all.Named[name]
	if !ok {
		names := slices.Sorted(maps.Keys(all.Named))
		return nil, &message.Error{Code: message.CodeNotFound, Op: "find context", What: fmt.Sprintf("there is no context %q%s", name, didYouMean("", spelling.Nearest(name, names))), Hint: "askance context list shows the contexts"}
	}
	return of, nil
}

func (all contexts) write() error {
	path := contextsFile()
	if path == "" {
		return usagef("cannot find a home folder for the contexts: set XDG_CONFIG_HOME")
	}
	data, err := yaml.Marshal(all)
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

// A source of settings; a lower one wins. Values of a context have byCurrentContext.
type source int

const (
	byFlag source = iota
	byVariable
	byFile
	byCurrentContext
	byNone
)

// given is the value of a setting and where it comes from.
type given struct {
	from   source
	where  string
	values []string
}

func (f found) source(key string) source {
	if g, ok := f[key]; ok {
		return g.from
	}
	return byNone
}

// found holds the settings of a command that have a source, by key.
type found map[string]given

var flagName = regexp.MustCompile(`--[a-z-]+`)

// explain adds to an error where a setting comes from whose flag or file it names.
func (f found) explain(err error) error {
	_, usage := errors.AsType[usageError](err)
	file, _ := errors.AsType[*fs.PathError](err)
	var origins []string
	for _, s := range settings {
		g := f[s.key()]
		named := usage && slices.Contains(flagName.FindAllString(err.Error(), -1), "--"+s.flag)
		missing := file != nil && slices.ContainsFunc(g.values, func(v string) bool { return v == file.Path || strings.HasSuffix(v, "="+file.Path) })
		if g.from != byFlag && (named || missing) {
			origins = append(origins, "--"+s.flag+" comes from "+g.where)
		}
	}
	if origins == nil {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(origins, ", "))
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
