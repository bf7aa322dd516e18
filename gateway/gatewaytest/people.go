package gatewaytest

import (
	"net/http"
	"strings"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Names of people and programs. Each has one role, and a token in each space.
const (
	Bot   = "bot"   // runtime
	Robot = "robot" // another runtime
	Ann   = "ann"   // approver, in ops and finance
	Bob   = "bob"   // approver, in ops
	Cy    = "cy"    // approver, in no group
	Olga  = "olga"  // operator
	Audie = "audie" // auditor
	Wendy = "wendy" // worker
)

// Names are all names.
var Names = []string{Bot, Robot, Ann, Bob, Cy, Olga, Audie, Wendy}

// Everything is a person with every role except worker: the frontend of a small team that runs
// agents and answers approval requests.
const Everything = "everything"

// RoleOf returns the role of a name.
func RoleOf(name string) toolcall.Role {
	switch name {
	case Bot, Robot:
		return toolcall.RoleRuntime
	case Ann, Bob, Cy:
		return toolcall.RoleApprover
	case Olga:
		return toolcall.RoleOperator
	case Audie:
		return toolcall.RoleAuditor
	}
	return toolcall.RoleWorker
}

// Roles returns the roles of a name's token.
func Roles(name string) []toolcall.Role {
	if name == Everything {
		return []toolcall.Role{toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor}
	}
	return []toolcall.Role{RoleOf(name)}
}

// AuthToken is how votes record that a token of a world was used.
const AuthToken = "http-token"

// Token returns the token of a name in this space.
func (s *Space) Token(name string) string { return string(s.ID) + ":" + name }

// tokens is the authenticator of a world.
type tokens struct{ byToken map[string]*gateway.Identity }

func newTokens() *tokens {
	t := &tokens{byToken: map[string]*gateway.Identity{}}
	for _, space := range []toolcall.SpaceID{"alpha", "beta"} {
		for _, name := range append(Names, Everything) {
			t.byToken[string(space)+":"+name] = &gateway.Identity{Name: name, Space: space, Roles: Roles(name), Auth: AuthToken}
		}
		t.byToken[string(space)+":"+Wendy].Queues = toolcall.Queues([]string{Job, Frail}, nil)
	}
	return t
}

// Authenticate implements gateway.Authenticator.
func (t *tokens) Authenticate(r *http.Request) (*gateway.Identity, error) {
	h := r.Header.Get("Authorization")
	if h == "" {
		return nil, gateway.ErrNoCredentials
	}
	token, _ := strings.CutPrefix(h, "Bearer ")
	return t.Token(r, token)
}

// Token implements gateway.Authenticator.
func (t *tokens) Token(_ *http.Request, token string) (*gateway.Identity, error) {
	if id := t.byToken[token]; id != nil {
		return id, nil
	}
	return nil, &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: "the token is not known", Hint: "use a token of this world"}
}

// Cookies is an authenticator for browsers. The cookie who contains SPACE.NAME, and a request
// that changes something needs ProofOf the name.
type Cookies struct{}

// ProofOf returns the proof against forgery that a request must carry.
func ProofOf(name string) string { return "proof-of-" + name }

// Authenticate implements gateway.Authenticator.
func (Cookies) Authenticate(r *http.Request) (*gateway.Identity, error) {
	c, err := r.Cookie("who")
	if err != nil {
		return nil, gateway.ErrNoCredentials
	}
	space, name, _ := strings.Cut(c.Value, ".")
	return &gateway.Identity{Name: name, Space: toolcall.SpaceID(space), Roles: Roles(name), Auth: "test-cookie", Ambient: true, CSRF: ProofOf(name)}, nil
}

// Token implements gateway.Authenticator. No token is valid.
func (Cookies) Token(*http.Request, string) (*gateway.Identity, error) {
	return nil, gateway.ErrNoCredentials
}
