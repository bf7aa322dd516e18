//go:build !linux

package executor

import (
	"errors"
	"os"
)

// memoryInput: these systems have no memory that can be sealed.
func memoryInput([]byte) (*os.File, func(), error) { return nil, nil, errors.ErrUnsupported }
