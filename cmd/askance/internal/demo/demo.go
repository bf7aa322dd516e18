// Package demo plays an incident: a scripted bot whose every tool call goes
// through a real engine, a real journal and a real worker process.
//
// Only the model is simulated: its output comes from a recorded stream (package
// chatstream). The log that is read is a file, the command that counts is run by
// a shell, and the refund is a line in a ledger file, written by a worker in
// another process that got its grant over NATS.
package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Names of the files of a script.
const (
	streamFile = "stream.sse"
	policyFile = "policy.yaml"
	toolsFile  = "tools.yaml"
	workspace  = "workspace"
)

// The names of the demo's agent, worker and session.
const (
	BotName    = "incident-bot"
	WorkerName = "incident-worker"
	Session    = message.SessionID("incident")
)

// Approver responds to open approval requests. SubmitResponse is called from one goroutine,
// for one approval request at a time; its ctx ends when another person has responded. An
// error ends the demo and leaves the approval request open. refused is why the previous
// response was not accepted, nil the first time.
type Approver interface {
	Name() string
	SubmitResponse(ctx context.Context, c *toolcall.Call, refused error) (toolcall.Response, error)
}

// Config says what to play.
type Config struct {
	Dir        node.Dir
	Script     fs.FS // stream.sse, policy.yaml, tools.yaml and workspace
	Space      toolcall.SpaceID
	Durability journal.Durability
	Exe        string        // this program, for the worker process
	Pace       time.Duration // between the chunks of the model stream
	Approver   Approver
	// Sink gets every record of the reply that is played, in order.
	Sink toolcall.Sink
	// Progress gets what running calls report.
	Progress func(*toolcall.Call, toolcall.ProgressRequest)
	Version  string
	Log      *slog.Logger
}

// Demo is an engine, a worker process and a script, ready to be played.
type Demo struct {
	cfg    Config
	node   *node.Node
	worker *worker
	reply  message.ReplyID
}

// Open copies the script into the data folder and starts the engine and the
// worker process. Files that already exist must be those of the script: a
// CodeInvalid error names one that differs, and nothing is written.
func Open(ctx context.Context, cfg Config) (*Demo, error) {
	if err := copyScript(cfg.Script, string(cfg.Dir)); err != nil {
		return nil, fmt.Errorf("demo: copy the script: %w", err)
	}
	d := &Demo{cfg: cfg, reply: message.ReplyID("reply-" + strings.ToLower(rand.Text()[:8]))}
	tools, err := toolfile.Load(d.path(toolsFile))
	if err != nil {
		return nil, err
	}
	var local executor.Registry
	if err := Register(&local, d.path(workspace)); err != nil {
		return nil, err
	}
	d.node, err = node.Start(ctx, node.Config{
		Dir: cfg.Dir, Space: cfg.Space, Listen: "127.0.0.1:0", Durability: cfg.Durability,
		Policy: []string{d.path(policyFile)}, Tools: tools, Local: &local,
		Progress: cfg.Progress, Version: cfg.Version, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	if d.worker, err = startWorker(cfg, d.node.URL(), d.path(workspace)); err != nil {
		return nil, errors.Join(err, d.node.Close())
	}
	return d, nil
}

func (d *Demo) path(name string) string { return filepath.Join(string(d.cfg.Dir), name) }

// Node returns the running engine.
func (d *Demo) Node() *node.Node { return d.node }

// WorkerPID returns the process id of the worker.
func (d *Demo) WorkerPID() int { return d.worker.cmd.Process.Pid }

// PolicyPath returns the copy of the policy in the data folder.
func (d *Demo) PolicyPath() string { return d.path(policyFile) }

// ToolsPath returns the copy of the tools file in the data folder.
func (d *Demo) ToolsPath() string { return d.path(toolsFile) }

// Close stops the worker and the engine. The data folder stays.
func (d *Demo) Close() error {
	return errors.Join(d.worker.stop(), d.node.Close())
}

// scriptFile is a file of a script, and where it is copied to.
type scriptFile struct {
	to   string
	data []byte
}

// copyScript copies the files of a script that are not in dir yet. The folder may
// have other files, so everything is read before anything is written: a file with
// different content is an error, and is never replaced.
func copyScript(script fs.FS, dir string) error {
	files, err := readScript(script, dir)
	if err != nil {
		return err
	}
	var missing []scriptFile
	for _, f := range files {
		there, err := os.ReadFile(f.to)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, f)
		case err != nil:
			return err
		case !bytes.Equal(there, f.data):
			return &message.Error{
				Code: message.CodeInvalid, Op: "copy the script", What: f.to + " already exists and is not the demo's",
				Hint: "name another folder with --data, or move the file away",
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, workspace), 0o700); err != nil {
		return err
	}
	for _, f := range missing {
		if err := f.create(); err != nil {
			return err
		}
	}
	return nil
}

func readScript(script fs.FS, dir string) ([]scriptFile, error) {
	var files []scriptFile
	err := fs.WalkDir(script, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if top, _, _ := strings.Cut(name, "/"); top != workspace && name != streamFile && name != policyFile && name != toolsFile {
			return nil
		}
		data, err := fs.ReadFile(script, name)
		files = append(files, scriptFile{filepath.Join(dir, filepath.FromSlash(name)), data})
		return err
	})
	return files, err
}

// create writes the file, and fails if it exists by now.
func (f scriptFile) create() error {
	if err := os.MkdirAll(filepath.Dir(f.to), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(f.to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(f.data)
	return errors.Join(err, file.Close())
}
