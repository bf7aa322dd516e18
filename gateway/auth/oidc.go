package auth

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
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

// OIDCConfig describes an OpenID Connect provider. Issuer, ClientID, Redirect,
// Roles and Space are required.
type OIDCConfig struct {
	Issuer   string // as the provider names itself
	ClientID string
	Secret   string   // of a confidential client; "": a public one. Both use PKCE.
	Redirect string   // the URL of /auth/oidc/callback as browsers reach it
	Scopes   []string // in addition to openid, profile and email
	// Audience is what bearer JWTs must name; default ClientID. They must be access
	// tokens: an ID token is refused.
	Audience string
	// NameClaim is the claim that names people; default "email", which the provider
	// must have verified. "sub" always works.
	NameClaim   string
	GroupsClaim string // has the groups of people; default "groups"
	// Roles maps groups to roles; "*" is everyone with an account. A person without a
	// role is refused.
	Roles  map[string][]toolcall.Role
	Space  toolcall.SpaceID
	Client *http.Client // reaches the provider; default one with a timeout
}

// OIDC authenticates people by a provider. It discovers the provider when it first
// needs it, so a server starts without it. It is safe for concurrent use.
type OIDC struct {
	cfg OIDCConfig

	mu       sync.Mutex // guards what follows
	provider *oidc.Provider
	asked    time.Time // the last discovery
	why      error
}

const (
	providerTimeout = 10 * time.Second
	askAgain        = 5 * time.Second  // pause after a failed discovery
	askAnyway       = 10 * time.Minute // pause after another: the provider may have withdrawn a key
)

// NewOIDC checks the configuration.
func NewOIDC(cfg OIDCConfig) (*OIDC, error) {
	switch {
	case cfg.Issuer == "" || cfg.ClientID == "" || cfg.Redirect == "" || cfg.Space == "":
		return nil, errors.New("oidc: the issuer, client id, redirect URL or space is missing: set all of them")
	case len(cfg.Roles) == 0:
		return nil, errors.New("oidc: no group has a role, so no one can log in: give roles to groups")
	}
	for group, of := range cfg.Roles {
		if err := checkRoles(of); err != nil {
			return nil, fmt.Errorf("the roles of group %s: %w", quote(group), err)
		}
	}
	cfg.Audience = cmp.Or(cfg.Audience, cfg.ClientID)
	cfg.NameClaim = cmp.Or(cfg.NameClaim, "email")
	cfg.GroupsClaim = cmp.Or(cfg.GroupsClaim, "groups")
	cfg.Client = cmp.Or(cfg.Client, &http.Client{Timeout: providerTimeout, Transport: &careful{got: map[string]*document{}}})
	return &OIDC{cfg: cfg}, nil
}

// maxProviderReply bounds a reply of the provider. Its configuration and keys take a few KB.
const maxProviderReply = 1 << 20

// careful reaches the provider. It bounds replies, and sends nothing over the network in plain
// text, no matter which address the provider's configuration or a redirection names. It asks for a
// document at most once in askAgain: the library wants the keys for each JWT of an unknown key,
// and strangers can send many.
type careful struct {
	mu  sync.Mutex // guards got
	got map[string]*document
}

// document is a reply of the provider to a GET.
type document struct {
	res  http.Response
	body []byte
	at   time.Time
}

func (c *careful) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !LoopbackHost(r.URL.Host) {
		if r.Body != nil {
			_ = r.Body.Close() // nothing was sent
		}
		return nil, errors.New("the address is plain HTTP, so someone on the network could forge logins: let the provider name an https address")
	}
	if r.Method != http.MethodGet || r.Header.Get("Authorization") != "" { // UserInfo is about one person
		return sendLimited(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.got[r.URL.String()]
	if d == nil || time.Since(d.at) >= askAgain {
		res, err := sendLimited(r)
		if err != nil {
			return nil, err
		}
		d = &document{res: *res, at: time.Now()}
		d.body, err = io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil {
			return nil, err
		}
		if len(c.got) >= 8 { // a provider has two documents
			clear(c.got)
		}
		if res.StatusCode == http.StatusOK {
			c.got[r.URL.String()] = d
		}
	}
	res := d.res
	res.Request, res.Body = r, io.NopCloser(bytes.NewReader(d.body))
	return &res, nil
}

// sendLimited sends a request to the provider, and limits the body of its reply.
func sendLimited(r *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, maxProviderReply)
	}
	return res, err
}

