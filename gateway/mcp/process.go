package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is the wire to a server that was started as a child.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	mu    sync.Mutex // guards writes
	ended chan struct{}
}

// stopStep is how long a server has to end after each step of stopping it.
const stopStep = 2 * time.Second

func startProcess(ctx context.Context, l *link) (*process, error) {
	argv := l.up.Command
	cmd := exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...) // it lives until close, not as long as a request
	cmd.Env = append(environment(), l.up.Env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	out, theirs, err := os.Pipe() // not StdoutPipe: Wait would close it before it was read
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	defer func() { _ = theirs.Close() }() // the server has its own
	cmd.Stdout = theirs
	cmd.Stderr = &lineLog{log: l.log}
	cmd.WaitDelay = stopStep
	if err := cmd.Start(); err != nil {
		_ = out.Close() // it was not used
		return nil, fmt.Errorf("%w: start %s: %w", errNotSent, argv[0], err)
	}
	p := &process{cmd: cmd, in: in, ended: make(chan struct{})}
	go p.read(l, out)
	return p, nil
}

// environment returns this process's variables, without the settings and credentials of askance.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ASKANCE_") })
}

func (p *process) read(l *link, out *os.File) {
	exited := make(chan error, 1)
	go func() {
		exited <- p.cmd.Wait()
		_ = out.SetReadDeadline(time.Now().Add(stopStep)) // a program that the server started can hold it open
	}()
	err := readLines(out, func(line []byte) {
		f, err := readMessage(line)
		if err != nil {
			l.log.Warn("the MCP server sent what is no message", "error", err)
		}
		if f != nil {
			l.receive(f, nil)
		}
	})
	l.fail(errNotSent)
	_, _ = out.Close(), p.in.Close() // it may have ended
	if err != nil {                  // the server would wait for its output to be read
		_ = p.cmd.Process.Kill()
	}
	if err = errors.Join(err, <-exited); err != nil {
		l.log.Warn("the MCP server ended", "error", err)
	}
	close(p.ended)
}

// readLines calls take with each line until the end. A line over the limit is an error.
func readLines(r io.Reader, take func([]byte)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxFrame)
	for lines.Scan() {
		if line := lines.Bytes(); len(line) > 0 {
			take(line)
		}
	}
	return lines.Err()
}

func (p *process) send(_ context.Context, f *frame, _ *waiting) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.ended:
		return errNotSent
	default:
	}
	switch n, err := p.in.Write(append(f.bytes(), '\n')); {
	case err == nil:
		return nil
	case n == 0:
		return errNotSent
	}
	return errLost
}

func (p *process) close() {
	_ = p.in.Close() // asks it to end, and ends a write that the server does not read
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-p.ended:
			return
		case <-time.After(stopStep):
			_ = p.cmd.Process.Signal(s) // it may have ended meanwhile
		}
	}
	<-p.ended
}

// lineLog logs what a server writes to its standard error.
type lineLog struct {
	log  *slog.Logger
	rest []byte
}

// Write implements io.Writer.
func (w *lineLog) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		line, rest, found := strings.Cut(string(w.rest), "\n")
		if !found {
			break
		}
		w.log.Info("MCP server", "stderr", line)
		w.rest = []byte(rest)
	}
	if len(w.rest) > 64<<10 {
		w.rest = nil
	}
	return len(b), nil
}
