package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// OIDCConfig describes an OpenID Connect provider. Issuer, ClientID, Redirect
// and Space are required.
type OIDCConfig struct {
	Issuer   string // as the provider names itself
	ClientID string
	// Secret of a confidential client; "" is a public one. PKCE is used by both.
	Secret string
	// Redirect is the whole URL of /auth/oidc/callback as browsers reach it.
	Redirect string
	// Scopes beside openid; default profile, email.
	Scopes []string
	// Audience that bearer JWTs must name; default ClientID. They must be access
	// tokens: an ID token, whose audience is always ClientID, is refused.
	Audience string
	// NameClaim is the claim that names people; default "email", which counts only
	// if the provider says that it is verified. "sub" always works.
	NameClaim string
	// GroupsClaim has the groups of people; default "groups".
	GroupsClaim string
	// Roles gives roles to groups; "*" stands for everybody whom the provider lets
	// in. Who has no role is not let in.
	Roles map[string][]toolcall.Role
	Space toolcall.SpaceID
	// Client reaches the provider; default one with a timeout.
	Client *http.Client
}

// OIDC lets in whom a provider vouches for. It finds out about the provider
// when it is first needed, so that a server starts without it. Its methods may
// be called from many goroutines.
type OIDC struct {
	cfg OIDCConfig

	mu       sync.Mutex // guards what follows
	provider *oidc.Provider
	failed   time.Time // when the provider was last asked in vain
	why      error
}

const (
	providerTimeout = 10 * time.Second
	askAgain        = 5 * time.Second // after the provider did not answer
)

// NewOIDC checks the configuration.
func NewOIDC(cfg OIDCConfig) (*OIDC, error) {
	switch {
	case cfg.Issuer == "" || cfg.ClientID == "" || cfg.Redirect == "" || cfg.Space == "":
		return nil, errors.New("oidc: issuer, client id, redirect URL and space are required")
	case len(cfg.Roles) == 0:
		return nil, errors.New("oidc: no group has a role, so that nobody would be let in")
	}
	for group, of := range cfg.Roles {
		for _, role := range of {
			if !slices.Contains(roles, role) {
				return nil, fmt.Errorf("oidc: group %s: %s is no role", quote(group), quote(string(role)))
			}
		}
	}
	for _, d := range []struct {
		to  *string
		def string
	}{{&cfg.Audience, cfg.ClientID}, {&cfg.NameClaim, "email"}, {&cfg.GroupsClaim, "groups"}} {
		if *d.to == "" {
			*d.to = d.def
		}
	}
	if cfg.Scopes == nil {
		cfg.Scopes = []string{"profile", "email"}
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: providerTimeout}
	}
	return &OIDC{cfg: cfg}, nil
}

// via is how votes record a name of this provider.
func (o *OIDC) via() string { return "oidc:" + o.cfg.Issuer }

// discover finds out about the provider, once. The keys that it signs with are
// fetched again as they change.
func (o *OIDC) discover(ctx context.Context) (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider != nil {
		return o.provider, nil
	}
	if time.Since(o.failed) >= askAgain {
		ctx, cancel := context.WithTimeout(oidc.ClientContext(context.WithoutCancel(ctx), o.cfg.Client), providerTimeout)
		defer cancel()
		o.provider, o.why = oidc.NewProvider(ctx, o.cfg.Issuer)
		o.failed = time.Now()
	}
	if o.provider == nil {
		return nil, &message.Error{Code: message.CodeUnavailable, Op: "authenticate", What: "the identity provider cannot be reached", Hint: "try again in a minute", Err: o.why}
	}
	return o.provider, nil
}

func (o *OIDC) oauth(p *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: o.cfg.ClientID, ClientSecret: o.cfg.Secret, Endpoint: p.Endpoint(), RedirectURL: o.cfg.Redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, o.cfg.Scopes...),
	}
}

// bearer judges a JWT that a program sends.
func (o *OIDC) bearer(ctx context.Context, token string) (*gateway.Identity, error) {
	p, err := o.discover(ctx)
	if err != nil {
		return nil, err
	}
	verified, err := p.VerifierContext(o.with(ctx), &oidc.Config{ClientID: o.cfg.Audience}).Verify(o.with(ctx), token)
	if err != nil {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: "the provider's token is not good here", Hint: "get a new one from " + o.cfg.Issuer + " for the audience " + o.cfg.Audience, Err: err}
	}
	var said claims
	if err := verified.Claims(&said); err != nil || !isAccessToken(token, said, verified.Audience, o.cfg.ClientID) {
		return nil, refused("the provider's token is not an access token, or does not say that it is one", "send an access token for the audience "+o.cfg.Audience+" and not the ID token of a log-in; one that names no type (at+jwt) has a scope or a client_id, or an audience other than the client id (askance serve --oidc-audience)")
	}
	id, err := o.identity(verified)
	if err == nil {
		id.Expires = verified.Expiry
	}
	return id, err
}

