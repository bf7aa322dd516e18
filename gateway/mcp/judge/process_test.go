package judge_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"
)

// patience is long enough for any machine, so only a test that hangs reaches it.
const patience = time.Minute

// process is a child process that prints where it listens.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	out  *output
	done chan struct{} // closed when it has ended
}

// output collects the output of a process and waits for patterns in it.
type output struct {
	mu      sync.Mutex // guards the fields below
	text    bytes.Buffer
	changed chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(b)
	close(o.changed)
	o.changed = make(chan struct{})
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// find returns the groups of a pattern in the output, or nil if there is no match yet, and a
// channel that is closed when there is more output.
func (o *output) find(pattern *regexp.Regexp) ([]string, chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return pattern.FindStringSubmatch(o.text.String()), o.changed
}

// command prepares a child process that is killed when the test ends.
func command(t testing.TB, env []string, argv ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(argv[0], argv[1:]...), out: &output{changed: make(chan struct{})}, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = p.out
	return p
}

// start begins the child. With its output in the pattern's group it is ready.
func (p *process) start() *process {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("start %v: %v", p.cmd.Args, err)
	}
	p.t.Cleanup(func() {
		p.kill()
		if p.t.Failed() {
			text := p.out.String()
			p.t.Logf("%v\n%s", p.cmd.Args, text[max(0, len(text)-4<<10):])
		}
	})
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // tests that need the result read ProcessState
	}()
	return p
}

// kill kills the process with SIGKILL and waits until it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// says waits for a pattern in the output and returns its first group.
func (p *process) says(pattern string) string {
	p.t.Helper()
	re, timeout := regexp.MustCompile(pattern), time.After(patience)
	for {
		found, more := p.out.find(re)
		if found != nil {
			return found[len(found)-1]
		}
		select {
		case <-more:
		case <-p.done:
			if found, _ = p.out.find(re); found != nil {
				return found[len(found)-1]
			}
			p.t.Fatalf("%v ended with %v and did not say %s:\n%s", p.cmd.Args, p.cmd.ProcessState, pattern, p.out)
		case <-timeout:
			p.t.Fatalf("%v has not said %s:\n%s", p.cmd.Args, pattern, p.out)
		}
	}
}
