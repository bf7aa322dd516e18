package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// Identity is who a request comes from, as established by an Authenticator.
type Identity struct {
	// Name is the principal's name; votes carry it.
	Name string
	// Space is the one space that it may see.
	Space toolcall.SpaceID
	// Roles are what it may act as.
	Roles []toolcall.Role
	// Groups are those that the credentials say the person is in, GroupsFrom what
	// says so ("oidc"). They reach the engine through Directory.
	Groups     []string
	GroupsFrom string
	// Auth says how it was established ("http-token", "oidc:<issuer>",
	// "unix-peer:<uid>", "http-loopback"); it is kept with each vote.
	Auth string
	// Ambient marks credentials that a browser sends by itself (a cookie, or none
	// on loopback): requests that change something need proof that a page of ours
	// made them.
	Ambient bool
	// CSRF is what that proof must equal, where Ambient is set.
	CSRF string
	// Expires ends it, and streams with it; zero: never.
	Expires time.Time
	// Revoked is closed when it ends before that; nil: it does not.
	Revoked <-chan struct{}
	// InForce reports whether it is still good, where that is known before Revoked
	// is closed; nil: Revoked says it all.
	InForce func() bool
}

// Authenticator says who sends a request. It answers from the credentials
// alone and fails closed: a credential that is there and wrong is an error
// with message.CodeForbidden, even if the request would be served without any.
// Its methods may be called from many goroutines.
type Authenticator interface {
	// Authenticate reads the credentials of r. ErrNoCredentials if it has none.
	Authenticate(r *http.Request) (*Identity, error)
	// Token judges a bearer token that came in another way than a header, such
	// as the first frame of a WebSocket.
	Token(r *http.Request, token string) (*Identity, error)
}

// ErrNoCredentials says that a request carries no credentials at all.
var ErrNoCredentials error = &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: "the request has no credentials", Hint: "send Authorization: Bearer TOKEN (askance token create NAME --role approver makes one), or log in"}

// ended reports whether the identity is no longer good.
func (id *Identity) ended() bool {
	select {
	case <-id.Revoked:
		return true
	default:
		return id.InForce != nil && !id.InForce() || !id.Expires.IsZero() && !time.Now().Before(id.Expires)
	}
}

// Peer is an authenticated identity with its space.
type Peer struct {
	Identity
	Space *Space
	// Feeds are the live feeds of the space.
	Feeds *Feeds
	pools capacity.Set // of the server; nil: operations are not bounded
}

// Has reports whether the peer may act as role.
func (p *Peer) Has(role toolcall.Role) bool { return slices.Contains(p.Roles, role) }

// As is the engine for the peer in one of its roles; an error with
// message.CodeForbidden if it does not have that role.
func (p *Peer) As(role toolcall.Role) (engine.Client, error) {
	if p.InForce != nil && !p.InForce() {
		return nil, ErrNoCredentials
	}
	if !p.Has(role) {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "authorize", What: p.Name + " does not have the role " + string(role), Hint: "use credentials that have it"}
	}
	var c api.Caller = p.Space.As(toolcall.Principal{Role: role, Name: p.Name, Auth: p.Auth})
	if p.pools != nil {
		c = bounded{c: c, pools: p.pools, peer: p}
	}
	if len(p.Groups) > 0 {
		c = grouped{c, claimed{name: p.Name, auth: p.Auth, Membership: engine.Membership{Groups: p.Groups, Source: p.GroupsFrom}}}
	}
	return api.Methods{Caller: c}, nil
}

// readingOrder is the order in which roles are tried for reading: those who
// see the whole space first. Only a runtime sees what rules redact, and only of
// its own sessions.
var readingOrder = []toolcall.Role{toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor, toolcall.RoleRuntime}

// ReadRole is the role in which the peer reads; "" if it has none that reads.
func (p *Peer) ReadRole() toolcall.Role {
	for _, r := range readingOrder {
		if p.Has(r) {
			return r
		}
	}
	return ""
}

// Reader is the engine for the peer in the role in which it reads.
func (p *Peer) Reader() (engine.Client, error) { return p.As(p.ReadRole()) }

// Stopper is the engine for the peer in the widest role that may interrupt: a
// runtime may only in sessions of its own.
func (p *Peer) Stopper() (engine.Client, error) {
	for _, role := range []toolcall.Role{toolcall.RoleOperator, toolcall.RoleApprover} {
		if p.Has(role) {
			return p.As(role)
		}
	}
	return p.As(toolcall.RoleRuntime)
}

// Space is one space of calls as the gateway sees it: what it needs of an
// engine and its journal. All functions may be called from many goroutines.
type Space struct {
	ID toolcall.SpaceID
	// As gives the engine to an authenticated principal. Engine.As is one.
	As func(toolcall.Principal) engine.Client
	// Watch delivers every record that is written from now on to sink, in order
	// and from one goroutine, first calling sink.CaughtUp once it is listening.
	// It returns when ctx ends or the journal cannot go on.
	Watch func(ctx context.Context, sink toolcall.Sink) error
	// Progress calls f, from one goroutine, for progress lines of running calls
	// until stop is called. Best effort. nil: there are none.
	Progress func(f func(toolcall.ProgressRequest)) (stop func())
	// Tools are the engine's tools, for their schemas and descriptions.
	Tools []engine.Tool
}

// groupsKey is where the groups of an authenticated person stand in a context.
type groupsKey struct{}

// claimed are groups that somebody's credentials say.
type claimed struct {
	name, auth string
	engine.Membership
}

// grouped is an engine for a person whose credentials say their groups.
type grouped struct {
	c api.Caller
	claimed
}

// Call implements api.Caller.
func (g grouped) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	return g.c.Call(context.WithValue(ctx, groupsKey{}, g.claimed), op, request)
}

// Directory is an engine.Directory that also knows the groups that the
// credentials of a gateway's peers say. Next knows those of everybody; nil:
// nobody does.
type Directory struct{ Next engine.Directory }

// Groups implements engine.Directory.
func (d Directory) Groups(ctx context.Context, by toolcall.Principal) (engine.Membership, error) {
	var m engine.Membership
	if d.Next != nil {
		var err error
		if m, err = d.Next.Groups(ctx, by); err != nil {
			return m, err
		}
	}
	c, ok := ctx.Value(groupsKey{}).(claimed)
	if !ok || c.name != by.Name || c.auth != by.Auth || len(c.Groups) == 0 {
		return m, nil
	}
	if len(m.Groups) == 0 {
		return c.Membership, nil
	}
	return engine.Membership{
		Groups: append(slices.Clone(c.Groups), m.Groups...),
		Source: strings.Trim(c.Source+"+"+m.Source, "+"),
	}, nil
}
