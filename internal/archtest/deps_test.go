package archtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// As root, the script behind `make deps` installs what is missing. Otherwise it prints the
// commands.
func TestDepsScript(t *testing.T) {
	complete := map[string]string{
		"git": "", "gcc": "", "npm": `echo "npm $*" >>"$CALLS"`, "python3": "", "chromium": "",
		"go": "echo gcc", "node": "echo v20.1.0", "id": "echo 0", "apt-get": `echo "apt-get $*" >>"$CALLS"`,
	}
	tests := []struct {
		name    string
		change  map[string]string // programs that differ; "-" is missing
		ok      bool
		prints  []string
		invokes string
	}{
		{"nothing is missing", nil, true, nil, ""},
		{"no Python", map[string]string{"python3": "-"}, true, []string{"installing python3"}, "apt-get update -qq|apt-get install -y -qq --no-install-recommends python3 python3-venv"},
		{"Python without venv", map[string]string{"python3": "exit 1"}, true, []string{"installing python3-venv"}, "apt-get update -qq|apt-get install -y -qq --no-install-recommends python3-venv"},
		{"another browser", map[string]string{"chromium": "-", "google-chrome": ""}, true, nil, ""},
		{"root", map[string]string{"chromium": "-", "git": "-"}, true, []string{"installing git chromium"}, "apt-get update -qq|apt-get install -y -qq --no-install-recommends git chromium fonts-dejavu-core"},
		{"a user", map[string]string{"gcc": "-", "id": "echo 1000"}, false, []string{"sudo apt-get update", "sudo apt-get install -y --no-install-recommends gcc libc6-dev"}, ""},
		{"another system", map[string]string{"git": "-", "apt-get": "-"}, false, []string{"git (the names of Debian's packages)"}, ""},
		{"the installation fails", map[string]string{"git": "-", "apt-get": "exit 100"}, false, []string{"The installation failed", "  apt-get install -y --no-install-recommends git"}, ""},
		{"an old Node.js and a user", map[string]string{"node": "echo v18.19.0", "id": "echo 1000"}, false, []string{"v18.19.0", "sudo npm install --global node@22"}, ""},
		{"an old Node.js that stays first in PATH", map[string]string{"node": "echo v18.19.0"}, false, []string{"first in PATH"}, "npm install --global --silent node@22|npm prefix --global"},
	}
	script := filepath.Join(root(t), ".ci", "deps")
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bin := t.TempDir()
			for name, body := range complete {
				if other, ok := tt.change[name]; ok {
					body = other
				}
				writeProgram(t, bin, name, bash, body)
			}
			for name, body := range tt.change {
				writeProgram(t, bin, name, bash, body)
			}
			calls := filepath.Join(t.TempDir(), "calls")
			cmd := exec.CommandContext(t.Context(), bash, script)
			cmd.Env = []string{"PATH=" + bin, "CALLS=" + calls}
			out, err := cmd.CombinedOutput()
			if (err == nil) != tt.ok {
				t.Errorf("ended with %v, want success: %t\n%s", err, tt.ok, out)
			}
			for _, want := range tt.prints {
				if !strings.Contains(string(out), want) {
					t.Errorf("printed %q, want it to contain %q", out, want)
				}
			}
			made, err := os.ReadFile(calls)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if got := strings.ReplaceAll(strings.TrimSpace(string(made)), "\n", "|"); got != tt.invokes {
				t.Errorf("ran %q, want %q", got, tt.invokes)
			}
		})
	}
}

func writeProgram(t *testing.T, dir, name, bash, body string) {
	t.Helper()
	if body == "-" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!"+bash+"\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}
