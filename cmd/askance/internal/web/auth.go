package web

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/toolcall"
)

// open reports whether only the address would identify who sends a request.
func (c Config) open() bool { return c.Tokens == "" && c.OIDC.Issuer == "" }

// behindProxy reports whether browsers reach the gateway by the name of another host:
// their requests then come from a proxy on this machine.
func (c Config) behindProxy() bool {
	u, err := url.Parse(c.Public)
	return c.Public != "" && (err != nil || !auth.LoopbackHost(u.Host))
}

// authenticator admits the configured principals, or the local user if nothing is
// configured and no credentials exist.
func (w *Web) authenticator() (*auth.Auth, error) {
	cfg := auth.Config{Session: w.cfg.Session, Key: w.cfg.LoginKey, Secure: strings.HasPrefix(w.public(), "https://"), HasCredentials: w.cfg.HasLogins, TokenCommand: w.cfg.TokenCommand, Log: w.cfg.Log}
	if err := w.openTokens(); err != nil {
		return nil, err
	}
	cfg.Tokens = w.tokens
	var err error
	if w.cfg.Socket.Path != "" {
		if cfg.Unix, err = w.cfg.peers(); err != nil {
			return nil, err
		}
	}
	if w.cfg.OIDC.Issuer != "" {
		o := w.cfg.OIDC
		o.Space = w.cfg.Space.ID
		if o.Redirect, err = url.JoinPath(w.public(), "/auth/oidc/callback"); err != nil {
			return nil, &Error{"--http-url: " + err.Error()}
		}
		if cfg.OIDC, err = auth.NewOIDC(o); err != nil {
			return nil, err
		}
	}
	if (w.tokens == nil || w.tokens.Missing()) && cfg.OIDC == nil && cfg.Unix == nil && !w.cfg.behindProxy() {
		cfg.Local = &auth.Loopback{Name: w.cfg.User, Space: w.cfg.Space.ID, Further: w.cfg.furtherIDs()}
	}
	return auth.New(cfg)
}

func (w *Web) openTokens() (err error) {
	switch {
	case w.cfg.Tokens != "":
		w.tokens, err = auth.OpenTokens(w.cfg.Tokens, w.cfg.Log)
	case w.cfg.DefaultTokens != "":
		w.tokens, err = auth.AwaitTokens(w.cfg.DefaultTokens, w.cfg.Log)
	}
	return err
}

// public returns the URL at which browsers reach the gateway.
func (w *Web) public() string {
	if w.cfg.Public != "" {
		return strings.TrimSuffix(w.cfg.Public, "/")
	}
	if w.listener == nil {
		return "http://localhost"
	}
	return w.URL()
}

// publicOf returns the URL at which browsers reach the console of a space.
func (w *Web) publicOf(space toolcall.SpaceID) string {
	if space == w.cfg.Space.ID || !w.auth.IsOpen() {
		return w.public() // a login names the space
	}
	return OfSpace(w.public(), space)
}

// OfSpace returns the address with which a local user without credentials names a space. It
// returns a URL of another machine unchanged.
func OfSpace(at string, space toolcall.SpaceID) string {
	u, err := url.Parse(at)
	if err != nil || !auth.LoopbackHost(u.Host) {
		return at
	}
	port := u.Port()
	if u.Host = auth.SpaceHost(space); port != "" {
		u.Host += ":" + port
	}
	return u.String()
}

// TokenError is 1 while the token file cannot be read, for metrics.
func (w *Web) TokenError() float64 {
	if w.tokens != nil && w.tokens.Trouble() != "" {
		return 1
	}
	return 0
}

// Logins says who can log in, for people; "" means only the local user, without credentials.
func (w *Web) Logins() string {
	if w.auth.IsOpen() {
		return ""
	}
	var ways []string
	if w.tokens != nil && !w.tokens.Missing() {
		file := cmp.Or(w.cfg.Tokens, w.cfg.DefaultTokens)
		ways = append(ways, "tokens of "+file)
	}
	if w.cfg.OIDC.Issuer != "" {
		ways = append(ways, "logins at "+w.cfg.OIDC.Issuer)
	}
	if len(ways) == 0 {
		return "closed: every request needs a token, and none exists (" + w.cfg.TokenCommand + ")"
	}
	return strings.Join(ways, ", ")
}

// Check checks the settings and files of a gateway, and starts nothing. It returns an
// *Error for a setting that is invalid, or that would admit strangers or show
// passwords to the network, and other errors for files.
func (c Config) Check() error {
	if c.Address != Off {
		if _, _, err := c.hostPort(); err != nil {
			return err
		}
	}
	if err := c.checkSocket(); err != nil {
		return err
	}
	if err := c.strangers(); err != nil {
		return err
	}
	if _, err := c.certificate(); err != nil {
		return err
	}
	if c.Public != "" {
		if u, err := url.Parse(c.Public); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return &Error{"--http-url " + c.Public + " is not a URL such as https://inbox.example"}
		}
	}
	if err := gateway.CheckOrigins(c.Origins); err != nil {
		return &Error{"--http-origin: " + err.Error()}
	}
	if len(c.Origins) > 0 && c.open() {
		return &Error{"--http-origin " + c.Origins[0] + " needs tokens or a provider: a page of another site has no other way to say who sends its requests, and cookies are never sent with them; create a token with askance token create NAME --role approver, name a provider with --oidc-issuer, or leave out --http-origin"}
	}
	if c.Tokens != "" {
		if _, err := auth.OpenTokens(c.Tokens, c.Log); err != nil {
			return err
		}
	}
	if c.OIDC.Issuer == "" {
		return nil
	}
	switch u, err := url.Parse(c.OIDC.Issuer); {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return &Error{"--oidc-issuer " + c.OIDC.Issuer + " is not a URL such as https://id.example"}
	case u.Scheme == "http" && !auth.LoopbackHost(u.Host):
		return &Error{"--oidc-issuer " + c.OIDC.Issuer + " is plain HTTP, so someone on the network could forge logins: use https"}
	}
	o := c.OIDC
	o.Redirect, o.Space = "http://localhost/", toolcall.SpaceID("default") // neither is known yet
	if _, err := auth.NewOIDC(o); err != nil {
		return &Error{"--oidc-role: " + err.Error()}
	}
	return nil
}
