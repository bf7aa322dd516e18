package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// viaUnixPeer, with the uid, is how a vote records that the kernel named the user
// who connected to a Unix socket.
const viaUnixPeer = "unix-peer:"

// EveryPeer names, for NewUnixPeers, all users who may open the socket.
const EveryPeer = "*"

// UnixPeers authenticates the users whose processes connect to a Unix socket, as the
// kernel names them. It is safe for concurrent use.
type UnixPeers struct {
	// Further are other spaces, in which only the owner has roles; see SpaceHost.
	Further []toolcall.SpaceID

	space toolcall.SpaceID
	owner uint32
	roles map[uint32][]toolcall.Role
	every []toolcall.Role // of all who may open the socket

	names sync.Map // of users, by uid
}

// NewUnixPeers maps users, by name or uid or EveryPeer, to roles. The owner runs the
// engine and has all roles but worker.
func NewUnixPeers(space toolcall.SpaceID, owner uint32, ownerName string, rolesOf map[string][]toolcall.Role) (*UnixPeers, error) {
	if err := toolcall.CheckName(ownerName); err != nil {
		return nil, err
	}
	u := &UnixPeers{space: space, owner: owner, roles: map[uint32][]toolcall.Role{owner: allRoles}}
	u.names.Store(owner, ownerName)
	for name, all := range rolesOf {
		if err := checkRoles(all); err != nil {
			return nil, err
		}
		if name == EveryPeer {
			u.every = all
			continue
		}
		uid, err := uidOf(name)
		if err != nil {
			return nil, err
		}
		u.roles[uid] = append(slices.Clone(u.roles[uid]), all...)
	}
	return u, nil
}

func uidOf(name string) (uint32, error) {
	if uid, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(uid), nil
	}
	found, err := user.Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("this machine has no user %s: use a name or a uid of this machine", quote(name))
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("the user %s has no numeric uid: name another user", quote(name))
	}
	return uint32(uid), nil
}

// identify authenticates a request over the socket.
func (u *UnixPeers) identify(uid uint32, r *http.Request) (*gateway.Identity, error) {
	space, err := checkDirect(r, append([]toolcall.SpaceID{u.space}, u.Further...), "use http://localhost, for example curl --unix-socket PATH http://localhost/auth/session")
	if err != nil {
		return nil, err
	}
	name := u.name(uid)
	has := append(slices.Clone(u.roles[uid]), u.every...)
	if space != u.space && uid != u.owner {
		return nil, refusal(fmt.Sprintf("the user %s (uid %d) has no role in the space %s at this socket", quote(name), uid, space), "send a token of that space")
	}
	slices.Sort(has)
	if has = slices.Compact(has); len(has) == 0 {
		return nil, refusal(fmt.Sprintf("the user %s (uid %d) has no role at this socket", quote(name), uid), "ask the server's operator for one (askance serve --http-socket-role USER=ROLE), or send a token")
	}
	if err := toolcall.CheckName(name); err != nil {
		return nil, refusal(err.Error(), "ask the operator of the machine for another user name")
	}
	return &gateway.Identity{Name: name, Space: space, Roles: has, Auth: fmt.Sprint(viaUnixPeer, uid), Ambient: true}, nil
}

// name returns the name of a user, or uid-N if the machine has no such user.
func (u *UnixPeers) name(uid uint32) string {
	if name, ok := u.names.Load(uid); ok {
		return name.(string) //nolint:forcetypeassert // only strings are stored
	}
	name := fmt.Sprint("uid-", uid)
	if found, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil && found.Username != "" {
		name = filepath.Base(found.Username)
	}
	u.names.Store(uid, name)
	return name
}

// peerKey is the context key of a connection's user.
type peerKey struct{}

// ConnContext is for http.Server: it records the user of a connection from ListenUnix.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if at, ok := c.RemoteAddr().(peerAddr); ok {
		return context.WithValue(ctx, peerKey{}, at.uid)
	}
	return ctx
}

// peerUID returns the uid of the user whose process has connected.
func peerUID(c *net.UnixConn) (uid uint32, err error) {
	raw, err := c.SyscallConn()
	if err == nil {
		err = control(raw, func(fd int) (err error) { uid, err = readUID(fd); return err })
	}
	return uid, err
}

// control calls f with the descriptor of a socket.
func control(c syscall.RawConn, f func(fd int) error) (err error) {
	if failed := c.Control(func(fd uintptr) { err = f(int(fd)) }); failed != nil {
		return failed
	}
	return err
}

