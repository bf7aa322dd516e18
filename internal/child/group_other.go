//go:build !unix

package child

import (
	"os"
	"os/exec"
)

// These systems have no process groups: only the program is killed, at once.

// Lead does nothing here.
func Lead(*exec.Cmd) {}

// IsJob reports that no shell can stop and continue this process.
func IsJob() bool { return false }

// Terminate kills the program.
func Terminate(p *os.Process) { _ = p.Kill() }

// Kill kills the program.
func Kill(p *os.Process) { _ = p.Kill() }
