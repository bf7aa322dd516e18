//go:build unix

package executor

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxUnread is the largest pipe that Linux lets a user create.
const maxUnread = 1 << 20

// readRest returns a function that copies the current content of the pipe to w, without
// waiting for more. r may be closed before that function is called.
func readRest(r *os.File, w io.Writer) func() {
	fd := -1
	if c, err := r.SyscallConn(); err == nil {
		_ = c.Control(func(p uintptr) {
			if d, err := unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0); err == nil {
				fd = d
			}
		})
	}
	return func() {
		if fd < 0 {
			return
		}
		defer func() { _ = unix.Close(fd) }()
		buf := make([]byte, 64<<10)
		for left := maxUnread; left > 0; {
			n, err := unix.Read(fd, buf[:min(left, len(buf))])
			if err == unix.EINTR {
				continue
			}
			if err != nil || n <= 0 {
				return
			}
			_, _ = w.Write(buf[:n]) // never fails
			left -= n
		}
	}
}
