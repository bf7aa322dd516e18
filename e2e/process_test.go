package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// jobs are run by the starter.
var jobs = make(chan func())

// starter starts every child on one thread that lives as long as the test binary. On Linux children
// die with the thread that started them, so that a broken run leaves nothing behind.
func starter() {
	runtime.LockOSThread()
	for f := range jobs {
		f()
	}
}

// process is a real process that can be killed and started again with the same arguments. The output
// of all its lives is in one file, whose end is shown when the test fails.
type process struct {
	t    testing.TB
	name string
	argv []string
	sign string // what it prints when it is ready
	out  string
	// restarts is how often it is started again, as by a supervisor, when it ends with the exit
	// code for "try again later".
	restarts int

	mu    sync.Mutex // guards the fields below and restarts
	life  *life      // nil: it is not running
	kills int
	// restarted is how often it was started again because of that exit code.
	restarted int
}

// tryLater is the exit code for "try again later", see askance help exit-codes.
const tryLater = 5

// life is a process from start to end.
type life struct {
	cmd   *exec.Cmd
	began time.Time
	done  chan struct{} // closed when it has been waited for; guards err
	err   error
}

// failureLog is a file that remains after the tests, for logs that would hide what failed.
var failureLog = sync.OnceValues(func() (*os.File, error) { return os.CreateTemp("", "askance-e2e-*.log") })

// keepLog writes the end of the process's log to the file for failures.
func (p *process) keepLog() {
	f, err := failureLog()
	if err == nil {
		_, err = fmt.Fprintf(f, "=== %s of %s\n%s\n", p.name, p.t.Name(), p.tail(64<<10))
	}
	if err != nil {
		p.t.Error(err)
		return
	}
	p.t.Logf("the log of %s is in %s", p.name, f.Name())
}

// newProcess describes a process; start starts it. It is killed when the test
// ends.
func newProcess(t testing.TB, dir, name, sign string, argv ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, sign: sign, argv: argv, out: filepath.Join(dir, name+".log")}
	t.Cleanup(func() {
		p.kill()
		if data, err := os.ReadFile(p.out); err == nil && bytes.Contains(data, []byte("WARNING: DATA RACE")) {
			_, report, _ := bytes.Cut(data, []byte("WARNING: DATA RACE"))
			t.Errorf("%s has a data race%s", p.name, report[:min(len(report), 8<<10)])
		}
		if t.Failed() {
			p.keepLog()
		}
	})
	return p
}

// start begins the next life.
func (p *process) start() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life != nil {
		p.t.Fatalf("%s is already running", p.name)
	}
	if err := p.begin(); err != nil {
		p.t.Fatalf("start %s: %v", p.name, err)
	}
}

// begin starts a new life. p.mu is held.
func (p *process) begin() error {
	out, err := os.OpenFile(p.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close() // the child has its own
	l := &life{cmd: exec.Command(p.argv[0], p.argv[1:]...), began: time.Now(), done: make(chan struct{})}
	_, _ = fmt.Fprintf(out, lifeMark+"%s %v\n", l.began.Format(time.StampMicro), p.argv)
	l.cmd.Stdout, l.cmd.Stderr = out, out
	dieWithParent(l.cmd)
	started := make(chan error)
	jobs <- func() { started <- l.cmd.Start() }
	if err := <-started; err != nil {
		return err
	}
	p.life = l
	go p.supervise(l)
	return nil
}

// supervise waits for the end of a life and begins the next one if the process asked to be started
// again.
func (p *process) supervise(l *life) {
	l.err = l.cmd.Wait()
	close(l.done)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life != l || !p.again(l) {
		return
	}
	p.restarts--
	p.restarted++
	p.life = nil
	if err := p.begin(); err != nil {
		p.t.Errorf("start %s again: %v", p.name, err)
	}
}

// again reports whether another life follows a life that has ended: if it asked for that, or is a
// NATS server that could not start on a full disk. p.mu is held.
func (p *process) again(l *life) bool {
	full := func() bool {
		return p.sign != servesSign && bytes.Contains(p.tail(1<<10), []byte("no space left on device"))
	}
	return p.restarts > 0 && (l.cmd.ProcessState.ExitCode() == tryLater || full())
}

// kill ends the running process with SIGKILL and waits until it is gone. It reports whether there
// was one.
func (p *process) kill() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil {
		return false
	}
	alive := p.life.cmd.Process.Kill() == nil
	<-p.life.done
	p.life = nil
	if alive {
		p.kills++
	}
	return alive
}

// up waits until the running process has printed that it is ready. Only the test's own goroutine may
// call it.
func (p *process) up() {
	p.t.Helper()
	ready := false
	defer func() {
		if !ready {
			p.dump()
		}
	}()
	eventually(p.t, p.name+" puts out "+strconv.Quote(p.sign), func() bool {
		if err := p.died(); err != nil {
			p.t.Fatal(err)
		}
		data, err := os.ReadFile(p.out)
		last := bytes.LastIndex(data, []byte(lifeMark))
		ready = err == nil && bytes.Contains(data[max(last, 0):], []byte(p.sign))
		return ready
	})
}

// dump ends the process and logs what its goroutines did.
func (p *process) dump() {
	p.mu.Lock()
	l := p.life
	p.mu.Unlock()
	if l == nil {
		return
	}
	_ = l.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-l.done:
	case <-time.After(10 * time.Second):
	}
	p.t.Logf("%s", p.tail(256<<10))
}

// id returns the id that an engine printed in its current life; "" if it has not.
func (p *process) id() string {
	p.t.Helper()
	data, err := os.ReadFile(p.out)
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data[max(bytes.LastIndex(data, []byte(lifeMark)), 0):]), "  engine   ")
	id, _, _ := strings.Cut(rest, ",")
	return id
}

// began returns the time at which the current life began, if there is one.
func (p *process) began() (at time.Time, alive bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil {
		return at, false
	}
	return p.life.began, true
}

// lifeMark begins each life in the output.
const lifeMark = "--- starts "

// stop interrupts the process and fails the test if the process does not end.
func (p *process) stop() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil {
		return
	}
	if err := p.life.cmd.Process.Signal(os.Interrupt); err != nil {
		p.t.Errorf("interrupt %s: %v", p.name, err)
	}
	select {
	case <-p.life.done:
	case <-time.After(patience):
		p.t.Errorf("%s does not end", p.name)
		_ = p.life.cmd.Process.Kill()
		<-p.life.done
	}
	p.life = nil
}

// died returns an error if the process ended unexpectedly, or nil while it runs.
func (p *process) died() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.life
	if l == nil {
		return nil
	}
	select {
	case <-l.done:
		if p.again(l) {
			return nil
		}
		return fmt.Errorf("%s ended unexpectedly: %w\n%s", p.name, cmp.Or(l.err, errors.New("exit status 0")), p.tail(2<<10))
	default:
		return nil
	}
}

func (p *process) tail(n int) []byte {
	data, err := os.ReadFile(p.out)
	if err != nil {
		return []byte(err.Error())
	}
	if len(data) > n {
		data = data[len(data)-n:]
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	return data
}

// command runs a short-lived askance command and returns its output.
func command(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(ctx, bin.askance, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// eventually calls ok again and again until it returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within %s", what, patience)
		case <-tick.C:
		}
	}
}
