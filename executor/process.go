package executor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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
		_ = f.Close() // a second close fails, which does no harm here
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

// DefaultGrace is how long a cancelled command has between SIGTERM and SIGKILL.
const DefaultGrace = 5 * time.Second

// Command runs a program as a tool. The program gets the call's input on standard input,
// byte for byte and without a trailing newline. Its standard output becomes the text of the
// result, each line of standard error a line of progress. An exit status other than zero is
// an error whose text has the last lines of standard error. No shell is involved; the
// arguments are fixed.
//
// Standard input is a file that is complete before the program starts, and never
// changes: on Linux sealed memory, elsewhere an unlinked temporary file. So the program
// reads the whole input, however the worker ends, and can seek in it. If the file cannot be
// created, the program does not start and the call ends with an error. Each attempt gets a
// new file. Only pipes inside the program can still be cut off, when a signal ends one side:
// a program with such pipes should compare what it read with ASKANCE_INPUT_BYTES before it
// acts.
//
// The program sees only a few variables of the worker's environment (those in
// Inherited), those of Env and PassEnv, and these about its call:
//
//	ASKANCE_IDEMPOTENCY_KEY  to pass to the system that has the effect
//	ASKANCE_INPUT_BYTES      length of the input, for programs with pipes inside
//	ASKANCE_TOOL  ASKANCE_ATTEMPT
//	ASKANCE_SPACE  ASKANCE_SESSION_ID  ASKANCE_REPLY_ID  ASKANCE_CALL_ID
//	TRACEPARENT              position in a distributed trace, if the call has one
//
// The program starts only while the attempt's lease lasts: the Command checks the lease
// right before the start. Answered heartbeats renew the lease for a Handler that runs the
// Command later. See WithCommand.
//
// On Unix the program leads a separate process group. When the context ends, the group gets
// SIGTERM, and SIGKILL after the grace. When the program has ended, the rest of its group
// gets SIGKILL, so that nothing keeps running after the result. A process that leaves the
// group (setsid) escapes both. On Linux the program, but not the processes that it started,
// is killed when the worker dies in any way; and the rest of a cancelled group has its full
// grace even if the program ends earlier. On systems without process groups, only the
// program is killed, at once.
type Command struct {
	// Argv is the program, looked up in PATH if it has no slash, and its arguments.
	Argv []string
	// Dir is the working directory; "" means the worker's.
	Dir string
	// Env has NAME=VALUE pairs for the program.
	Env []string
	// PassEnv names further variables of the worker that the program gets.
	PassEnv []string
	// Grace is the time between SIGTERM and SIGKILL; 0 means DefaultGrace.
	Grace time.Duration
}

// Inherited lists the variables of the worker that every command gets. The rest of the
// worker's environment, which can have tokens and keys, is not passed on.
// LC_* stands for all names with this prefix. The last line is for Windows.
var Inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*",
	"SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE",
}

// Handler checks the command and returns the Handler that runs it. It looks up the program
// once, now.
func (c Command) Handler() (Handler, error) {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return nil, errors.New("command: name a program")
	}
	path, err := exec.LookPath(c.Argv[0])
	if err != nil {
		return nil, fmt.Errorf("command: %w", err)
	}
	for _, pair := range c.Env {
		if name, _, ok := strings.Cut(pair, "="); !ok || name == "" {
			return nil, fmt.Errorf("command %s: the environment variable %q is not NAME=VALUE", c.Argv[0], name)
		}
	}
	if c.Grace < 0 {
		return nil, fmt.Errorf("command %s: the grace %s is negative", c.Argv[0], c.Grace)
	}
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	if path, err = filepath.Abs(path); err != nil { // Dir must not change which program it is
		return nil, fmt.Errorf("command %s: %w", c.Argv[0], err)
	}
	argv, dir, grace := slices.Clone(c.Argv), c.Dir, c.Grace
	env := slices.Concat(PassEnvironment(c.PassEnv), c.Env)
	return func(ctx context.Context, t Task) (Output, error) {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), path) // runCommand ends it, with its group
		cmd.Args, cmd.Dir = argv, dir
		ids := taskEnv(t)
		if slices.ContainsFunc(ids, func(pair string) bool { return strings.Contains(pair, "\x00") }) {
			return Output{}, fmt.Errorf("%w: an id of the call has a zero byte, which no program can get. Propose the call again with other ids", errNotStarted)
		}
		cmd.Env = slices.Concat(env, ids) // the last of equal names counts
		in, release, err := sealInput(t.Input)
		if err != nil {
			return Output{}, fmt.Errorf("start %s: %w", argv[0], err)
		}
		defer release()
		cmd.Stdin = in
		return runCommand(ctx, cmd, grace, t)
	}, nil
}

