package web

import (
	"net/url"
	"strings"

	"github.com/askance-dev/askance/gateway/auth"
)

// open reports whether nobody has to say who they are.
func (c Config) open() bool { return c.Tokens == "" && c.OIDC.Issuer == "" }

// authenticator lets in those who are configured; where nobody is, the local
// user.
func (w *Web) authenticator() (*auth.Auth, error) {
	cfg := auth.Config{Session: w.cfg.Session, Secure: strings.HasPrefix(w.public(), "https://"), Log: w.cfg.Log}
	if w.cfg.open() {
		cfg.Local = &auth.Loopback{Name: w.cfg.User, Space: w.cfg.Space.ID}
		return auth.New(cfg)
	}
	var err error
	if w.cfg.Tokens != "" {
		if w.tokens, err = auth.OpenTokens(w.cfg.Tokens, w.cfg.Log); err != nil {
			return nil, err
		}
		cfg.Tokens = w.tokens
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
	return auth.New(cfg)
}

// login is where browsers are sent that have no credentials; "" where none are
// needed.
func (w *Web) login() string {
	if w.cfg.open() {
		return ""
	}
	return auth.LoginPath
}

// public is where browsers reach the gateway.
func (w *Web) public() string {
	if w.cfg.Public != "" {
		return strings.TrimSuffix(w.cfg.Public, "/")
	}
	return w.URL()
}

// TokenError is 1 while the token file cannot be read, for metrics.
func (w *Web) TokenError() float64 {
	if w.tokens != nil && w.tokens.Trouble() != "" {
		return 1
	}
	return 0
}

// Logins says who is let in, for people.
func (w *Web) Logins() string {
	switch {
	case w.cfg.Tokens != "" && w.cfg.OIDC.Issuer != "":
		return "tokens of " + w.cfg.Tokens + ", log-ins at " + w.cfg.OIDC.Issuer
	case w.cfg.Tokens != "":
		return "tokens of " + w.cfg.Tokens
	case w.cfg.OIDC.Issuer != "":
		return "log-ins at " + w.cfg.OIDC.Issuer
	}
	return ""
}
