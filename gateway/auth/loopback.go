package auth

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
)

// ViaLoopback is how a vote records that nobody had to prove anything: the
// request came from the machine itself.
const ViaLoopback = "http-loopback"

// Loopback takes every request for that of one local user, in all roles: no
// request can choose another name. It is for a listener on loopback alone. It
// implements gateway.Authenticator.
type Loopback struct {
	Name  string
	Space message.SpaceID
}

// allRoles is what one person on their own machine may do.
var allRoles = []message.Role{message.RoleRuntime, message.RoleApprover, message.RoleOperator, message.RoleAuditor}

// forwarding are the headers by which a proxy says that it passes a request on.
var forwarding = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"}

// checkDirect refuses a request that a sender elsewhere may have made, where only
// its connection says who sends it. A browser that was led here by the name of
// another site (DNS rebinding) still says that name; a proxy hides its client.
func checkDirect(r *http.Request, hint string) error {
	if !LoopbackHost(r.Host) {
		return refused("the request is for the host "+quote(r.Host)+", which is not this machine's own", hint)
	}
	for _, name := range forwarding {
		if len(r.Header.Values(name)) > 0 {
			return refused("a proxy passed the request on (header "+name+"), so the connection does not say who sends it", "send a token through the proxy (askance token create NAME --role approver), or connect without it")
		}
	}
	return nil
}

// Authenticate implements gateway.Authenticator.
func (l Loopback) Authenticate(r *http.Request) (*gateway.Identity, error) {
	if err := checkDirect(r, "use http://127.0.0.1 or http://localhost"); err != nil {
		return nil, err
	}
	if r.Header.Get("Authorization") != "" {
		return nil, refused("no tokens are set up here", "leave out Authorization, or make tokens with askance token create")
	}
	return &gateway.Identity{Name: l.Name, Space: l.Space, Roles: allRoles, Auth: ViaLoopback, Ambient: true}, nil
}

// Token implements gateway.Authenticator: there are none.
func (l Loopback) Token(*http.Request, string) (*gateway.Identity, error) {
	return nil, refused("no tokens are set up here", "send none, or make some with askance token create")
}

// LoopbackHost reports whether a Host header names this machine: localhost or a
// loopback address, with or without a port.
func LoopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}

func refused(what, hint string) error {
	return &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: what, Hint: hint}
}
