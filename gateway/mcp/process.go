package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/child"
)

// process is the wire to a server that was started as a child.
type process struct {
	*child.Program
	turn chan struct{} // has an element while a message is written
	read chan struct{} // closed when the output of the server is no longer read
}

func startProcess(ctx context.Context, l *link) (*process, error) {
	// The settings and credentials of askance are not for the server.
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ASKANCE_") })
	program, err := child.Start(context.WithoutCancel(ctx), l.up.Command, append(env, l.up.Env...), &lineLog{log: l.log}) // it lives until close, not as long as a request
	if err != nil {
		return nil, fmt.Errorf("%w: start %s: %w", errNotSent, l.up.Command[0], err)
	}
	p := &process{program, make(chan struct{}, 1), make(chan struct{})}
	go p.follow(l)
	return p, nil
}

func (p *process) follow(l *link) {
	defer close(p.read)
	err := readLines(p, func(line []byte) {
		f, err := readMessage(line)
		if err != nil {
			l.log.Warn("the MCP server sent something that is not a message", "error", err)
		}
		if f != nil {
			l.receive(f, nil)
		}
	})
	l.fail(errNotSent)
	_ = p.Close() // it reports nothing
	if err = errors.Join(err, p.Err()); err != nil {
		l.log.Warn("the MCP server ended", "error", err)
	}
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

// send implements wire. If ctx ends in the middle of a message, the rest is written as soon as the
// server reads it, and other messages wait for that.
func (p *process) send(ctx context.Context, f *frame, _ *waiting) error {
	select {
	case p.turn <- struct{}{}:
	case <-p.Ended():
		return errNotSent
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errNotSent, context.Cause(ctx))
	}
	wrote := make(chan error, 1)
	go func() {
		n, err := p.Write(append(f.bytes(), '\n'))
		switch {
		case err != nil && n == 0:
			err = errNotSent
		case err != nil:
			err = errLost
		}
		<-p.turn
		wrote <- err
	}()
	select {
	case err := <-wrote:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (p *process) close() {
	_ = p.Close() // it reports nothing
	<-p.read      // so that its end is not taken for that of the next process
}

// lineLog logs what a server writes to its standard error.
type lineLog struct {
	log  *slog.Logger
	rest []byte
}

func (l *lineLog) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, found := strings.Cut(string(l.rest), "\n")
		if !found {
			break
		}
		l.log.Info("MCP server", "stderr", line)
		l.rest = []byte(rest)
	}
	if len(l.rest) > 64<<10 {
		l.rest = nil
	}
	return len(b), nil
}
