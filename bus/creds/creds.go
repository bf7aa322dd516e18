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

// User is somebody to whom a credentials folder has given a login.
type User struct {
	Space toolcall.SpaceID `json:"space,omitzero"` // empty for engines: they serve every space of the account
	Role  toolcall.Role    `json:"role"`
	Name  string           `json:"name"`
	Tools []string         `json:"tools,omitzero"` // of a worker
	// Routes are the subjects to which rules route the calls that a worker takes,
	// of each of its tools; none: those that are not routed.
	Routes []string `json:"routes,omitzero"`
	// Key is the public nkey of the login.
	Key     string    `json:"key"`
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Revoked time.Time `json:"revoked,omitzero"` // zero: in force
}

// Principal is who the login acts as.
func (u User) Principal() toolcall.Principal {
	return toolcall.Principal{Role: u.Role, Name: u.Name}
}

// InForce reports whether the login works at a time.
func (u User) InForce(at time.Time) bool {
	return u.Revoked.IsZero() && (u.Expires.IsZero() || at.Before(u.Expires))
}

// EngineName is the name under which engines log in. Nobody else may have it:
// whoever shares a name shares an inbox.
const EngineName = "askance-engine"

// claimName is the name within a login, by which the file says who it is for.
func (u User) claimName() string {
	return string(u.Space) + "/" + string(u.Role) + "/" + u.Name
}

// ReadLogin tells for whom a credentials file is. Nothing in the file is
// checked against a server: it says what to try, not who somebody is. A file
// that askance did not make is an error with CodeInvalid.
func ReadLogin(path string) (User, error) {
	const op = "read credentials"
	b, err := secretfile.Read(op, path, true)
	if err != nil {
		return User{}, err
	}
	bad := &message.Error{Code: message.CodeInvalid, Op: op, What: path + " is no credentials file that askance made", Hint: "make one with askance creds add"}
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

// check refuses users that would have other rights than they seem to.
func (u User) check(all []User, now time.Time) error {
	bad := func(what, hint string) error {
		return &message.Error{Code: message.CodeInvalid, Op: opNewLogin, What: what, Hint: hint}
	}
	if err := bus.CheckName("principal", u.Name); err != nil {
		return err
	}
	switch u.Role {
	case toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor, toolcall.RoleWorker:
		if err := bus.CheckSpace(u.Space); err != nil {
			return err
		}
	case toolcall.RoleEngine:
	default:
		return bad("the role "+errtext.Quote(string(u.Role))+" is unknown", "use runtime, worker, approver, operator, auditor or engine")
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
		return bad("only workers have subjects", "leave --subject out")
	case u.Role == toolcall.RoleWorker && len(u.Tools) == 0:
		return bad("a worker without tools can do nothing", "name them with --tool")
	case u.Role != toolcall.RoleWorker && len(u.Tools) > 0:
		return bad("only workers have tools", "leave --tool out")
	case (u.Name == EngineName) != (u.Role == toolcall.RoleEngine):
		return bad("the name "+EngineName+" is that of engines, and they have no other", "choose another name")
	case !u.Expires.IsZero() && !now.Before(u.Expires):
		return bad("it would have expired already", "give a time that is to come")
	}
	for _, other := range all {
		if other.Name == u.Name && other.InForce(now) && other.kin() != u.kin() {
			return bad(errtext.Quote(u.Name)+" is "+string(other.Role)+" already, and whoever shares a name shares an inbox", "choose another name; only the roles of people (approver, operator, auditor) may be held together")
		}
	}
	return nil
}

// kin is what may share a name: the roles of a person, or one of a program.
func (u User) kin() toolcall.Role {
	switch u.Role {
	case toolcall.RoleOperator, toolcall.RoleAuditor:
		return toolcall.RoleApprover
	case toolcall.RoleApprover, toolcall.RoleRuntime, toolcall.RoleWorker, toolcall.RoleEngine:
	}
	return u.Role
}

// file is where a login is kept within the folder.
func (u User) file(dir string) string {
	if u.Role == toolcall.RoleEngine {
		return filepath.Join(dir, engineCreds)
	}
	return filepath.Join(dir, "users", string(u.Space), string(u.Role)+"-"+string(bus.Encode(u.Name))+".creds")
}

// LoginFile is where a credentials folder keeps a principal's login, unless it
// was moved to its owner.
func LoginFile(dir string, u User) string { return u.file(dir) }

// is reports whether both are the login of one principal.
func (u User) is(other User) bool {
	return u.Space == other.Space && u.Role == other.Role && u.Name == other.Name
}

// login makes the text of a credentials file for u and sets its key.
func (u *User) login(account nkeys.KeyPair) ([]byte, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	defer pair.Wipe()
	if u.Key, err = pair.PublicKey(); err != nil {
		return nil, err
	}
	claims := jwt.NewUserClaims(u.Key)
	claims.Name = u.claimName()
	if !u.Expires.IsZero() {
		claims.Expires = u.Expires.Unix()
	}
	claims.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeStandard, jwt.ConnectionTypeWebsocket, jwt.ConnectionTypeInProcess}
	perms := bus.PermissionsFor(u.Space, u.Principal(), toolcall.Queues(u.Tools, u.Routes)...)
	if u.Role == toolcall.RoleEngine {
		perms = bus.EnginePermissions
	}
	claims.Pub, claims.Sub = permission(perms.Publish), permission(perms.Subscribe)
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

// permission allows these subjects. (To NATS an empty list means all.)
func permission(subjects []string) jwt.Permission {
	if len(subjects) == 0 {
		return jwt.Permission{Deny: jwt.StringList{">"}}
	}
	return jwt.Permission{Allow: slices.Clone(subjects)}
}

// String says who it is, and nothing secret.
func (u User) String() string {
	if u.Space == "" {
		return u.Principal().String()
	}
	return fmt.Sprintf("%s of space %s", u.Principal(), u.Space)
}