// with lets the library use our client.
func (o *OIDC) with(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, o.cfg.Client)
}

// identity reads the claims of a token that was verified.
func (o *OIDC) identity(t *oidc.IDToken) (*gateway.Identity, error) {
	var raw claims
	if err := t.Claims(&raw); err != nil {
		return nil, refused("the claims of the provider's token cannot be read", "ask its operator")
	}
	name := raw.text(o.cfg.NameClaim)
	switch {
	case name == "":
		return nil, refused("the provider's token has no claim "+quote(o.cfg.NameClaim)+", by which people are named here", "ask its operator for it, or name people by another claim (askance serve --oidc-name-claim)")
	case o.cfg.NameClaim == "email" && !raw.truth("email_verified"):
		return nil, refused("the provider does not say that the address "+quote(name)+" is verified", "verify it there, or name people by another claim (askance serve --oidc-name-claim)")
	}
	if err := checkName(name); err != nil {
		return nil, refused(err.Error(), "ask the provider's operator")
	}
	groups := raw.texts(o.cfg.GroupsClaim)
	has := slices.Clone(o.cfg.Roles["*"])
	for _, g := range groups {
		if g != "*" {
			has = append(has, o.cfg.Roles[g]...)
		}
	}
	slices.Sort(has)
	has = slices.Compact(has)
	if len(has) == 0 {
		return nil, refused(quote(name)+" is in no group that has a role here", "ask for one that has")
	}
	return &gateway.Identity{Name: name, Space: o.cfg.Space, Roles: has, Groups: groups, GroupsFrom: "oidc", Auth: o.via()}, nil
}

// claims are those of a token.
type claims map[string]any

// UnmarshalJSON implements json.Unmarshaler strictly: a claim that is there
// twice is none.
func (c *claims) UnmarshalJSON(data []byte) error {
	m, err := strictjson.Object(data)
	if err == nil {
		*c = m
	}
	return err
}

func (c claims) text(name string) string {
	s, _ := c[name].(string)
	return s
}

// truth reads a boolean; some providers write it as a text.
func (c claims) truth(name string) bool {
	v := c[name]
	return v == true || v == "true"
}

// texts reads a list of texts, or one.
func (c claims) texts(name string) []string {
	var out []string
	switch v := c[name].(type) {
	case string:
		out = []string{v}
	case []any:
		for _, item := range v {
			if s, ok := item.(string); ok {
				out = append(out, s)
			}
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return strings.TrimSpace(s) == "" })
}

// typed are the types that the header of an access token may have. RFC 9068 has
// the first two; many providers write no more than that it is a JWT. Any other
// type is another thing that the provider signs, such as a log-out.
var typed = map[string]bool{"at+jwt": true, "application/at+jwt": true, "jwt": false, "application/jwt": false, "": false}

// ofLogin are claims that only the answer to a log-in has: what a browser got to
// know who is there, and what no program may send as its right to do something.
// A log-out has "events".
var ofLogin = []string{"nonce", "at_hash", "c_hash", "s_hash", "events"}

// ofAccess are claims that access tokens have and the answers to log-ins do not.
var ofAccess = []string{"scope", "scp", "client_id"}

// isAccessToken reports whether a verified JWT is for sending to a server like
// this one. An ID token is not: it says who logged in at a client, and is seen by
// browsers, other programs of the client, and logs. Where its type does not say so
// (RFC 9068), its claims must: an ID token always has the client id as audience,
// so a token for that audience must show that it is none.
func isAccessToken(token string, c claims, audience []string, clientID string) bool {
	access, known := typed[headerType(token)]
	if access || !known {
		return access
	}
	if c.has(ofLogin) {
		return false
	}
	// Keycloak and Cognito name the kind in a claim.
	kind := strings.ToLower(c.text("typ") + c.text("token_use"))
	if kind != "" {
		return kind == "bearer" || kind == "access"
	}
	if c.has(ofAccess) {
		return true
	}
	return !slices.Contains(audience, clientID)
}

// has reports whether any of the claims is there.
func (c claims) has(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, there := c[name]; return there })
}

// headerType is the type in a JWT's header, in lower case as types compare; what
// cannot be read is a type that nobody knows.
func headerType(token string) string {
	const unknown = "?"
	head, _, _ := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return unknown
	}
	m, err := strictjson.Object(raw)
	if err != nil {
		return unknown
	}
	v, there := m["typ"]
	s, text := v.(string)
	if there && !text {
		return unknown
	}
	return strings.ToLower(s)
}
