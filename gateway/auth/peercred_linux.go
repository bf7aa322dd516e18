package auth

import (
	"net"
	"syscall"
)

// peersKnown says that the kernel names the users of Unix sockets.
const peersKnown = true

// peerUID returns the uid of the user whose process has connected.
func peerUID(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// closeToOthers restricts the socket to its owner before it has a path, so others can never open
// it.
func closeToOthers(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = syscall.Fchmod(int(fd), 0o600) })
	if err == nil {
		err = failed
	}
	return err
}
