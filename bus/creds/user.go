package creds

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// User is the owner of a login in a credentials folder.
type User struct {
	Space toolcall.SpaceID `json:"space,omitzero"` // empty for engines: they serve every space of the account
	Role  toolcall.Role    `json:"role"`
	Name  string           `json:"name"`
	Tools []string         `json:"tools,omitzero"` // of a worker
	// Routes limit a worker to calls that rules send to these routes. Empty means calls
	// without a route.
	Routes []string `json:"routes,omitzero"`
	// Key is the public nkey of the login.
	Key     string    `json:"key"`
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Revoked time.Time `json:"revoked,omitzero"` // zero: in force
	// SameOwner states that logins of this name in other spaces have the same owner.
	SameOwner bool `json:"same_owner,omitzero"`
}

// Principal returns the principal for whom the login acts.
func (u User) Principal() toolcall.Principal {
	return toolcall.Principal{Role: u.Role, Name: u.Name}
}

// InForce reports whether the login works at a time.
func (u User) InForce(at time.Time) bool {
	return u.Revoked.IsZero() && (u.Expires.IsZero() || at.Before(u.Expires))
}

// EngineName is the name under which engines log in. No other user can have it, because
// users with the same name share an inbox.
const EngineName = "askance-engine"

// ReadLogin reads the owner of a credentials file, without asking a server. It fails
// with CodeInvalid for a file of another program.
func ReadLogin(path string) (User, error) {
	const op = "read credentials"
	b, err := secretfile.Read(op, path, true)
	if err != nil {
		return User{}, err
	}
	bad := &message.Error{Code: message.CodeInvalid, Op: op, What: path + " is not a credentials file of askance", Hint: "create one with askance creds add"}
	token, err := jwt.ParseDecoratedJWT(b)
	if err != nil {
		return User{}, bad // the library's text could repeat the secret
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return User{}, bad
	}
	parts := strings.SplitN(claims.Name, "/", 3)
	if len(parts) != 3 || parts[2] == "" {
		return User{}, bad
	}
	u := User{Space: toolcall.SpaceID(parts[0]), Role: toolcall.Role(parts[1]), Name: parts[2], Key: claims.Subject, Issued: time.Unix(claims.IssuedAt, 0).UTC()}
	if claims.Expires > 0 {
		u.Expires = time.Unix(claims.Expires, 0).UTC()
	}
	return u, nil
}

func badLogin(what, hint string) error {
	return &message.Error{Code: message.CodeInvalid, Op: opNewLogin, What: what, Hint: hint}
}

// check refuses users whose permissions would differ from what they appear to be.
func (u User) check(now time.Time) error {
	if err := bus.CheckName("principal", u.Name); err != nil {
		return err
	}
	if err := toolcall.CheckName(u.Name); err != nil {
		return badLogin(err.Error(), "choose a name that cannot be mistaken for another")
	}
	switch u.Role {
	case toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor, toolcall.RoleWorker:
		if err := bus.CheckSpace(u.Space); err != nil {
			return err
		}
	case toolcall.RoleEngine:
	default:
		return badLogin("the role "+errtext.Quote(string(u.Role))+" is unknown", "use runtime, worker, approver, operator, auditor or engine")
	}
	for _, tool := range u.Tools {
		if err := bus.CheckName("tool", tool); err != nil {
			return err
		}
	}
	for _, route := range u.Routes {
		if err := toolcall.CheckRoute(route); err != nil {
			return err
		}
	}
	switch {
	case u.Role != toolcall.RoleWorker && len(u.Routes) > 0:
		return badLogin("only workers have subjects", "omit --subject")
	case u.Role == toolcall.RoleWorker && len(u.Tools) == 0:
		return badLogin("a worker needs a tool", "name its tools with --tool")
	case u.Role != toolcall.RoleWorker && len(u.Tools) > 0:
		return badLogin("only workers have tools", "omit --tool")
	case (u.Name == EngineName) != (u.Role == toolcall.RoleEngine):
		return badLogin("the name "+EngineName+" is for engines only, and engines have no other name", "choose another name")
	case !u.Expires.IsZero() && !now.Before(u.Expires):
		return badLogin("the login would already be expired", "give a time in the future")
	}
	return nil
}

