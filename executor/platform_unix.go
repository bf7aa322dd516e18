//go:build unix

package executor

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminateGroup asks the program and what it started to end.
func terminateGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// killGroup ends them. A group without members is no error.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// maxUnread is the largest pipe that Linux lets a user make.
const maxUnread = 1 << 20

// readRest gives a function that copies to w what the pipe holds when it is
// called, without waiting for more. The pipe itself may be closed before.
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
