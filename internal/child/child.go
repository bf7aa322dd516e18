// Package child runs programs that read and write messages on their standard input and output, such
// as MCP servers.
package child

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"time"
)

// Grace is how long a program has to end after each step of stopping it, and how long its output is
// read after its end if another program holds it open.
const Grace = 2 * time.Second

// Program is a program that was started. Its methods may be called from several goroutines, but one
// message is read and one is written at a time.
type Program struct {
	out   *os.File
	in    io.WriteCloser
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of its end; read it after ended
}

// Start starts a program that leads a process group. Its input ends with ctx. The caller calls Close.
func Start(ctx context.Context, argv, env []string, stderr io.Writer) (*Program, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stderr, cmd.WaitDelay = env, stderr, Grace
	Lead(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, theirs, err := os.Pipe() // that of StdoutPipe would lose what the program wrote before it ended
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	cmd.Stdout, cmd.Cancel = theirs, in.Close
	err = cmd.Start()
	_ = theirs.Close() // the program has its own
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	p := &Program{out: out, in: in, cmd: cmd, ended: make(chan struct{})}
	go p.await()
	return p, nil
}

// await ends the reading after the program has ended: other processes can hold its output.
func (p *Program) await() {
	defer close(p.ended)
	p.err = p.cmd.Wait()
	Kill(p.cmd.Process)
	_ = p.out.SetReadDeadline(time.Now().Add(Grace)) // fails only if it is closed
}

// Ended is closed when the program has ended.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// Err waits for the end of the program, and says what was wrong with it.
func (p *Program) Err() error {
	<-p.ended
	return p.err
}

// Read reads the program's output.
func (p *Program) Read(b []byte) (int, error) { return p.out.Read(b) }

// Write writes to the program's input. Close ends a write that the program does not read.
func (p *Program) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close asks the program to end by the end of its input, then by a signal to its group, then kills
// the group.
func (p *Program) Close() error {
	_ = p.in.Close() // it may be closed
	for _, stop := range []func(*os.Process){Terminate, Kill} {
		select {
		case <-p.ended:
		case <-time.After(Grace):
			stop(p.cmd.Process)
		}
	}
	<-p.ended
	_ = p.out.Close() // it was only read, and may be closed already
	return nil
}
