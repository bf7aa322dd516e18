package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askance-dev/askance/message"
)

// loadSettings returns the settings of a command.
func loadSettings(t *testing.T, args ...string) (*environment, error) {
	t.Helper()
	env := &environment{}
	c := &cobra.Command{Use: "x"}
	env.cfg.bindClient(c)
	env.cfg.bind(c, &env.cfg.Policy, &env.cfg.Slots)
	c.Flags().StringVar(&env.settingsFile, "config", "", "")
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return env, env.applySettings(c)
}

func TestSettingsPrecedence(t *testing.T) {
	clearSettings(t)
	if err := replaceFile(settingsFile, []byte("data: from-file\nspace: from-file\nas: from-file\npolicy: [a, /b]\nslots: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ASKANCE_SPACE", "from-env")
	t.Setenv("ASKANCE_AS", "from-env")
	env, err := loadSettings(t, "--as", "from-flag")
	if err != nil {
		t.Fatal(err)
	}
	if env.cfg.Data != "from-file" || env.cfg.Space != "from-env" || env.cfg.As != "from-flag" {
		t.Errorf("settings = %+v, want data from the file, space from the environment, as from the flag", env.cfg)
	}
	if diff := cmp.Diff([]string{"a", "/b"}, env.cfg.Policy); diff != "" {
		t.Errorf("policy: %s", diff)
	}
	if env.cfg.Slots != 3 {
		t.Errorf("slots = %d", env.cfg.Slots)
	}
	t.Setenv("ASKANCE_POLICY", "x,y")
	env, err = loadSettings(t)
	if diff := cmp.Diff([]string{"x", "y"}, env.cfg.Policy); err != nil || diff != "" {
		t.Errorf("policy from the environment: %v %s", err, diff)
	}
}

// An empty path is no path: it is not the folder of the settings file.
func TestEmptySetting(t *testing.T) {
	clearSettings(t)
	if err := replaceFile(settingsFile, []byte("data: ''\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if env, err := loadSettings(t); err != nil || env.cfg.Data != "" {
		t.Errorf("data = %q, %v", env.cfg.Data, err)
	}
}

// A flag for the server counts before a variable for NATS, and the other way round. The data folder
// takes no part: a worker has keys in it.
func TestServerOrNATS(t *testing.T) {
	clearSettings(t)
	t.Setenv("ASKANCE_NATS", "nats://h")
	if env, err := loadSettings(t, "--server", "https://h"); err != nil || env.cfg.NATS != "" || env.cfg.Server != "https://h" {
		t.Errorf("--server with ASKANCE_NATS: %+v, %v", env.cfg, err)
	}
	t.Setenv("ASKANCE_NATS", "")
	t.Setenv("ASKANCE_SERVER", "https://h")
	if env, err := loadSettings(t, "--nats", "nats://h"); err != nil || env.cfg.NATS != "nats://h" || env.cfg.Server != "" {
		t.Errorf("--nats with ASKANCE_SERVER: %+v, %v", env.cfg, err)
	}
	if env, err := loadSettings(t, "--data", "d"); err != nil || env.cfg.Server != "https://h" {
		t.Errorf("--data with ASKANCE_SERVER: %+v, %v", env.cfg, err)
	}
	t.Setenv("ASKANCE_NATS", "nats://h")
	if env, err := loadSettings(t); err != nil || env.cfg.NATS == "" || env.cfg.Server == "" {
		t.Errorf("both variables must be refused later: %+v, %v", env.cfg, err)
	}
}

// A printed command has the flags that say where the server is, as a shell reads them, and no
// password. Settings of the environment are in force for it too.
func TestCommandLineFor(t *testing.T) {
	clearSettings(t)
	t.Setenv("ASKANCE_SPACE", "from-env")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "show c"},
		{[]string{"--data", "./data", "--as", "ann"}, "show c --data ./data"},
		{[]string{"--data", "ann's data"}, `show c --data 'ann'\''s data'`},
		{[]string{"--nats", "nats://ann:secret@host:4222", "--nats-ca", "ca.pem", "--nats-insecure", "--space", "team"}, "show c --nats nats://host:4222 --nats-ca ca.pem --nats-insecure=true --space team"},
		{[]string{"--server", "https://host", "--token-file", "ann.token"}, "show c --server https://host"},
	} {
		env, err := loadSettings(t, tc.args...)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimPrefix(commandLineFor(env, "show c"), programName()+" "); got != tc.want {
			t.Errorf("%q: %s, want %s", tc.args, got, tc.want)
		}
		if got := commandAgain(env, ""); strings.Contains(got, "--as ann") != slices.Contains(tc.args, "--as") || strings.Contains(got, "--token-file") != slices.Contains(tc.args, "--token-file") {
			t.Errorf("%q: for the same person: %s", tc.args, got)
		}
	}
	all := contexts{Named: map[string]settingsOf{"prod": {"nats": "nats://prod:4222", "space": "team"}}}
	if err := all.write(); err != nil {
		t.Fatal(err)
	}
	env, err := loadSettings(t, "--context", "prod")
	if got := commandLineFor(env, ""); err != nil || !strings.HasSuffix(got, " --context prod") {
		t.Errorf("with a context: %s, %v", got, err)
	}
	if got, want := flagsGiven(env, byCurrentContext, placeFlags...), " --nats nats://prod:4222 --space team"; got != want {
		t.Errorf("for a command without contexts: %s, want %s", got, want)
	}
}

