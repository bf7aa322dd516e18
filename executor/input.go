package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// errNotStarted is the error of a program that got no input and never began.
var errNotStarted = errors.New("the program was not started")

// sealInput gives a file with all of b, at offset 0, for a program that has not
// started yet. The caller calls release when the program has ended.
//
// Invariant: the file is complete and never changes, so the end of this process
// cannot cut it. No pipe has that property.
func sealInput(b []byte) (in *os.File, release func(), err error) {
	if len(b) == 0 {
		return nil, nil, fmt.Errorf("%w: the call has no arguments, not even {}. Propose the call again with arguments", errNotStarted)
	}
	in, release, err = memoryInput(b)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) { // an old kernel, or a sandbox
		in, release, err = fileInput(b)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: cannot store its input of %d bytes: %w. Free memory, temporary space or file descriptors on that machine and propose the call again", errNotStarted, len(b), err)
	}
	return in, release, nil
}

// fileInput keeps b in a temporary file. Only the returned descriptor reaches
// it, except where the system refuses to remove the name of an open file.
func fileInput(b []byte) (in *os.File, release func(), err error) {
	w, err := os.CreateTemp("", "askance-input-") // mode 0600
	if err != nil {
		return nil, nil, err
	}
	in, err = os.Open(w.Name())
	removed := os.Remove(w.Name()) == nil
	release = func() {
		_ = in.Close() // it was only read
		if !removed {
			_ = os.Remove(w.Name()) // a process that left the group may still hold it
		}
	}
	if err == nil {
		_, err = w.Write(b)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		release()
		return nil, nil, err
	}
	return in, release, nil
}
