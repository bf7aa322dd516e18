package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// settled gives what a command's settings come to.
func settled(t *testing.T, args ...string) (*environment, *cobra.Command, error) {
	t.Helper()
	env := &environment{}
	c := &cobra.Command{Use: "x"}
	env.at.flags(c)
	c.Flags().StringVar(&env.config, "config", "", "")
	c.Flags().StringArray("policy", nil, "")
	c.Flags().Int("slots", 1, "")
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return env, c, env.applySettings(c)
}

func TestSettingsPrecedence(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, s := range settings {
		t.Setenv(s.env(), "")
	}
	t.Setenv("ASKANCE_CONFIG", "")
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	if err := replaceFile(settingsFile, []byte("data: from-file\nspace: from-file\nas: from-file\npolicy: [a, /b]\nslots: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ASKANCE_SPACE", "from-env")
	t.Setenv("ASKANCE_AS", "from-env")
	a, c, err := settled(t, "--as", "from-flag")
	if err != nil {
		t.Fatal(err)
	}
	if a.at.data != "from-file" || a.at.space != "from-env" || a.at.as != "from-flag" {
		t.Errorf("settings = %+v, want data from the file, space from the environment, as from the flag", a.at)
	}
	policy, err := c.Flags().GetStringArray("policy")
	if diff := cmp.Diff([]string{"a", "/b"}, policy); err != nil || diff != "" {
		t.Errorf("policy: %v %s", err, diff)
	}
	if n, err := c.Flags().GetInt("slots"); n != 3 || err != nil {
		t.Errorf("slots = %d, %v", n, err)
	}
	t.Setenv("ASKANCE_POLICY", "x,y")
	_, c, err = settled(t)
	policy, _ = c.Flags().GetStringArray("policy")
	if diff := cmp.Diff([]string{"x", "y"}, policy); err != nil || diff != "" {
		t.Errorf("policy from the environment: %v %s", err, diff)
	}
}

func TestSettingsFaults(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	for _, tc := range []struct{ name, text, want string }{
		{"unknown", "dta: x", `unknown setting "dta"`},
		{"twice", "data: x\ndata: y", "already defined"},
		{"nested", "data: {x: y}", "want a value or a list of values"},
		{"no YAML", "data: [", "settings file askance.yaml"},
		{"wrong type", "slots: many", "askance.yaml: slots"},
		{"too long", strings.Repeat("# padding\n", maxSettings/10+1), "longer than 64 KiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := replaceFile(settingsFile, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := settled(t)
			if err == nil || !strings.Contains(err.Error(), tc.want) || ExitCode(err) != ExitUsage {
				t.Errorf("settings = %v (exit %d), want %q", err, ExitCode(err), tc.want)
			}
		})
	}
	if _, _, err := settled(t, "--config", "none.yaml"); ExitCode(err) != ExitNotFound {
		t.Errorf("a settings file that was named and is not there: %v", err)
	}
}

func FuzzSettings(f *testing.F) {
	f.Add([]byte("data: x\npolicy: [a, b]"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		values, err := parseSettings("askance.yaml", data)
		if err != nil && values != nil {
			t.Fatalf("values and an error: %v", err)
		}
	})
}
