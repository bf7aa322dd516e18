package cli

import (
	"errors"
	"io/fs"
)

// otherCode sorts errors of the operating system.
func otherCode(err error) int {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ExitNotFound
	case errors.Is(err, fs.ErrPermission):
		return ExitForbidden
	}
	return ExitError
}
