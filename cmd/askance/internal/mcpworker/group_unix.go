//go:build unix

package mcpworker

import (
	"os/exec"
	"syscall"
)

// leadGroup keeps signals to this process's group, such as Ctrl+C, from the server: calls
// on their way would end with an unknown outcome.
func leadGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup ends the server and what it has started.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
