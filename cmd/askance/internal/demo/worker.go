package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/executor"
)

const workerLog = "worker.log"

// workerGrace is how long the worker process has to end before it is killed.
const workerGrace = 3 * time.Second

// worker is the process that runs the remote tools: this very program, as
// `askance worker`, with `askance demo tool` as the command.
type worker struct {
	cmd      *exec.Cmd
	lifeline io.Closer // the worker ends when this does, even if we are killed
	log      *os.File
	ended    chan struct{} // closed when the process has ended
	once     sync.Once
}

func startWorker(cfg Config, url, workspace string) (*worker, error) {
	args := []string{"worker", "--nats", url, "--engine-key", cfg.Dir.PublicKeys(), "--space", string(cfg.Space),
		"--as", WorkerName, "--slots", strconv.Itoa(len(WorkerTools)), "--until-stdin-closes"}
	for _, tool := range WorkerTools {
		args = append(args, "--tool", tool)
	}
	args = append(args, "--", cfg.Exe, "demo", "tool", workspace)
	//nolint:noctx // it ends when its standard input closes, after its calls have ended
	w := &worker{cmd: exec.Command(cfg.Exe, args...), ended: make(chan struct{})}
	var err error
	if w.log, err = os.OpenFile(filepath.Join(string(cfg.Dir), workerLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, fmt.Errorf("start the worker: %w", err)
	}
	w.cmd.Stdout, w.cmd.Stderr = w.log, w.log
	if w.lifeline, err = w.cmd.StdinPipe(); err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the worker: %w", err), w.log.Close())
	}
	go func() {
		defer close(w.ended)
		_ = w.cmd.Wait() // how it ended is in its log
	}()
	return w, nil
}

// stop lets the worker finish what it runs, and kills it if it does not.
func (w *worker) stop() error {
	var err error
	w.once.Do(func() {
		_ = w.lifeline.Close() // fails only if it has ended
		select {
		case <-w.ended:
		case <-time.After(workerGrace):
			_ = w.cmd.Process.Kill() // fails only if it has ended meanwhile
			<-w.ended
			err = errors.New("the worker did not stop and was killed; see " + w.log.Name())
		}
		err = errors.Join(err, w.log.Close())
	})
	return err
}

const maxLog = 256 << 10

// Register adds the tools that run in the engine's process, on a workspace folder.
func Register(r *executor.Registry, workspace string) error {
	return errors.Join(
		r.Register("read_log", readLog(workspace)),
		r.Register("shell", shell(workspace)),
	)
}

// readLog reads a file of the workspace; links and dots cannot leave the folder.
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
