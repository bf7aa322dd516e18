package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/permission"
)

const (
	// settingsFile is looked for in the working folder.
	settingsFile = "askance.yaml"
	// lastRun, in a data folder, has the settings with which the engine there last
	// ran: commands with --offline use the same policy.
	lastRun     = "last-run.yaml"
	maxSettings = 64 << 10
)

// applySettings sets each flag that the command line does not set, from the
// environment, the settings file or a context.
func (env *environment) applySettings(c *cobra.Command) error {
	path, named := env.settingsFile, env.settingsFile != ""
	if !named {
		path, named = os.LookupEnv("ASKANCE_CONFIG")
	}
	if !named || path == "" {
		path, named = settingsFile, false
	}
	file, err := readSettings(path)
	if err != nil && (named || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	env.found = found{}
	for _, s := range settings {
		f := c.Flags().Lookup(s.flag)
		if !isSetting(f) {
			continue
		}
		variable, value := os.Getenv(s.env()), f.Value.String()
		inFile, has := file[s.key()]
		switch {
		case f.Changed && s.login && value == "": // from a shell variable that is not set
			return usagef("--%s is empty: leave it out for a server without logins, or give it a value", s.flag)
		case f.Changed:
			env.found[s.key()] = given{byFlag, "--" + s.flag, []string{value}}
		case variable != "":
			env.found[s.key()] = given{byVariable, "the variable " + s.env(), s.split(variable)}
		case has:
			env.found[s.key()] = given{byFile, path + ": " + s.key(), inFile}
		}
	}
	if err := env.found.addContext(env, c); err != nil {
		return err
	}
	env.found.chooseServer()
	for _, s := range settings {
		f := c.Flags().Lookup(s.flag)
		if g, ok := env.found[s.key()]; ok && g.from != byFlag && isSetting(f) {
			if err := s.set(c.Flags(), g.where, g.values); err != nil {
				return err
			}
		}
	}
	return env.applyLastSpace(c)
}

// warnOfVariables warns of variables that look like misspelled settings. Others may belong to
// other programs: Kubernetes sets ASKANCE_PORT if there is a service askance.
func warnOfVariables(log *slog.Logger) {
	known := []string{"CONFIG", "TOKEN", "URL", "TOOL"} // the last one is set for the tools that askance runs
	for _, s := range settings {
		known = append(known, strings.ToUpper(s.key()))
	}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		word, ours := strings.CutPrefix(name, "ASKANCE_")
		if !ours || value == "" || slices.Contains(known, word) {
			continue
		}
		if near := spelling.Nearest(word, known); near != nil {
			log.Warn("the variable " + name + " is not a setting" + didYouMean("ASKANCE_", near))
		}
	}
}

// ofSetting marks the flag of a setting: a command can have a flag of its own with the name of one.
const ofSetting = "askance-setting"

func isSetting(f *pflag.Flag) bool {
	if f == nil {
		return false
	}
	_, is := f.Annotations[ofSetting]
	return is
}

// applyLastSpace takes the space from the data folder, if an engine has run on it before.
func (env *environment) applyLastSpace(c *cobra.Command) error {
	dir, f := env.cfg.dir(), c.Flags().Lookup("space")
	if f == nil || f.Changed || dir == "" || isRemote(env) {
		return nil
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return usagef("the data folder %s is a file, not a folder", dir)
	}
	last, err := readLastRun(dir)
	if err != nil || last == nil || last.Space == "" {
		return err
	}
	return c.Flags().Set(f.Name, last.Space)
}

// readLastRun reads the settings of the engine that last ran on the data folder; nil if none has.
func readLastRun(dir string) (*config, error) {
	path := filepath.Join(dir, lastRun)
	values, err := readSettings(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // documented: no engine has run
	}
	if err != nil {
		return nil, err
	}
	var last config
	flags := pflag.NewFlagSet(lastRun, pflag.ContinueOnError)
	v := reflect.ValueOf(&last).Elem()
	for _, s := range settings {
		s.define(flags, v.Field(s.index).Addr().Interface(), "")
	}
	last = config{} // only what the file says, without defaults
	for _, s := range settings {
		if err := s.set(flags, path+": "+s.key(), values[s.key()]); err != nil {
			return nil, err
		}
	}
	if last.reviewerLimits().Validate() != nil {
		return nil, usagef("%s: a limit of reviewers is negative; correct it, or start askance serve, which writes the file again", path)
	}
	return &last, nil
}

