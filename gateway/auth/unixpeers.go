package auth

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
)

// ViaUnixPeer begins how a vote records that the kernel named the user who
// connected to a Unix socket; the uid follows.
const ViaUnixPeer = "unix-peer:"

// EveryPeer stands, in UnixPeers.Roles, for all users who may open the socket.
const EveryPeer = "*"

// UnixPeers lets in the users whose processes connect to a Unix socket, as the
// kernel names them. Its methods may be called from many goroutines.
type UnixPeers struct {
	space message.SpaceID
	roles map[uint32][]message.Role
	every []message.Role // of all who may open the socket

	names sync.Map // of users, by uid
}

// NewUnixPeers gives roles to users, named by name or uid; EveryPeer gives them
// to all who may open the socket. The owner runs the engine and has all roles but
// worker.
func NewUnixPeers(space message.SpaceID, owner uint32, ownerName string, rolesOf map[string][]message.Role) (*UnixPeers, error) {
	if err := checkName(ownerName); err != nil {
		return nil, err
	}
	u := &UnixPeers{space: space, roles: map[uint32][]message.Role{owner: allRoles}}
	u.names.Store(owner, ownerName)
	for name, all := range rolesOf {
		for _, role := range all {
			if !slices.Contains(roles, role) {
				return nil, fmt.Errorf("%s is no role; use runtime, approver, worker, operator or auditor", quote(string(role)))
			}
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

// uidOf finds a user by name or uid.
func uidOf(name string) (uint32, error) {
	if uid, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(uid), nil
	}
	found, err := user.Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("there is no user %s on this machine", quote(name))
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("the user %s has no numeric uid", quote(name))
	}
	return uint32(uid), nil
}

// identify says who a request over the socket comes from.
func (u *UnixPeers) identify(uid uint32, r *http.Request) (*gateway.Identity, error) {
	if err := checkDirect(r, "use http://localhost, for instance curl --unix-socket PATH http://localhost/auth/session"); err != nil {
		return nil, err
	}
	name := u.name(uid)
	has := append(slices.Clone(u.roles[uid]), u.every...)
	slices.Sort(has)
	if has = slices.Compact(has); len(has) == 0 {
		return nil, refused(fmt.Sprintf("the user %s (uid %d) has no role at this socket", quote(name), uid), "ask its operator for one (askance serve --http-socket-role USER=ROLE), or send a token")
	}
	if err := checkName(name); err != nil {
		return nil, refused(err.Error(), "ask the operator of the machine for another user name")
	}
	return &gateway.Identity{Name: name, Space: u.space, Roles: has, Auth: fmt.Sprint(ViaUnixPeer, uid), Ambient: true}, nil
}

// name is the name of a user; of one that the machine does not know, made of
// the uid.
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

// peerKey is where the user of a connection stands in a context.
type peerKey struct{}

// ConnContext is for http.Server: it notes which user has connected, if the
// connection comes from ListenUnix.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if at, ok := c.RemoteAddr().(peerAddr); ok {
		return context.WithValue(ctx, peerKey{}, at.uid)
	}
	return ctx
}

func peerOf(ctx context.Context) (uid uint32, ok bool) {
	uid, ok = ctx.Value(peerKey{}).(uint32)
	return uid, ok
}
