//go:build !unix

package executor

import (
	"errors"
	"io"
	"os"
	"os/exec"
)

// There are no process groups here: the program alone is killed, at once.
func ownGroup(*exec.Cmd)           {}
func awaitEnd(int) bool            { return false }
func terminateGroup(p *os.Process) { _ = p.Kill() }
func killGroup(p *os.Process)      { _ = p.Kill() }

// readRest has no way here to read a pipe without waiting.
func readRest(*os.File, io.Writer) func() { return func() {} }

// memoryInput: these systems have no memory that can be sealed.
func memoryInput([]byte) (*os.File, func(), error) { return nil, nil, errors.ErrUnsupported }
