package executor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"time"
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
		err = cmd.Start()
	}
	if err != nil {
		return Output{}, fmt.Errorf("start %s: %w", cmd.Args[0], err)
	}
	pipes.handedOver()

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

// process is a started program.
type process struct {
	cmd    *exec.Cmd
	ended  chan struct{} // closed when it has ended; guards what follows
	reaped bool          // its number may be somebody else's by now
	err    error         // of the wait that reaped it
}

// supervise returns when the program has ended by itself or because ctx did,
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
// be seen from here, of its group: nobody holds its output any more.
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
