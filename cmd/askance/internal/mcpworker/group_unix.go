//go:build unix

package mcpworker

import (
	"os/exec"
	"syscall"
)

// leadGroup protects the server from signals to this process's group, such as Ctrl+C, with
// which calls in flight would end with an unknown outcome.
func leadGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the server and the processes that it started.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
