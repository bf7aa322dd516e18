package archtest_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A step that hangs, and a process that it leaves behind, end with the whole check.
func TestCheckThatHangsEnds(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"go":   "#!/bin/sh\necho go version\n",
		"make": "#!/bin/sh\nsleep 600 &\nexec sleep 600\n",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(root(t), ".ci", "run"))
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "CI_LIMIT=0.5s")
	out, err := cmd.CombinedOutput() // it returns when no process is left that could write
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 124 || !strings.Contains(string(out), "sending signal TERM") {
		t.Errorf("%v, want the exit code 124 of timeout\n%s", err, out)
	}
}
