//go:build unix && !linux

package executor

import (
	"errors"
	"os"
	"os/exec"

	"github.com/askance-dev/askance/internal/child"
)

// ownGroup makes the program lead a process group. These systems have no way
// to end it with the worker.
func ownGroup(cmd *exec.Cmd) { child.Lead(cmd) }

// awaitEnd returns false: waiting without reaping is not portable. The group is killed
// right after the program was reaped.
func awaitEnd(int) bool { return false }

// memoryInput: these systems have no memory that can be sealed.
func memoryInput([]byte) (*os.File, func(), error) { return nil, nil, errors.ErrUnsupported }