// peerAddr is the remote address of a Unix connection: the user.
type peerAddr struct{ uid uint32 }

func (peerAddr) Network() string { return "unix" }

// String names the user, so limits for one address are limits for one user.
func (a peerAddr) String() string { return fmt.Sprint(viaUnixPeer, a.uid) }

// peerConn is a connection of a known user.
type peerConn struct {
	*net.UnixConn
	from peerAddr
}

func (c peerConn) RemoteAddr() net.Addr { return c.from }

// peerListener accepts connections of known users.
type peerListener struct {
	*net.UnixListener
	file   fs.FileInfo // of the socket
	remove sync.Once
	log    *slog.Logger
}

// Close removes the socket, unless another server has one at its path now.
func (l *peerListener) Close() error {
	l.remove.Do(func() {
		path := l.Addr().String()
		if now, err := os.Lstat(path); err == nil && os.SameFile(now, l.file) {
			_ = os.Remove(path) // the next server replaces it
		}
	})
	return l.UnixListener.Close()
}

// Accept closes a connection whose user the kernel does not name.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(c)
		if err == nil {
			return peerConn{c, peerAddr{uid}}, nil
		}
		l.log.Error("closed a connection to the HTTP socket: the kernel does not name its user", "err", err)
		_ = c.Close() // nothing was sent on it
	}
}

// socketProbe is how long a socket at the path may take to answer.
const socketProbe = 2 * time.Second

// ListenUnix listens at a Unix socket, for its owner and, with a gid of 0 or more, for
// that group. It replaces the socket of a server that has ended.
func ListenUnix(ctx context.Context, path string, gid int, log *slog.Logger) (net.Listener, error) {
	if !peersKnown {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "http", What: "this system does not support Unix sockets with peer credentials", Hint: "leave out --http-socket and use tokens (askance token create)"}
	}
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "http", What: "every user can write to " + dir + ", and put another socket at " + path, Hint: "chmod o-w " + spelling.ShellWord(dir)}
	}
	// Two servers that start together must not both remove a socket, which may be the other's by then.
	lock := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	limited, cancel := context.WithTimeout(ctx, lockFor)
	defer cancel()
	if ok, err := lock.TryLockContext(limited, lockFor/100); !ok {
		return nil, &message.Error{Code: message.CodeUnavailable, Op: "http", What: "cannot lock the folder of the Unix socket " + path, Hint: "use --http-socket with a path in a folder that exists, and try again", Err: err}
	}
	defer func() { _ = lock.Unlock() }() // the end of the process also releases it
	if err := clearSocket(ctx, path); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: closeToOthers}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, &message.Error{Code: message.CodeUnavailable, Op: "http", What: "cannot listen at the Unix socket " + path, Hint: "use --http-socket with a path of at most 100 bytes in a folder that you can write", Err: err}
	}
	socket := &peerListener{UnixListener: l.(*net.UnixListener), log: log} //nolint:forcetypeassert // of the network "unix"
	socket.SetUnlinkOnClose(false)
	socket.file, err = os.Lstat(path)
	mode := fs.FileMode(0o600)
	if err == nil && gid >= 0 {
		mode = 0o660
		err = os.Chown(path, -1, gid)
	}
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		_ = socket.Close() // nothing was served
		return nil, &message.Error{Code: message.CodeForbidden, Op: "http", What: "cannot set who may open the Unix socket " + path, Hint: "use --http-socket-group with one of your groups", Err: err}
	}
	return socket, nil
}

// clearSocket removes the socket of a server that has ended, and nothing else.
func clearSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &message.Error{Code: message.CodeUnavailable, Op: "http", What: "cannot read " + path, Hint: "use another path with --http-socket", Err: err}
	}
	if info.Mode().Type() != fs.ModeSocket {
		return &message.Error{Code: message.CodeConflict, Op: "http", What: path + " exists and is not a socket", Hint: "use another path with --http-socket"}
	}
	d := net.Dialer{Timeout: socketProbe}
	c, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close() // nothing was sent on it
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return &message.Error{Code: message.CodeUnavailable, Op: "http", What: "another program already listens at " + path, Hint: "use another path with --http-socket", Err: err}
	}
	if err := os.Remove(path); err != nil {
		return &message.Error{Code: message.CodeForbidden, Op: "http", What: "cannot remove the socket " + path + " of a server that has ended", Hint: "remove it, or use another path with --http-socket", Err: err}
	}
	return nil
}