// checkSameName refuses a user whose name another owner may have.
func (u User) checkSameName(all []User, now time.Time) error {
	for _, other := range all {
		switch {
		case other.Name != u.Name || !other.InForce(now):
		case other.personRole() != u.personRole():
			return badLogin(errtext.Quote(u.Name)+" already has the role "+string(other.Role)+", and users with the same name share an inbox", "choose another name; one person can only combine the roles approver, operator and auditor")
		case other.Space != u.Space && !u.SameOwner:
			return badLogin(errtext.Quote(u.Name)+" already has a login in the space "+string(other.Space)+", and logins of one name can read each other's replies", "choose another name, or pass --same-owner if both logins have the same owner")
		}
	}
	return nil
}

// personRole returns the same value for roles that may share a name: all roles of a
// person, but only one role of a program.
func (u User) personRole() toolcall.Role {
	switch u.Role {
	case toolcall.RoleOperator, toolcall.RoleAuditor:
		return toolcall.RoleApprover
	case toolcall.RoleApprover, toolcall.RoleRuntime, toolcall.RoleWorker, toolcall.RoleEngine:
	}
	return u.Role
}

// LoginFile returns the path where a credentials folder stores a user's login until it is
// moved to its owner.
func LoginFile(dir string, u User) string {
	if u.Role == toolcall.RoleEngine {
		return EngineLogin(dir)
	}
	return filepath.Join(dir, "users", string(u.Space), string(u.Role)+"-"+string(bus.Encode(u.Name))+".creds")
}

// isSame reports whether both are logins of the same principal.
func (u User) isSame(other User) bool {
	return u.Space == other.Space && u.Role == other.Role && u.Name == other.Name
}

// MaxSubscriptions limits the subscriptions of one connection of a login, because each costs
// the server about a kilobyte. An engine has no limit: it has one for each task that a worker
// waits for.
const MaxSubscriptions = 10_000

// newLogin creates the text of a credentials file for u and sets its key.
func (u *User) newLogin(account nkeys.KeyPair) ([]byte, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	defer pair.Wipe()
	if u.Key, err = pair.PublicKey(); err != nil {
		return nil, err
	}
	claims := jwt.NewUserClaims(u.Key)
	claims.Name = string(u.Space) + "/" + string(u.Role) + "/" + u.Name // ReadLogin reads the owner from it
	if !u.Expires.IsZero() {
		claims.Expires = u.Expires.Unix()
	}
	claims.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeStandard, jwt.ConnectionTypeWebsocket, jwt.ConnectionTypeInProcess}
	perms := bus.PermissionsFor(u.Space, u.Principal(), toolcall.Queues(u.Tools, u.Routes)...)
	if u.Role == toolcall.RoleEngine {
		perms = bus.EnginePermissions
	} else {
		claims.Limits.Subs = MaxSubscriptions
	}
	claims.Pub, claims.Sub = allowSubjects(perms.Publish), allowSubjects(perms.Subscribe)
	token, err := claims.Encode(account)
	if err != nil {
		return nil, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	return jwt.FormatUserConfig(token, seed)
}

// allowSubjects allows only these subjects. (NATS reads an empty list as all subjects.)
func allowSubjects(subjects []string) jwt.Permission {
	if len(subjects) == 0 {
		return jwt.Permission{Deny: jwt.StringList{">"}}
	}
	return jwt.Permission{Allow: slices.Clone(subjects)}
}

// String names the user without any secret.
func (u User) String() string {
	if u.Space == "" {
		return u.Principal().String()
	}
	return fmt.Sprintf("%s of space %s", u.Principal(), u.Space)
}
