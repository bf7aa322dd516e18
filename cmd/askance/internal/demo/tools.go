package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/askance-dev/askance/executor"
)

// maxLog bounds what read_log returns.
const maxLog = 256 << 10

// Register adds the tools that run beside the engine, on a workspace folder.
func Register(r *executor.Registry, workspace string) error {
	return errors.Join(
		r.Register("read_log", readLog(workspace)),
		r.Register("shell", shell(workspace)),
	)
}

// readLog reads a file of the workspace, whatever links and dots its path has.
func readLog(workspace string) executor.Handler {
	return func(_ context.Context, t executor.Task) (executor.Output, error) {
		var args struct {
			Path string `json:"path"`
		}
		if err := t.Decode(&args); err != nil {
			return executor.Output{}, err
		}
		root, err := os.OpenRoot(workspace)
		if err != nil {
			return executor.Output{}, err
		}
		defer func() { _ = root.Close() }() // only read
		f, err := root.Open(args.Path)
		if err != nil {
			return executor.Output{}, err
		}
		defer func() { _ = f.Close() }() // only read
		b, err := io.ReadAll(io.LimitReader(f, maxLog))
		return executor.Text(string(b)), err
	}
}

// shell runs one command line in the workspace, for as long as it may.
func shell(workspace string) executor.Handler {
	return func(ctx context.Context, t executor.Task) (executor.Output, error) {
		var args struct {
			Command string `json:"command"`
		}
		if err := t.Decode(&args); err != nil {
			return executor.Output{}, err
		}
		cmd := exec.CommandContext(ctx, "sh", "-c", args.Command)
		cmd.Dir = workspace
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			return executor.Text(string(out)), fmt.Errorf("%s: %w", args.Command, err)
		}
		return executor.Text(strings.TrimRight(string(out), "\n")), nil
	}
}