// A hint names the journal, and does not blame a server for a signal.
func TestHints(t *testing.T) {
	clearSettings(t)
	env, err := loadSettings(t, "--data", "d", "--as", "ann")
	if err != nil {
		t.Fatal(err)
	}
	damaged := "askance journal check, then askance journal accept-loss --by NAME"
	for _, tc := range []struct {
		code    message.Code
		stopped bool
		hint    string
		want    string
	}{
		{message.CodeUnavailable, false, "check the server", "check the server"},
		{message.CodeUnavailable, true, "check the server", ""},
		{message.CodeOverloaded, true, "try again", ""},
		{message.CodeUnknownOutcome, true, "send it again", "the request may be recorded: see askance show CALL --data d --as ann; send it again"},
		{message.CodeDamaged, false, damaged, "askance journal check --data d, then askance journal accept-loss --data d --by NAME"},
	} {
		e := &message.Error{Code: tc.code, What: "it failed", Hint: tc.hint}
		if tc.stopped {
			e.Err = errSignal
		}
		got := strings.ReplaceAll(hintOf(env, e, e), programName()+" ", "askance ")
		if got != tc.want || errorBodyOf(env, e).Hint != hintOf(env, e, e) {
			t.Errorf("%s: %q, want %q", tc.code, got, tc.want)
		}
	}
}

func TestSettingsFaults(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	for _, tc := range []struct{ name, text, want string }{
		{"unknown", "log_level: info\ndta: x", `settings file askance.yaml:2:6: unknown setting "dta"; did you mean data`},
		{"twice", "data: x\ndata: y", "already defined"},
		{"a fraction where a whole number is wanted", "slots: 0.5", `askance.yaml: slots is "0.5", use a whole number`},
		{"nested", "as: ann\ndata: {x: y}", "settings file askance.yaml:2:7: data: expected a value or a list of values"},
		{"null", "data: null", "askance.yaml:1:7: data: expected a value"},
		{"null in a list", "policy: [a.yaml, null]", "askance.yaml:1:18: is an empty item of a list"},
		{"True as a name", "as: True", "askance.yaml:1:5: is True, which would become true"},
		{"an empty first document", "---\n---\ndata: x", "askance.yaml:2:1: has more than one document"},
		{"an octal number in quotes", "slots: '010'", `askance.yaml: slots is "010", use a whole number`},
		{"a number with a point", "as: 1.10", "settings file askance.yaml:1:5: is 1.10, which would become 1.1 (put it in quotes"},
		{"an octal number", "as: 010", "settings file askance.yaml:1:5: is 010, which would become 8"},
		{"no YAML", "data: [", "settings file askance.yaml"},
		{"two values for one", "data: [x, y]", "data takes one value, got 2"},
		{"wrong type", "slots: many", `askance.yaml: slots is "many", use a whole number`},
		{"too long", strings.Repeat("# padding\n", maxSettings/10+1), "longer than 64 KiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := replaceFile(settingsFile, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := loadSettings(t)
			if err == nil || !strings.Contains(err.Error(), tc.want) || ExitCode(err) != ExitUsage {
				t.Errorf("settings = %v (exit %d), want %q", err, ExitCode(err), tc.want)
			}
		})
	}
	if _, err := loadSettings(t, "--config", "none.yaml"); ExitCode(err) != ExitNotFound {
		t.Errorf("an explicitly named settings file that does not exist: %v", err)
	}
}