func writeLastRun(dir string, run config) error {
	here, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("record the settings of this run: %w", err)
	}
	values := map[string][]string{}
	for _, s := range settings {
		for _, text := range s.texts(reflect.ValueOf(run)) {
			if text != "" {
				values[s.key()] = append(values[s.key()], s.resolve(here, text))
			}
		}
	}
	data, err := yaml.Marshal(values)
	if err != nil {
		return fmt.Errorf("record the settings of this run: %w", err)
	}
	head := "# Written by askance at each start: the settings of the engine that ran on this folder.\n# Commands with --offline use the same policy and tools.\n"
	if err := plainfile.Replace(filepath.Join(dir, lastRun), append([]byte(head), data...)); err != nil {
		return fmt.Errorf("record the settings of this run: %w", err)
	}
	return nil
}

// set gives the flag its values, and says where they come from if one is wrong.
func (s setting) set(flags *pflag.FlagSet, where string, values []string) error {
	if len(values) > 1 && !s.list {
		return usagef("%s takes one value, got %d", where, len(values))
	}
	for _, v := range values {
		if err := flags.Set(s.flag, v); err != nil {
			return valueError(where, err)
		}
	}
	return nil
}

func valueError(where string, err error) error {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return usageError{err}
	}
	want := map[string]string{
		"bool": "true or false", "int": "a whole number", "uint64": "a whole number of at least 0", "duration": "a time such as 90s, 12h or 30d",
	}[bad.GetFlag().Value.Type()]
	if want == "" {
		return usagef("%s is %q: %w", where, bad.GetValue(), bad.Unwrap())
	}
	return usagef("%s is %q, use %s", where, bad.GetValue(), want)
}

// split reads the value of a variable, where commas separate the items of a list.
func (s setting) split(v string) []string {
	if s.list {
		return strings.Split(v, ",")
	}
	return []string{v}
}

// resolve makes a path in a settings file of the folder absolute. LAYER= may precede the
// path of rule files: managed=rules.yaml.
func (s setting) resolve(folder, path string) string {
	layer := ""
	if s.path == "rules" {
		if l, file := permission.CutLayer(path); l != "" {
			layer, path = string(l)+"=", file
		}
	}
	if s.path != "" && path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	return layer + path
}

// readSettings reads a settings file: one mapping of known names, each once, to
// a value or a list of values.
func readSettings(path string) (map[string][]string, error) {
	if path == os.DevNull {
		return nil, nil //nolint:nilnil // the usual way to name no file
	}
	data, err := textfile.ReadHanded("settings file", path, maxSettings)
	if err != nil {
		return nil, err
	}
	out, err := parseSettings(path, data)
	if err != nil {
		return nil, &textfile.Error{Kind: "settings file", File: path, Err: err}
	}
	return out, nil
}

func parseSettings(path string, data []byte) (map[string][]string, error) {
	var top map[string]any
	if err := textfile.DecodeYAML(data, &top); err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for key, v := range top {
		i := slices.IndexFunc(settings, func(s setting) bool { return s.key() == key })
		line, col := textfile.Place(data, "$."+key)
		if i < 0 {
			var keys []string
			for _, s := range settings {
				keys = append(keys, s.key())
			}
			return nil, &textfile.FaultError{Line: line, Col: col, Msg: fmt.Sprintf("unknown setting %q%s; askance help settings lists them", key, didYouMean("", spelling.Nearest(key, keys)))}
		}
		values, err := settings[i].read(settingsFolder(path), v)
		if err != nil {
			return nil, &textfile.FaultError{Line: line, Col: col, Msg: key + ": " + err.Error(), Err: err}
		}
		out[key] = values
	}
	return out, nil
}

// settingsFolder returns the base of the relative paths in a settings file; a file from
// process substitution is in no folder.
func settingsFolder(path string) string {
	if plainfile.HandedOver(path) {
		return "."
	}
	return filepath.Dir(path)
}

// read returns the values of a setting in a file of the folder.
func (s setting) read(folder string, v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	out := make([]string, 0, len(list))
	for _, item := range list {
		switch item := item.(type) {
		case string, bool, int64, uint64, float64:
			out = append(out, s.resolve(folder, fmt.Sprint(item)))
		default:
			return nil, errors.New("expected a value or a list of values")
		}
	}
	return out, nil
}

func settingsHelp() string {
	var b strings.Builder
	b.WriteString(`A flag takes precedence over the environment, the environment over the settings file,
and the settings file over the current context (askance context --help).

The settings file is askance.yaml in the working folder, or the file that --config
or ASKANCE_CONFIG names. Paths in it are relative to its folder. A setting that may be
repeated is a YAML list in the file, and separated by commas in the environment.

`)
	for _, s := range settings {
		b.WriteString(s.reference())
	}
	b.WriteString(`
Colour is used on a terminal, unless NO_COLOR is set. $VISUAL or $EDITOR is the
editor of askance edit.
`)
	return b.String()
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
