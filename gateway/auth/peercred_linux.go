package auth

import "syscall"

// peersKnown says that the kernel names the users of Unix sockets.
const peersKnown = true

// readUID returns the uid of the user whose process has connected.
func readUID(fd int) (uint32, error) {
	cred, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// closeToOthers restricts the socket to its owner before it has a path, so others can never open
// it.
func closeToOthers(_, _ string, c syscall.RawConn) error {
	return control(c, func(fd int) error { return syscall.Fchmod(fd, 0o600) })
}
