package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// A setting is a flag whose value may also come from the environment
// (ASKANCE_ and its name in capitals) or from a settings file (its name with
// underscores).
type setting struct {
	flag string
	path bool // relative to the folder of the settings file
	what string
}

// settings lists them all, for every command.
var settings = []setting{
	{"data", true, "data folder: keys, and the journal of an embedded server"},
	{"nats", false, "URL of an existing NATS server or cluster"},
	{"creds", true, "NATS credentials file"},
	{"nats-system-creds", true, "credentials file of the system account of the NATS server"},
	{"nats-ca", true, "certificates of those who may vouch for the NATS server"},
	{"nats-cert", true, "certificate chain of the embedded NATS server"},
	{"nats-key", true, "private key of the embedded NATS server"},
	{"nats-insecure", false, "let logins and calls cross the network in plain text"},
	{"creds-dir", true, "credentials folder: who may log in to an embedded server"},
	{"space", false, "space: one journal, one set of keys and people"},
	{"as", false, "your name, under which answers are recorded"},
	{"listen", false, "address of the embedded server"},
	{"durability", false, "what an acknowledgement of the NATS server means: fsynced, cached or quorum"},
	{"policy", true, "rule files and folders (in the environment: with commas)"},
	{"policy-bucket", false, "take rule files from the NATS key-value bucket of the space too"},
	{"directory", true, "files that say which groups people are in"},
	{"directory-bucket", false, "take directory files from the NATS key-value bucket of the space too"},
	{"shadow", true, "rule files and folders of a policy that decides nothing"},
	{"tools", true, "file that declares the tools"},
	{"mode", false, "permission mode, over that of the policy"},
	{"cwd", true, "folder in which the tools run, for rules about paths"},
	{"working-dir", true, "further folders in which tools may edit where the mode lets them"},
	{"remind", false, "how long nothing may be said about an open question before inboxes are told again"},
	{"reviewer-per-minute", false, "answers that are taken of one reviewer within a minute"},
	{"reviewer-per-hour", false, "answers that are taken of one reviewer within an hour"},
	{"reviewer-max-open", false, "open questions of one reviewer, above which they are given none"},
	{"http", false, "address of the web inbox and the HTTP interfaces; off opens no port"},
	{"http-socket", true, "Unix socket of the web inbox and the HTTP interfaces"},
	{"http-socket-group", false, "group that may open the Unix socket"},
	{"http-socket-role", false, "roles of users at the Unix socket, as USER=ROLE"},
	{"http-cert", true, "certificate chain for TLS over HTTP"},
	{"http-key", true, "private key for TLS over HTTP"},
	{"http-insecure", false, "listen beyond loopback without TLS"},
	{"http-tokens", true, "token file: who may use HTTP"},
	{"http-url", false, "URL by which browsers reach the gateway"},
	{"http-origin", false, "origins of pages elsewhere that may use the gateway"},
	{"http-session", false, "how long a browser stays logged in"},
	{"oidc-issuer", false, "OpenID Connect provider at which people log in"},
	{"oidc-client", false, "client id at the provider"},
	{"oidc-secret-file", true, "file with the client's secret"},
	{"oidc-audience", false, "audience that JWTs of programs must name"},
	{"oidc-name-claim", false, "claim that names people"},
	{"oidc-groups-claim", false, "claim with the groups of people"},
	{"oidc-role", false, "roles of groups at the provider, as GROUP=ROLE"},
	{"metrics", false, "address at which an engine is shown to Prometheus"},
	{"metrics-window", false, "how far back the metrics of recent answers reach"},
	{"keys", true, "key file of the engines of a space"},
	{"anchor-file", true, "file that remembers how far the journal was"},
	{"engine-key", true, "public key file that a worker checks grants with"},
	{"approver-keys", true, "directory files with the keys of approvers that a worker believes"},
	{"require-approver-signature", false, "a worker runs only what approvers have signed"},
	{"sign-key", true, "your own key, with which you sign approvals"},
	{"slots", false, "calls that a worker runs at once"},
	{"log-level", false, "debug, info, warn or error"},
}

const (
	// settingsFile is looked for in the working folder.
	settingsFile = "askance.yaml"
	// lastRun, in a data folder, has what the engine there last ran with. It is
	// written by askance itself, so that commands that open the folder while no
	// server runs decide by the same policy and tools.
	lastRun = "last-run.yaml"
	// maxSettings bounds a settings file.
	maxSettings = 64 << 10
)

func (s setting) key() string { return strings.ReplaceAll(s.flag, "-", "_") }
func (s setting) env() string { return "ASKANCE_" + strings.ToUpper(s.key()) }

// applySettings gives every flag of the command that was not given its value from
// the environment or the settings file.
func (env *environment) applySettings(c *cobra.Command) error {
	path, named := env.config, env.config != ""
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
	for _, s := range settings {
		f := c.Flags().Lookup(s.flag)
		if f == nil || f.Changed {
			continue
		}
		if v, ok := os.LookupEnv(s.env()); ok && v != "" {
			if err := set(f, c.Flags(), "the variable "+s.env(), envValues(f, v)); err != nil {
				return err
			}
		} else if v, ok := file[s.key()]; ok {
			if err := set(f, c.Flags(), path+": "+s.key(), v); err != nil {
				return err
			}
		}
	}
	return env.applyLastSpace(c)
}