// A flag for a whole number reads 010 as neither eight nor ten.
func TestWholeNumbersAreDecimal(t *testing.T) {
	found := 0
	for words, c := range Tree() {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "int" && f.Value.Type() != "uint64" {
				return
			}
			found++
			for _, odd := range []string{"010", "0x10", "0b1", "1_0", "+1", " 1", "1.5", "1e1", ""} {
				if err := f.Value.Set(odd); err == nil {
					t.Errorf("%s --%s accepts %q as %s", words, f.Name, odd, f.Value)
				}
			}
			if err := f.Value.Set("12"); err != nil || f.Value.String() != "12" {
				t.Errorf("%s --%s is %s after 12: %v", words, f.Name, f.Value, err)
			}
		})
	}
	if found < 20 {
		t.Errorf("found %d flags", found)
	}
}

// Each flag for a time accepts days, as the error about a wrong one says.
func TestDurationsInDays(t *testing.T) {
	found := 0
	for words, c := range Tree() {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "duration" {
				return
			}
			if found++; f.Value.Set("30d") != nil {
				t.Errorf("%s --%s does not accept 30d", words, f.Name)
			}
		})
	}
	if found < 10 {
		t.Errorf("found only %d flags", found)
	}
}

// Each field of config is a setting that some command accepts from a flag, the environment and
// the settings file, and that the reference describes.
func TestEverySetting(t *testing.T) {
	clearSettings(t)
	takes := map[string][]string{} // words of the commands, by flag
	for words, c := range Tree() {
		add := func(f *pflag.Flag) {
			if isSetting(f) {
				takes[f.Name] = append(takes[f.Name], words)
			}
		}
		c.Flags().VisitAll(add)
		c.PersistentFlags().VisitAll(add)
	}
	reference := settingsHelp()
	for _, s := range settings {
		t.Run(s.flag, func(t *testing.T) {
			if s.flag == "" || s.help == "" {
				t.Fatalf("field %d of config has no flag or no help", s.index)
			}
			if want := "  --" + s.flag + ", " + s.key() + ", " + s.env() + "\n      " + s.help; !strings.Contains(reference, want) {
				t.Errorf("the reference lacks %q", want)
			}
			if len(takes[s.flag]) == 0 {
				t.Fatal("no command accepts the flag")
			}
			value, want := sampleOf(s)
			sources := []struct {
				name string
				give func(*testing.T, *environment, *cobra.Command)
			}{
				{"flag", func(t *testing.T, _ *environment, c *cobra.Command) {
					if err := c.ParseFlags([]string{"--" + s.flag + "=" + value}); err != nil {
						t.Fatal(err)
					}
				}},
				{"environment", func(t *testing.T, _ *environment, c *cobra.Command) {
					t.Setenv(s.env(), value)
					parseNothing(t, c)
				}},
				{"file", func(t *testing.T, env *environment, c *cobra.Command) {
					env.settingsFile = filepath.Join(t.TempDir(), settingsFile)
					if err := os.WriteFile(env.settingsFile, []byte(s.key()+": "+value+"\n"), 0o600); err != nil {
						t.Fatal(err)
					}
					parseNothing(t, c)
				}},
			}
			words := takes[s.flag]
			slices.Sort(words)
			for i := range max(len(words), len(sources)) { // covers every command and every source
				words, source := words[i%len(words)], sources[i%len(sources)]
				t.Run(words+" by "+source.name, func(t *testing.T) {
					env, all := newTree()
					c := all[words]
					source.give(t, env, c)
					if err := env.applySettings(c); err != nil {
						t.Fatal(err)
					}
					if got := reflect.ValueOf(env.cfg).Field(s.index).Interface(); !reflect.DeepEqual(got, want) {
						t.Errorf("the configuration contains %v, want %v", got, want)
					}
				})
			}
		})
	}
}

