package archtest_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A step that hangs ends with the check, as does a process that a step left behind.
func TestCheckLeavesNothingRunning(t *testing.T) {
	for name, c := range map[string]struct {
		step, limit, says string
		code              int
	}{
		"a step hangs":                 {"sleep 600 & exec sleep 600", "0.5s", "sending signal TERM", 124},
		"a failed step left a process": {"sleep 600 & echo failed; exit 2", "10m", "failed", 2},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			for program, script := range map[string]string{"go": "echo go version", "make": c.step} {
				if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(root(t), ".ci", "run"))
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "CI_LIMIT="+c.limit)
			out, err := cmd.CombinedOutput() // it returns when no process is left that could write
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != c.code || !strings.Contains(string(out), c.says) {
				t.Errorf("%v, want exit status %d\n%s", err, c.code, out)
			}
		})
	}
}
