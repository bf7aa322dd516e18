//go:build unix

package child

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Lead makes the program lead a process group. Signals to this process's group, such as Ctrl+C,
// do not reach it.
func Lead(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// IsJob reports whether this process is the job of a shell, which can stop and continue it.
func IsJob() bool {
	session, err := unix.Getsid(0)
	return err == nil && session != unix.Getpgrp()
}

// Terminate asks the program and the processes of its group to end.
func Terminate(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// Kill kills the group. A group without members is not an error.
func Kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