// sampleOf returns a value of the setting that is not its default, as text and as the value in
// config.
func sampleOf(s setting) (text string, value any) {
	if s.flag == "context" {
		return "sample", "sample" // the name in clearSettings
	}
	switch reflect.TypeFor[config]().Field(s.index).Type {
	case reflect.TypeFor[bool]():
		return "true", true
	case reflect.TypeFor[int]():
		return "17", 17
	case reflect.TypeFor[time.Duration]():
		return "17m0s", 17 * time.Minute
	case reflect.TypeFor[[]string]():
		return "/sample", []string{"/sample"}
	}
	return "/sample", "/sample"
}

func parseNothing(t *testing.T, c *cobra.Command) {
	t.Helper()
	if err := c.ParseFlags(nil); err != nil {
		t.Fatal(err)
	}
}

func clearSettings(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("ASKANCE_CONFIG", "")
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	if err := (contexts{Named: map[string]settingsOf{"sample": {"sign_key": "/key"}}}).write(); err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		t.Setenv(s.env(), "")
	}
}

// A last run reads back as it was written, and unknown content is refused.
func TestLastRunRoundTrip(t *testing.T) {
	clearSettings(t)
	dir := t.TempDir()
	if last, err := readLastRun(dir); last != nil || err != nil {
		t.Fatalf("readLastRun of an unused folder = %+v, %v", last, err)
	}
	var want config
	for _, s := range settings {
		_, value := sampleOf(s)
		reflect.ValueOf(&want).Elem().Field(s.index).Set(reflect.ValueOf(value))
	}
	for _, run := range []config{want, {Space: "team"}, {Space: "010", Policy: []string{"/1_0", "/0x1"}, As: "1.10"}} {
		if err := writeLastRun(dir, run); err != nil {
			t.Fatal(err)
		}
		got, err := readLastRun(dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(run, *got); diff != "" {
			t.Errorf("the last run differs: %s", diff)
		}
	}
	for _, bad := range []string{"reviewer_per_hour: many", "reviewer_per_hour: -1", "policy_bucket: perhaps"} {
		if err := os.WriteFile(filepath.Join(dir, lastRun), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if last, err := readLastRun(dir); err == nil {
			t.Errorf("readLastRun(%s) = %+v, want an error", bad, last)
		}
	}
}

func FuzzSettings(f *testing.F) {
	f.Add([]byte("data: x\npolicy: [a, b]"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		values, err := parseSettings("askance.yaml", data)
		if err != nil && values != nil {
			t.Fatalf("got values together with an error: %v", err)
		}
	})
}

// An error of the system about a file says what to do.
func TestHintsForFiles(t *testing.T) {
	for _, err := range []error{syscall.ENOENT, syscall.EACCES, syscall.ENOSPC, syscall.EMFILE, syscall.EROFS} {
		err := fmt.Errorf("read the settings: %w", &fs.PathError{Op: "open", Path: "askance.yaml", Err: err})
		if b := errorBodyOf(&environment{}, err); b.Hint == "" {
			t.Errorf("%v has no hint", err)
		}
	}
}
