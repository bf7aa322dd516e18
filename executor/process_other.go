//go:build !unix

package executor

import (
	"os"
	"os/exec"
)

// There are no process groups here: the program alone is killed, at once.
func ownGroup(*exec.Cmd)           {}
func awaitEnd(int) bool            { return false }
func terminateGroup(p *os.Process) { _ = p.Kill() }
func killGroup(p *os.Process)      { _ = p.Kill() }
