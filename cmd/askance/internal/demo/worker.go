package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
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

// WorkerTools are the tools of the demo's worker process.
var WorkerTools = []string{"refund", "restart_service"}

const step = 150 * time.Millisecond

// Call is one attempt, as askance worker passes it to a program.
type Call struct {
	Tool           string // ASKANCE_TOOL
	IdempotencyKey string // ASKANCE_IDEMPOTENCY_KEY
	Workspace      string
	Input          io.Reader // standard input
	Output         io.Writer // standard output: the result
	Progress       io.Writer // standard error: a line each
}

// RunTool is the program behind the demo's worker: it runs one call of one of WorkerTools.
func RunTool(ctx context.Context, c Call) error {
	switch c.Tool {
	case "refund":
		return refund(ctx, c)
	case "restart_service":
		return restart(ctx, c)
	}
	return fmt.Errorf("the demo's worker has no tool %q", c.Tool)
}

func (c Call) steps(ctx context.Context, lines ...string) error {
	for _, l := range lines {
		if _, err := fmt.Fprintln(c.Progress, l); err != nil {
			return err
		}
		if err := sleep.For(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

func (c Call) decode(v any) error {
	b, err := io.ReadAll(io.LimitReader(c.Input, strictjson.DefaultMaxBytes+1))
	if err != nil {
		return err
	}
	return strictjson.Unmarshal(b, v)
}

// Ledger is where refunds are booked, in the workspace.
const Ledger = "ledger.jsonl"

// Booking is a line of the ledger.
type Booking struct {
	Key     string `json:"idempotency_key"`
	Order   string `json:"order_id"`
	Charge  string `json:"charge_id"`
	Cents   int64  `json:"amount_cents"`
	Money   string `json:"currency"`
	Reason  string `json:"reason"`
	Receipt string `json:"receipt"`
}

// refund books a line in the ledger, once for each idempotency key: this makes it an
// idempotent tool.
func refund(ctx context.Context, c Call) error {
	var args struct {
		Order  string `json:"order_id"`
		Charge string `json:"charge_id"`
		Cents  int64  `json:"amount_cents"`
		Money  string `json:"currency"`
		Reason string `json:"reason"`
	}
	if err := c.decode(&args); err != nil {
		return err
	}
	if c.IdempotencyKey == "" {
		return errors.New("there is no idempotency key, and without one no money is moved")
	}
	if err := c.steps(ctx, "looking up "+args.Order); err != nil {
		return err
	}
	path := filepath.Join(c.Workspace, Ledger)
	booked, err := ReadLedger(path)
	if err != nil {
		return err
	}
	for _, b := range booked {
		if b.Key == c.IdempotencyKey {
			_, err := fmt.Fprintf(c.Output, "already refunded, receipt %s", b.Receipt)
			return err
		}
	}
	b := Booking{c.IdempotencyKey, args.Order, args.Charge, args.Cents, args.Money, args.Reason, fmt.Sprintf("re_%04d", len(booked)+1)}
	if err := appendLine(path, b); err != nil {
		return err
	}
	if err := c.steps(ctx, "booked as "+b.Receipt); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Output, "refunded %d.%02d %s to the buyer of %s, receipt %s", b.Cents/100, b.Cents%100, b.Money, b.Order, b.Receipt)
	return err
}

// ReadLedger reads all bookings; none if there is no ledger.
func ReadLedger(path string) ([]Booking, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Booking
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		var b Booking
		if err := strictjson.Unmarshal(s.Bytes(), &b); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, b)
	}
	return out, nil
}

// appendLine appends a booking and syncs it to the disk.
func appendLine(path string, b Booking) error {
	line, err := strictjson.Marshal(b)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

func restart(ctx context.Context, c Call) error {
	var args struct {
		Service string `json:"service"`
	}
	if err := c.decode(&args); err != nil {
		return err
	}
	if err := c.steps(ctx, "draining "+args.Service, "starting "+args.Service); err != nil {
		return err
	}
	path := filepath.Join(c.Workspace, "restarted.txt")
	if err := os.WriteFile(path, fmt.Appendf(nil, "%s %s\n", args.Service, time.Now().UTC().Format(time.RFC3339)), 0o600); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.Output, "%s is healthy again", args.Service)
	return err
}
