//go:build unix

package executor

import (
	"os"
	"syscall"
)

// terminateGroup asks the program and what it started to end.
func terminateGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// killGroup ends them. A group without members is no error.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
