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

	"github.com/askance-dev/askance/toolcall"
)

// pipeGrace is how long the pipes of a program that has ended are still
// served: a process that escaped its group may hold them open for ever.
const pipeGrace = time.Second

// runCommand starts cmd, sees it to its end and reads what it wrote.
func runCommand(ctx context.Context, cmd *exec.Cmd, grace time.Duration, t Task) (Output, error) {
	// The kernel ties a child to the thread that made it: without this lock, the
	// end of an idle thread would kill the program (see ownGroup).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	out, errs := &capture{}, &lineWriter{emit: t.Progress}
	pipes := newPipes()
	defer pipes.close()
	var err error
	if cmd.Stdout, err = pipes.into(out); err == nil {
		cmd.Stderr, err = pipes.into(errs)
	}
	if err == nil {
		ownGroup(cmd)
		err = t.mayBegin()
	}
	if err == nil {
		if err = cmd.Start(); err != nil {
			err = notStartedError{err}
		}
	}
	if err != nil {
		return Output{}, fmt.Errorf("start %s: %w", cmd.Args[0], err)
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

// notStartedError says that the program did not start, so that nothing ran.
type notStartedError struct{ error }

func (e notStartedError) Unwrap() error { return e.error }

// Is implements the interface of errors.Is.
func (e notStartedError) Is(target error) bool { return target == errNotBegun }

// process is a started program.
type process struct {
	cmd    *exec.Cmd
	ended  chan struct{} // closed when it has ended; guards what follows
	reaped bool          // another process may have its number by now
	err    error         // of the wait that reaped it
}

// supervise returns when the program or ctx has ended,
// and nothing is left of its group. It reports whether ctx broke it off.
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
		terminateGroup(p.cmd.Process)
		p.awaitGroup(grace, eof)
	}
	// Now, while the number of the unreaped program keeps the group's from being
	// given to a stranger.
	killGroup(p.cmd.Process)
	<-p.ended
	return broken
}

// awaitGroup waits at most grace for the end of the program and, as far as can
// be seen from here, of its group: no process holds its output any more.
func (p *process) awaitGroup(grace time.Duration, eof <-chan struct{}) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		return
	}
	if p.reaped {
		return
	}
	select {
	case <-eof:
	case <-timer.C:
	}
}

// wait reaps the program, after supervise.
func (p *process) wait() error {
	if p.reaped {
		return p.err
	}
	return p.cmd.Wait()
}

// pipes are a program's outputs, each copied by a goroutine. The program gets
// the files themselves, so that waiting for it is not waiting for everything
// that inherited them.
type pipes struct {
	ours, theirs []*os.File
	to           []io.Writer // of ours
	copies       sync.WaitGroup
	eof          chan struct{} // closed when no process holds the other ends
}

func newPipes() *pipes { return &pipes{eof: make(chan struct{})} }

// into makes a pipe that is copied to w.
func (p *pipes) into(w io.Writer) (*os.File, error) {
	r, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.ours, p.theirs, p.to = append(p.ours, r), append(p.theirs, theirs), append(p.to, w)
	p.copies.Go(func() { _, _ = io.Copy(w, r) }) // ends at EOF, or when the pipe is closed
	return theirs, nil
}

// closeTheirs is called when the program has its ends.
func (p *pipes) closeTheirs() {
	closeAll(p.theirs)
	go func() { p.copies.Wait(); close(p.eof) }() // finish waits for it
}

// finish waits at most grace for the end of the pipes and ends every goroutine.
// What a pipe holds then is read, too: under load a copy may not have been woken.
func (p *pipes) finish(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	var rest []func()
	select {
	case <-p.eof:
	case <-timer.C:
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

// capture keeps the beginning of what is written and counts the rest, so that
// an endless program costs no memory and is not blocked.
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

// Bounds of standard error.
const (
	lineBytes = 1 << 10 // longer lines are cut
	tailLines = 20      // last lines that an error text repeats
	tailBytes = 4 << 10 // and about their length together; above what one line can have
)

// lineWriter passes on what is written line by line. A carriage return ends a
// line too: programs redraw their progress with it.
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

// tail is the last lines, as many whole ones as the bounds permit.
func (l *lineWriter) tail() string {
	first, size := len(l.last), 0
	for first > 0 && size+len(l.last[first-1]) < tailBytes {
		first--
		size += len(l.last[first]) + len("\n")
	}
	return strings.Join(l.last[first:], "\n")
}