// via is how votes record a name of this provider.
func (o *OIDC) via() string { return "oidc:" + o.cfg.Issuer }

// discover reads the provider's configuration. The library fetches its keys again for
// a new one, but keeps those that the provider withdrew.
func (o *OIDC) discover(ctx context.Context) (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if pause := time.Since(o.asked); pause >= askAnyway || o.provider == nil && pause >= askAgain {
		ctx, cancel := context.WithTimeout(oidc.ClientContext(context.WithoutCancel(ctx), o.cfg.Client), providerTimeout)
		defer cancel()
		o.provider, o.why = oidc.NewProvider(ctx, o.cfg.Issuer)
		o.asked = time.Now()
	}
	if o.provider == nil {
		return nil, o.unavailable(o.why)
	}
	return o.provider, nil
}

func (o *OIDC) unavailable(err error) error {
	return &message.Error{Code: message.CodeUnavailable, Op: "authenticate", What: "the identity provider " + o.cfg.Issuer + " cannot be used", Hint: "try again in a minute; if that fails, an operator checks --oidc-issuer", Err: err}
}

// unverified is the error for a token that the library did not verify.
func (o *OIDC) unverified(err error, what, hint string) error {
	if err != nil && strings.HasPrefix(err.Error(), "failed to verify signature: fetching keys") {
		return o.unavailable(err)
	}
	return &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: what, Hint: hint, Err: err}
}

func (o *OIDC) oauth(p *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: o.cfg.ClientID, ClientSecret: o.cfg.Secret, Endpoint: p.Endpoint(), RedirectURL: o.cfg.Redirect,
		Scopes: append([]string{oidc.ScopeOpenID, "profile", "email"}, o.cfg.Scopes...),
	}
}

// authenticate checks a JWT that a program sends.
func (o *OIDC) authenticate(ctx context.Context, token string) (*gateway.Identity, error) {
	p, err := o.discover(ctx)
	if err != nil {
		return nil, err
	}
	verified, err := p.Verifier(&oidc.Config{ClientID: o.cfg.Audience}).Verify(o.withClient(ctx), token)
	if err != nil {
		return nil, o.unverified(err, "the provider's token is not valid for this server", "get a new one from "+o.cfg.Issuer+" for the audience "+o.cfg.Audience)
	}
	var said claims
	if err := verified.Claims(&said); err != nil || !isAccessToken(token, said, verified.Audience, o.cfg.ClientID) {
		return nil, refusal("the provider's token is not an access token, or does not say so", "send an access token for the audience "+o.cfg.Audience+", not the ID token of a login; one without the type at+jwt needs a scope, a client_id, or an audience other than the client id (askance serve --oidc-audience)")
	}
	id, err := o.identity(said)
	if err == nil {
		id.Expires = verified.Expiry
	}
	return id, err
}

// withClient makes the library use our client.
func (o *OIDC) withClient(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, o.cfg.Client)
}

// readClaims returns the claims about the person who logs in. Many providers give some of them
// only at UserInfo. Invariant: the name and whether it is verified come from one reply.
func (o *OIDC) readClaims(ctx context.Context, p *oidc.Provider, token *oauth2.Token, t *oidc.IDToken) (claims, error) {
	var raw, more claims
	if err := t.Claims(&raw); err != nil {
		return nil, refusal("the claims of the provider's token are not valid", "ask the provider's operator")
	}
	if p.UserInfoEndpoint() == "" || raw[o.cfg.NameClaim] != nil && raw[o.cfg.GroupsClaim] != nil {
		return raw, nil
	}
	info, err := p.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return nil, o.unavailable(err)
	}
	if err := info.Claims(&more); err != nil || info.Subject != t.Subject || info.Subject == "" {
		return nil, refusal("the provider's UserInfo is not valid or is about another person", "ask the provider's operator")
	}
	maps.DeleteFunc(raw, func(_ string, v any) bool { return v == nil })
	other := more // whose address is not taken
	if raw[o.cfg.NameClaim] == nil {
		other = raw
	}
	delete(other, "email_verified")
	maps.Copy(more, raw)
	return more, nil
}

