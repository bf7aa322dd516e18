package gateway

import (
	"context"
	"net/http"
	"slices"

	"github.com/askance-dev/askance/message"
)

// Surface is one wire format: what it serves, and where.
type Surface interface {
	Routes() []Route
}

// Background is a Surface that works beside requests, too.
type Background interface {
	Surface
	// Run works until ctx ends, and returns soon after. It is called once, in a
	// goroutine of its own, when s is about to serve.
	Run(ctx context.Context, s *Server)
}

// Routes is a Surface that is just a list.
type Routes []Route

// Routes implements Surface.
func (r Routes) Routes() []Route { return r }

// Handler serves a request of an admitted peer; p is nil on public routes that
// got no credentials. An error that it returns before it has written anything
// is answered as problem details; afterwards it is only logged.
type Handler func(w http.ResponseWriter, r *http.Request, p *Peer) error

// Route is one method and path.
type Route struct {
	// Method and Path, as http.ServeMux takes them: "GET", "/v1/calls/{call}".
	Method, Path string
	// Access says who may use it.
	Access Access
	// Stream marks answers without an end: no time limit, but one on each write.
	Stream bool
	// MaxBody bounds the request's body in bytes; 0 is DefaultMaxBody.
	MaxBody int64
	// OwnAuth marks routes whose credentials may come in the protocol itself (the
	// first frame of a WebSocket): they are called without a peer if the request
	// has none, and must Login before they do anything.
	OwnAuth bool
	// Safe marks requests of other methods than GET that change nothing.
	Safe bool
	// Doc is a line for people.
	Doc string

	Serve Handler
}

// Access is who may use a route. The zero value admits nobody.
type Access struct {
	// Public routes need no credentials: static files, health, login.
	Public bool
	// Roles of which a peer needs one.
	Roles []message.Role
}

// Everybody admits requests without credentials.
var Everybody = Access{Public: true}

// Only admits peers that have one of the roles.
func Only(roles ...message.Role) Access { return Access{Roles: roles} }

// Readers admits everybody who may read in a space: not workers.
var Readers = Only(message.RoleRuntime, message.RoleApprover, message.RoleOperator, message.RoleAuditor)

// Admits reports whether the peer may use the route; nil is a request without
// credentials.
func (a Access) Admits(p *Peer) bool {
	if a.Public {
		return true
	}
	return p != nil && slices.ContainsFunc(a.Roles, p.Has)
}
