//go:build !unix

package executor

import (
	"errors"
	"io"
	"os"
	"os/exec"
)

// These systems have no process groups: see child.Kill.
func ownGroup(*exec.Cmd) {}
func awaitEnd(int) bool  { return false }

// readRest does nothing: here, a pipe cannot be read without waiting.
func readRest(*os.File, io.Writer) func() { return func() {} }

// memoryInput: these systems have no memory that can be sealed.
func memoryInput([]byte) (*os.File, func(), error) { return nil, nil, errors.ErrUnsupported }
