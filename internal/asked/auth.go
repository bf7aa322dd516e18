package asked

import (
	"slices"
	"strings"

	"github.com/askance-dev/askance/toolcall"
)

// Who returns a principal's name with how it was established, such as "ann (HTTP token)". It
// is not revealed. Every text that names an approver uses it.
func Who(p toolcall.Principal) string {
	if p.Name == "" || p.Auth == "" {
		return p.Name
	}
	return p.Name + " (" + Authenticated(p.Auth) + ")"
}

// Actor is Who with the role. An engine cannot choose its name.
func Actor(p toolcall.Principal) string {
	if p.Role == toolcall.RoleEngine {
		return p.String()
	}
	return string(p.Role) + " " + Who(p)
}

// Approvers lists the people of a part whose approval counts, as returned by Who.
func Approvers(t toolcall.Tally, p toolcall.Part) []string {
	out := slices.Clone(p.Approved)
	for i, name := range out {
		for _, v := range t.Approvals {
			if v.By.Name == name {
				out[i] = Who(v.By)
			}
		}
	}
	return out
}

// Authenticated describes toolcall.Principal.Auth.
func Authenticated(auth string) string {
	switch auth {
	case "http-loopback":
		return "loopback, not authenticated"
	case "http-token":
		return "HTTP token"
	case "nats-jwt":
		return "NATS login"
	case "nats-subject":
		return "NATS, not authenticated"
	case "in-process":
		return "in process"
	}
	if issuer, ok := strings.CutPrefix(auth, "oidc:"); ok {
		return "OIDC, " + issuer
	}
	if uid, ok := strings.CutPrefix(auth, "unix-peer:"); ok {
		return "Unix socket, uid " + uid
	}
	return auth
}
