package auth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/askance-dev/askance/message"
)

// peerAddr is the remote address of a connection over a Unix socket: the user
// that the kernel names.
type peerAddr struct{ uid uint32 }

// Network implements net.Addr.
func (peerAddr) Network() string { return "unix" }

// String implements net.Addr. Limits for one address are limits for one user.
func (a peerAddr) String() string { return fmt.Sprint(ViaUnixPeer, a.uid) }

// peerConn is a connection of a known user.
type peerConn struct {
	*net.UnixConn
	from peerAddr
}

// RemoteAddr implements net.Conn.
func (c peerConn) RemoteAddr() net.Addr { return c.from }

// peerListener accepts connections of known users.
type peerListener struct {
	*net.UnixListener
	log *slog.Logger
}

// Accept implements net.Listener. A peer whose user the kernel does not tell is
// turned away.
func (l peerListener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(c)
		if err == nil {
			return peerConn{c, peerAddr{uid}}, nil
		}
		l.log.Error("a connection to the HTTP socket was closed: the kernel does not say whose it is", "err", err)
		_ = c.Close() // nothing was said on it
	}
}

// socketProbe is how long a socket that is in the way may take to answer.
const socketProbe = 2 * time.Second

// ListenUnix listens at a Unix socket, for its owner alone or, with a gid of 0 or
// more, for that group too. The path of a server that has ended is taken over.
func ListenUnix(ctx context.Context, path string, gid int, log *slog.Logger) (net.Listener, error) {
	if !peersKnown {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "http", What: "Unix sockets with peer credentials are not supported on this system", Hint: "leave out --http-socket, and use tokens (askance token create)"}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := clearSocket(ctx, path); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: closeToOthers}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, &message.Error{Code: message.CodeUnavailable, Op: "http", What: "cannot listen at the Unix socket " + path, Hint: "name a path of at most 100 bytes in a folder that you may write with --http-socket", Err: err}
	}
	mode := fs.FileMode(0o600)
	if gid >= 0 {
		mode = 0o660
		err = os.Chown(path, -1, gid)
	}
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		_ = l.Close() // nothing was served
		return nil, &message.Error{Code: message.CodeForbidden, Op: "http", What: "cannot set who may open the Unix socket " + path, Hint: "name a group of yours with --http-socket-group", Err: err}
	}
	return peerListener{l.(*net.UnixListener), log}, nil //nolint:forcetypeassert // of the network "unix"
}

// clearSocket removes the socket of a server that has ended, and nothing else.
func clearSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &message.Error{Code: message.CodeUnavailable, Op: "http", What: "cannot look at " + path, Hint: "name another path with --http-socket", Err: err}
	}
	if info.Mode().Type() != fs.ModeSocket {
		return &message.Error{Code: message.CodeConflict, Op: "http", What: path + " exists and is no socket", Hint: "name another path with --http-socket"}
	}
	d := net.Dialer{Timeout: socketProbe}
	c, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close() // nothing was said on it
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return &message.Error{Code: message.CodeUnavailable, Op: "http", What: "another program listens at " + path + " already", Hint: "name another path with --http-socket", Err: err}
	}
	if err := os.Remove(path); err != nil {
		return &message.Error{Code: message.CodeForbidden, Op: "http", What: "cannot remove the socket " + path + " of a server that has ended", Hint: "remove it, or name another path with --http-socket", Err: err}
	}
	return nil
}
