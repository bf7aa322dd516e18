//go:build darwin || freebsd

package auth

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// peersKnown says that the kernel names the users of Unix sockets.
const peersKnown = true

// readUID returns the uid of the user whose process has connected.
func readUID(fd int) (uint32, error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// closeToOthers does nothing: on this kernel a socket gets its mode with its path, and what a
// peer may do depends on its user in any case.
func closeToOthers(_, _ string, _ syscall.RawConn) error { return nil }
