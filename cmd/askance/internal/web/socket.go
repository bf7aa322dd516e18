package web

import (
	"context"
	"net"
	"os"
	"os/user"
	"strconv"

	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/message"
)

// Socket is a Unix socket at which the kernel says who sends a request.
type Socket struct {
	Path string
	// Listener is the socket, as ListenSocket opened it.
	Listener net.Listener
	// Group may open the socket too; "": its owner alone may.
	Group string
	// Roles gives roles to users other than the owner, by name or uid;
	// auth.EveryPeer gives them to all who may open the socket.
	Roles map[string][]message.Role
}

// NeedsSocket is the error of flags about a socket without one.
const NeedsSocket = "--http-socket-group and --http-socket-role need --http-socket"

// checkSocket reports an *Error if the socket cannot be as it was asked for.
func (c Config) checkSocket() error {
	s := c.Socket
	if s.Path == "" {
		if s.Group != "" || len(s.Roles) > 0 {
			return &Error{NeedsSocket}
		}
		return nil
	}
	if _, err := s.gid(); err != nil {
		return err
	}
	_, err := c.peers()
	return err
}

// gid is the group that may open the socket; -1 is none.
func (s Socket) gid() (int, error) {
	if s.Group == "" {
		return -1, nil
	}
	text := s.Group
	if _, err := strconv.Atoi(text); err != nil {
		g, err := user.LookupGroup(text)
		if err != nil {
			return 0, &Error{"--http-socket-group " + s.Group + ": there is no such group on this machine"}
		}
		text = g.Gid
	}
	gid, err := strconv.Atoi(text)
	if err != nil || gid < 0 {
		return 0, &Error{"--http-socket-group " + s.Group + " is no group name and no gid"}
	}
	return gid, nil
}

// peers says who the users of the socket are.
func (c Config) peers() (*auth.UnixPeers, error) {
	space := message.SpaceID("default") // not known yet
	if c.Space != nil {
		space = c.Space.ID
	}
	p, err := auth.NewUnixPeers(space, uint32(max(0, os.Geteuid())), c.User, c.Socket.Roles)
	if err != nil {
		return nil, &Error{"--http-socket-role: " + err.Error()}
	}
	return p, nil
}

// ListenSocket binds the Unix socket of the gateway.
func ListenSocket(ctx context.Context, cfg Config) (net.Listener, error) {
	gid, err := cfg.Socket.gid()
	if err != nil {
		return nil, err
	}
	l, err := auth.ListenUnix(ctx, cfg.Socket.Path, gid, cfg.Log)
	if err != nil {
		return nil, err
	}
	return limited(l), nil
}

// SocketPath is the path of the Unix socket; "" without one.
func (w *Web) SocketPath() string { return w.cfg.Socket.Path }