// applyLastSpace takes the space from the data folder: with one journal in it, nobody
// should have to name it again.
func (env *environment) applyLastSpace(c *cobra.Command) error {
	f := c.Flags().Lookup("space")
	if f == nil || f.Changed || env.at.dir() == "" || env.at.nats != "" {
		return nil
	}
	if info, err := os.Stat(env.at.dir()); err == nil && !info.IsDir() {
		return usagef("the data folder %s is a file, not a folder", env.at.dir())
	}
	last, err := readLastRun(env.at.dir())
	if err != nil {
		return err
	}
	return set(f, c.Flags(), filepath.Join(env.at.dir(), lastRun), last["space"])
}

// readLastRun reads what an engine of the data folder last ran with; nothing,
// if none has.
func readLastRun(dir string) (map[string][]string, error) {
	last, err := readSettings(filepath.Join(dir, lastRun))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return last, err
}

func set(f *pflag.Flag, flags *pflag.FlagSet, where string, values []string) error {
	for _, v := range values {
		if err := flags.Set(f.Name, v); err != nil {
			return usagef("%s: %w", where, err)
		}
	}
	return nil
}

func envValues(f *pflag.Flag, v string) []string {
	if f.Value.Type() == "stringArray" {
		return strings.Split(v, ",")
	}
	return []string{v}
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
		if i < 0 {
			return nil, fmt.Errorf("unknown setting %q; askance help settings lists them", key)
		}
		values, err := scalars(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if settings[i].path {
			for n, p := range values {
				values[n] = inFolder(settingsFolder(path), key, p)
			}
		}
		out[key] = values
	}
	return out, nil
}

// settingsFolder is where the paths of a settings file begin: what a shell has
// handed over stands in no folder.
func settingsFolder(path string) string {
	if plainfile.HandedOver(path) {
		return "."
	}
	return filepath.Dir(path)
}

// inFolder makes a path absolute that a settings file of the folder has for a
// key. Rule files may have their layer before them: managed=rules.yaml.
func inFolder(folder, key, path string) string {
	layer := ""
	if key == "policy" || key == "shadow" {
		if l, file := permission.CutLayer(path); l != "" {
			layer, path = string(l)+"=", file
		}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	return layer + path
}

func scalars(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	out := make([]string, 0, len(list))
	for _, item := range list {
		switch item := item.(type) {
		case string:
			out = append(out, item)
		case bool, int64, uint64, float64:
			out = append(out, fmt.Sprint(item))
		default:
			return nil, errors.New("want a value or a list of values")
		}
	}
	return out, nil
}

// writeLastRun records what an engine runs with, for readSettings.
func writeLastRun(dir string, values map[string][]string) error {
	data, err := yaml.Marshal(values)
	if err != nil {
		return fmt.Errorf("record the settings of this run: %w", err)
	}
	head := "# Written by askance at each start: what the engine of this folder ran with.\n# Commands that find no server running decide by the same policy and tools.\n"
	if err := replaceFile(filepath.Join(dir, lastRun), append([]byte(head), data...), 0o600); err != nil {
		return fmt.Errorf("record the settings of this run: %w", err)
	}
	return nil
}

// replaceFile writes a file whole or not at all.
func replaceFile(path string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".askance-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already, if all went well
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func settingsHelp() string {
	var b strings.Builder
	b.WriteString(`A flag goes before the environment, and the environment before the settings file.

The settings file is askance.yaml in the working folder, or the one named by
--config or ASKANCE_CONFIG. Paths in it are relative to its own folder. A list
is a YAML list there, and goes with commas in the environment.

`)
	fmt.Fprintf(&b, "  %-12s %-12s %-19s %s\n", "flag", "askance.yaml", "environment", "what")
	for _, s := range settings {
		fmt.Fprintf(&b, "  --%-10s %-12s %-19s %s\n", s.flag, s.key(), s.env(), s.what)
	}
	b.WriteString(`
Colour is used on a terminal, and not if NO_COLOR is set. $VISUAL or $EDITOR
is the editor of askance edit.
`)
	return b.String()
}

// place is where the calls are, and who looks at them.
type place struct {
	data, nats, creds, space, as string
	ca                           string // of the server at nats
	plain                        bool   // a login may go beyond this machine without TLS
}

// flags adds the flags of a command that talks to an engine.
func (p *place) flags(c *cobra.Command) {
	p.whereFlags(c)
	c.Flags().StringVar(&p.as, "as", userName(), "your name, under which answers are recorded")
}

// whereFlags adds those that say where the journal is.
func (p *place) whereFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&p.data, "data", "", "data folder (default "+defaultData("$HOME")+")")
	f.StringVar(&p.nats, "nats", "", "URL of a NATS server instead of the data folder's own")
	f.StringVar(&p.creds, "creds", "", "NATS credentials file")
	f.StringVar(&p.ca, "nats-ca", "", "certificates, in PEM, of those who may vouch for the NATS server (default those that the system knows)")
	f.BoolVar(&p.plain, "nats-insecure", false, "let logins and calls cross the network in plain text")
	f.StringVar(&p.space, "space", "default", "space: one journal, one set of keys and people")
}

// dir is the data folder.
func (p *place) dir() string {
	if p.data != "" {
		return p.data
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return defaultData(home)
}

func (p *place) spaceID() message.SpaceID { return message.SpaceID(p.space) }

// defaultData follows the XDG base directories.
func defaultData(home string) string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "askance")
	}
	if runtime.GOOS == "windows" {
		if dir := os.Getenv("LOCALAPPDATA"); dir != "" {
			return filepath.Join(dir, "askance")
		}
	}
	return filepath.Join(home, ".local", "share", "askance")
}

// userName is who runs the program, as the operating system says it.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return filepath.Base(u.Username) // on Windows the domain comes before it
	}
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	return "unknown"
}
