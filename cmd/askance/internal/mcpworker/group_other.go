//go:build !unix

package mcpworker

import "os/exec"

// There are no process groups here: only the server itself is killed.
func leadGroup(*exec.Cmd)     {}
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
