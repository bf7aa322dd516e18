package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/child"
	"github.com/askance-dev/askance/toolcall"
)

// pipeGrace is how long the pipes of a program that has ended are still read: a process
// that left its group can keep them open without limit.
const pipeGrace = time.Second

func runCommand(ctx context.Context, cmd *exec.Cmd, grace time.Duration, t Task) (Output, error) {
	// The kernel ties a child to the thread that started it: without this lock, the
	// end of an idle thread would kill the program (see ownGroup).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	out, errs := &capture{}, &lineWriter{emit: t.Progress}
	pipes := &pipes{eof: make(chan struct{})}
	defer pipes.close()
	var err error
	if cmd.Stdout, err = pipes.into(out); err == nil {
		cmd.Stderr, err = pipes.into(errs)
	}
	if err == nil {
		ownGroup(cmd)
		if err := t.mayBegin(); err != nil {
			return Output{}, fmt.Errorf("start %s: %w", cmd.Args[0], err)
		}
		err = cmd.Start()
	}
	if err != nil {
		return Output{}, fmt.Errorf("start %s: %w", cmd.Args[0], notStartedError{err})
	}
	pipes.closeTheirs()

	p := &process{cmd: cmd, ended: make(chan struct{})}
	broken := p.supervise(ctx, grace, pipes.eof)
	err = p.wait()
	pipes.finish(pipeGrace)
	errs.flush()

	exit, isExit := errors.AsType[*exec.ExitError](err)
	switch {
	case broken:
		return out.output(), context.Cause(ctx)
	case isExit:
		err = &ExitError{Status: exit.ProcessState.String(), Code: exit.ExitCode(), Stderr: errs.tail()}
	}
	return out.output(), err
}

// notStartedError says that the program did not start: nothing ran.
type notStartedError struct{ error }

func (e notStartedError) Unwrap() error { return e.error }

// Is implements the interface of errors.Is.
func (e notStartedError) Is(target error) bool { return target == errNotBegun }

// process is a started program.
type process struct {
	cmd    *exec.Cmd
	ended  chan struct{} // closed when it has ended; guards what follows
	reaped bool          // another process may already have its PID
	err    error         // of the wait that reaped it
}

// supervise waits until the program or ctx has ended, then kills the program's group. It
// reports whether ctx ended first.
func (p *process) supervise(ctx context.Context, grace time.Duration, eof <-chan struct{}) (broken bool) {
	go func() {
		defer close(p.ended)
		if !awaitEnd(p.cmd.Process.Pid) {
			p.reaped, p.err = true, p.cmd.Wait()
		}
	}()
	select {
	case <-p.ended:
	case <-ctx.Done():
		broken = true
		child.Terminate(p.cmd.Process)
		p.awaitGroup(grace, eof)
	}
	// Now: as long as the program is not reaped, no other group can get its number.
	child.Kill(p.cmd.Process)
	<-p.ended
	return broken
}

// awaitGroup waits at most grace for the end of the program and, as far as can be
// observed, of its group: until no process holds its output open.
func (p *process) awaitGroup(grace time.Duration, eof <-chan struct{}) {
	timer := time.After(grace)
	select {
	case <-p.ended:
	case <-timer:
		return
	}
	if p.reaped {
		return
	}
	select {
	case <-eof:
	case <-timer:
	}
}

// wait reaps the program, after supervise.
func (p *process) wait() error {
	if p.reaped {
		return p.err
	}
	return p.cmd.Wait()
}

// pipes are a program's outputs, each copied by a goroutine. The program gets the files
// themselves, so that waiting for the program does not wait for every process that
// inherited them.
type pipes struct {
	ours, theirs []*os.File
	to           []io.Writer // of ours
	copies       sync.WaitGroup
	eof          chan struct{} // closed when no process holds the other ends
}

// into creates a pipe that is copied to w.
func (p *pipes) into(w io.Writer) (*os.File, error) {
	r, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.ours, p.theirs, p.to = append(p.ours, r), append(p.theirs, theirs), append(p.to, w)
	p.copies.Go(func() { _, _ = io.Copy(w, r) }) // ends at EOF, or when the pipe is closed
	return theirs, nil
}

// closeTheirs closes the ends that the started program now has.
func (p *pipes) closeTheirs() {
	closeAll(p.theirs)
	go func() { p.copies.Wait(); close(p.eof) }() // finish waits for it
}

// finish waits at most grace for the end of the pipes and ends every goroutine. It also
// reads what a pipe holds then: under load a copying goroutine may not have run.
func (p *pipes) finish(grace time.Duration) {
	timer := time.After(grace)
	var rest []func()
	select {
	case <-p.eof:
	case <-timer:
		for i, r := range p.ours {
			rest = append(rest, readRest(r, p.to[i]))
		}
	}
	p.close()
	<-p.eof
	for _, read := range rest {
		read()
	}
}

// close may be called more than once.
func (p *pipes) close() {
	closeAll(p.theirs)
	closeAll(p.ours)
	p.copies.Wait()
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // a second close fails, and that is no error here
	}
}

// capture keeps the beginning of an output and counts the rest, so that endless output
// needs no memory and does not block the program.
type capture struct {
	buf     bytes.Buffer
	dropped int
}

// Write never fails.
func (c *capture) Write(b []byte) (int, error) {
	n := min(len(b), toolcall.MaxOutputBytes-c.buf.Len())
	c.buf.Write(b[:n])
	c.dropped += len(b) - n
	return len(b), nil
}

func (c *capture) output() Output {
	out := Text(c.buf.String())
	out.dropped = c.dropped
	return out
}

// Limits of standard error.
const (
	lineBytes = 1 << 10 // longer lines are cut
	tailLines = 20      // last lines that an error text repeats
	tailBytes = 4 << 10 // about their total length; more than one line can have
)

// lineWriter emits its input line by line. A carriage return also ends a line: programs
// redraw their progress with it.
type lineWriter struct {
	emit func(string)
	line []byte
	last []string
}

// Write never fails.
func (l *lineWriter) Write(b []byte) (int, error) {
	for _, c := range b {
		switch {
		case c == '\n' || c == '\r':
			l.flush()
		case len(l.line) < lineBytes:
			l.line = append(l.line, c)
		}
	}
	return len(b), nil
}

// flush ends the line, unless it is blank.
func (l *lineWriter) flush() {
	text := repair(string(l.line))
	l.line = l.line[:0]
	if strings.TrimSpace(text) == "" {
		return
	}
	l.emit(text)
	if l.last = append(l.last, text); len(l.last) > tailLines {
		l.last = l.last[1:]
	}
}

// tail returns the last whole lines within the limits.
func (l *lineWriter) tail() string {
	first, size := len(l.last), 0
	for first > 0 && size+len(l.last[first-1]) < tailBytes {
		first--
		size += len(l.last[first]) + len("\n")
	}
	return strings.Join(l.last[first:], "\n")
}