// PassEnvironment returns the part of this process's environment that a program gets: the
// names in Inherited, and those in pass.
func PassEnvironment(pass []string) []string { return pickEnvironment(os.Environ(), pass) }

// pickEnvironment returns the part of environ that a program may see.
func pickEnvironment(environ, pass []string) []string {
	var kept []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if name != "" && (slices.ContainsFunc(Inherited, func(p string) bool { return matches(p, name) }) || slices.Contains(pass, name)) {
			kept = append(kept, pair)
		}
	}
	return kept
}

func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return name == pattern || runtime.GOOS == "windows" && strings.EqualFold(name, pattern)
}

func taskEnv(t Task) []string {
	env := []string{
		"ASKANCE_IDEMPOTENCY_KEY=" + t.IdempotencyKey,
		"ASKANCE_TOOL=" + t.Tool,
		"ASKANCE_ATTEMPT=" + strconv.Itoa(t.Attempt),
		"ASKANCE_INPUT_BYTES=" + strconv.Itoa(len(t.Input)),
		"ASKANCE_SPACE=" + string(t.Call.Space),
		"ASKANCE_SESSION_ID=" + string(t.Call.Session),
		"ASKANCE_REPLY_ID=" + string(t.Call.Reply),
		"ASKANCE_CALL_ID=" + string(t.Call.Call),
	}
	if t.Trace != "" {
		env = append(env, "TRACEPARENT="+string(t.Trace))
	}
	return env
}

// errNotStarted is the error of a program that was not started; the call ends with it.
var errNotStarted = errors.New("the program was not started")

// sealInput returns a file with all of b, at offset 0, for a program that has not
// started yet. The caller calls release when the program has ended.
//
// Invariant: the file is complete and never changes, so the end of this process
// cannot truncate it, as it could truncate a pipe.
func sealInput(b []byte) (in *os.File, release func(), err error) {
	if len(b) == 0 {
		return nil, nil, fmt.Errorf("%w: the call has no arguments, not even {}. Propose the call again with arguments", errNotStarted)
	}
	in, release, err = memoryInput(b)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) { // an old kernel, or a sandbox
		in, release, err = fileInput(b)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: cannot store its input of %d bytes: %w. Free memory, temporary space or file descriptors on that machine and propose the call again", errNotStarted, len(b), err)
	}
	return in, release, nil
}

// fileInput stores b in a temporary file. Only the returned descriptor refers to it, except
// on systems that refuse to remove the name of an open file.
func fileInput(b []byte) (in *os.File, release func(), err error) {
	w, err := os.CreateTemp("", "askance-input-") // mode 0600
	if err != nil {
		return nil, nil, err
	}
	in, err = os.Open(w.Name())
	removed := os.Remove(w.Name()) == nil
	release = func() {
		_ = in.Close() // it was only read
		if !removed {
			_ = os.Remove(w.Name()) // a process that left the group may still hold it
		}
	}
	if err == nil {
		_, err = w.Write(b)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		release()
		return nil, nil, err
	}
	return in, release, nil
}