// identity reads verified claims.
func (o *OIDC) identity(raw claims) (*gateway.Identity, error) {
	name := raw.text(o.cfg.NameClaim)
	switch {
	case name == "":
		return nil, refusal("the provider's token lacks the claim "+quote(o.cfg.NameClaim)+" that names people", "ask the provider's operator for it, or select another claim (askance serve --oidc-name-claim)")
	case o.cfg.NameClaim == "email" && !raw.flag("email_verified"):
		return nil, refusal("the provider does not say that the address "+quote(name)+" is verified", "verify it there, or select another claim (askance serve --oidc-name-claim)")
	}
	if err := toolcall.CheckName(name); err != nil {
		return nil, refusal(err.Error(), "ask the provider's operator")
	}
	return o.person(name, raw.texts(o.cfg.GroupsClaim))
}

func (o *OIDC) person(name string, groups []string) (*gateway.Identity, error) {
	has := slices.Clone(o.cfg.Roles["*"])
	for _, g := range groups {
		if g != "*" {
			has = append(has, o.cfg.Roles[g]...)
		}
	}
	slices.Sort(has)
	has = slices.Compact(has)
	switch {
	case len(has) == 0 && len(groups) == 0:
		return nil, refusal("the provider names no group of "+quote(name)+", so no role is known", "ask the server's operator for the claim: many providers need askance serve --oidc-scope groups, others --oidc-groups-claim NAME")
	case len(has) == 0:
		return nil, refusal("no group of "+quote(name)+" has a role", "ask the server's operator for a role")
	}
	return &gateway.Identity{Name: name, Space: o.cfg.Space, Roles: has, Groups: groups, GroupsFrom: "oidc", Auth: o.via()}, nil
}

type claims map[string]any

// UnmarshalJSON implements json.Unmarshaler. It refuses a claim that occurs twice.
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

// flag reads a boolean; some providers write it as a string.
func (c claims) flag(name string) bool {
	v := c[name]
	return v == true || v == "true"
}

// texts reads a list of strings, or a single one.
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

// headerTypes are the types in the header of an access token; true: RFC 9068 defines it. Many
// providers write only JWT. Any other type is not an access token, such as that of a logout
// token.
var headerTypes = map[string]bool{"at+jwt": true, "application/at+jwt": true, "jwt": false, "application/jwt": false, "": false}

// loginClaims are claims that only ID tokens have; "events" is in logout tokens.
var loginClaims = []string{"nonce", "at_hash", "c_hash", "s_hash", "events"}

// accessClaims are claims of access tokens that ID tokens do not have.
var accessClaims = []string{"scope", "scp", "client_id"}

// isAccessToken reports whether a verified JWT authorizes requests. An ID token does not:
// browsers, other programs of the client and logs see it. Without a type of RFC 9068 the claims
// decide: an ID token always has the client id as audience, so a token for that audience must
// show that it is not an ID token.
func isAccessToken(token string, c claims, audience []string, clientID string) bool {
	access, known := headerTypes[headerType(token)]
	if access || !known {
		return access
	}
	if c.has(loginClaims) {
		return false
	}
	// Keycloak and Cognito have a claim for the kind.
	kind := strings.ToLower(c.text("typ") + c.text("token_use"))
	if kind != "" {
		return kind == "bearer" || kind == "access"
	}
	if c.has(accessClaims) {
		return true
	}
	return !slices.Contains(audience, clientID)
}

func (c claims) has(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, there := c[name]; return there })
}

// headerType returns the type in a JWT's header in lower case, or "?" for an invalid header.
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
