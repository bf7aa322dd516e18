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

// Identity is the authenticated sender of a request.
type Identity struct {
	Name  string           // the principal's name; votes carry it
	Space toolcall.SpaceID // the only space that it can access
	Roles []toolcall.Role  // the roles in which it may act
	// Groups are the person's groups by the credentials, GroupsFrom their source
	// ("oidc"). Directory passes them to the engine.
	Groups     []string
	GroupsFrom string
	// Auth says how the name was authenticated ("http-token", "oidc:<issuer>",
	// "unix-peer:<uid>", "http-loopback"); each vote records it.
	Auth string
	// Credential identifies a token within its authenticator, and Grant summarizes what the token
	// grants. Both are empty for other credentials.
	Credential, Grant string
	// Ambient marks credentials that a browser sends automatically (a cookie, or
	// none on loopback): a request that changes something must prove that one of
	// our pages made it. CSRF is that proof.
	Ambient bool
	CSRF    string
	// Queues are the queues for which the identity may act as a worker; nil: it may not.
	Queues []toolcall.Queue
	// Expires ends the identity and its streams; zero: never.
	Expires time.Time
	// Revoked is closed when the identity ends earlier; nil: never.
	Revoked <-chan struct{}
	// InForce reports whether the identity is valid, even before Revoked is closed; may be nil.
	InForce func() bool
}

// Authenticator identifies the sender of a request by the credentials only. Invariant: a wrong
// credential is an error with message.CodeForbidden, even where none is needed. It is safe for
// concurrent use.
type Authenticator interface {
	// Authenticate reads the credentials of r. It returns ErrNoCredentials if there are none.
	Authenticate(r *http.Request) (*Identity, error)
	// Token checks a bearer token that arrived outside a header, such as in the first frame of a
	// WebSocket.
	Token(r *http.Request, token string) (*Identity, error)
}

// ErrNoCredentials reports a request without credentials.
var ErrNoCredentials error = &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: "the request has no credentials", Hint: "send Authorization: Bearer TOKEN, or log in"}

// ended reports whether the identity is no longer valid.
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
	Feeds *Feeds       // of the space
	pools capacity.Set // of the space; nil: operations are not bounded
}

// Has reports whether the peer may act as role.
func (p *Peer) Has(role toolcall.Role) bool { return slices.Contains(p.Roles, role) }

// As returns the engine for the peer in one of its roles, or an error with
// message.CodeForbidden.
func (p *Peer) As(role toolcall.Role) (engine.Client, error) {
	if p.InForce != nil && !p.InForce() {
		return nil, ErrNoCredentials
	}
	if !p.Has(role) {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "authorize", What: p.Name + " does not have " + RoleWords([]toolcall.Role{role}), Hint: "use credentials with that role"}
	}
	by := toolcall.Principal{Role: role, Name: p.Name, Auth: p.Auth}
	var c api.Caller = noWork{p.Name}
	switch {
	case role != toolcall.RoleWorker:
		c = p.Space.As(by)
	case p.Space.Worker != nil && len(p.Queues) > 0:
		c = p.Space.Worker(by, p.Queues)
	}
	if p.pools != nil {
		c = bounded{c: c, pools: p.pools, peer: p}
	}
	if len(p.Groups) > 0 {
		c = grouped{c, claimed{name: p.Name, auth: p.Auth, Membership: engine.Membership{Groups: p.Groups, Source: p.GroupsFrom}}}
	}
	return api.Methods{Caller: c}, nil
}

// noWork refuses every operation of a worker without queues.
type noWork struct{ name string }

func (n noWork) Call(_ context.Context, op *api.Operation, _ any) (any, error) {
	return nil, &message.Error{Code: message.CodeForbidden, Op: op.Name, What: "the credentials of " + n.name + " name no tool that this server has workers for", Hint: "make a token with askance token create NAME --role worker --tool TOOL"}
}

// readingOrder is the order in which roles are tried for reading: those that see
// the whole space first. A runtime sees only its sessions, but unredacted.
var readingOrder = []toolcall.Role{toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor, toolcall.RoleRuntime}

// readRole returns the role in which the peer reads, or "" if it may not.
func (p *Peer) readRole() toolcall.Role {
	if i := slices.IndexFunc(readingOrder, p.Has); i >= 0 {
		return readingOrder[i]
	}
	return ""
}

// Reader returns the engine for the peer in its readRole.
func (p *Peer) Reader() (engine.Client, error) { return p.As(p.readRole()) }

// Stopper returns the engine for the peer in the widest role that may interrupt: a
// runtime interrupts only its own sessions.
func (p *Peer) Stopper() (engine.Client, error) {
	for _, role := range []toolcall.Role{toolcall.RoleOperator, toolcall.RoleApprover} {
		if p.Has(role) {
			return p.As(role)
		}
	}
	return p.As(toolcall.RoleRuntime)
}

// Space is what the gateway needs from an engine and its journal. Its functions are safe for
// concurrent use.
type Space struct {
	ID toolcall.SpaceID
	// As returns the engine for an authenticated principal, as Engine.As does.
	As func(toolcall.Principal) engine.Client
	// Worker returns the engine for a worker of some queues, as Engine.RemoteWorker does;
	// nil: there are no workers over HTTP.
	Worker func(p toolcall.Principal, queues []toolcall.Queue) api.Caller
	// Watch calls sink.CaughtUp once it is listening and then delivers every new
	// record, in order and from one goroutine, until ctx ends or the journal fails.
	Watch func(ctx context.Context, sink toolcall.Sink) error
	// Progress calls f, from one goroutine, with progress lines of running calls
	// until stop is called. Best effort; nil: there are none.
	Progress func(f func(toolcall.ProgressRequest)) (stop func())
	// Ready returns why the journal accepts no new calls now, or nil if it does. If Ready itself
	// is nil, only the engine is asked.
	Ready func(context.Context) error
	// Show returns a record's call as people see it, like Engine.Show. If Show is nil, the call
	// has no summary.
	Show func(*toolcall.Call) *toolcall.Call
	// Tools are the engine's tools, for their schemas and descriptions.
	Tools []engine.Tool
}

// ShowCall returns a record's call as people see it, which can be c itself.
func (s *Space) ShowCall(c *toolcall.Call) *toolcall.Call {
	if s.Show == nil {
		return c.Redacted()
	}
	return s.Show(c)
}

type groupsKey struct{}

// claimed are the groups that a person's credentials claim; a context carries them.
type claimed struct {
	name, auth string
	engine.Membership
}

// grouped is an engine for a person whose credentials claim groups.
type grouped struct {
	c api.Caller
	claimed
}

func (g grouped) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	return g.c.Call(context.WithValue(ctx, groupsKey{}, g.claimed), op, request)
}

// Directory is an engine.Directory that adds the groups that the credentials of a
// peer claim to those of Next, which may be nil.
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
