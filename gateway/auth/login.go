package auth

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	_ "embed" // the page
	"encoding/base64"
	"errors"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

//go:embed login.html
var loginHTML string

var loginPage = template.Must(template.New("login").Parse(loginHTML))

// LoginPath is where browsers log in.
const LoginPath = "/login"

// Routes implements gateway.Surface.
func (a *Auth) Routes() []gateway.Route {
	out := []gateway.Route{
		{Method: http.MethodGet, Path: LoginPath, Access: gateway.Everybody, Doc: "Open the login page.", Serve: a.showLogin},
		{Method: http.MethodPost, Path: LoginPath, Access: gateway.Readers, OwnAuth: true, MaxBody: 64 << 10, Doc: "Log in with a token.", Serve: a.login},
		{Method: http.MethodPost, Path: "/logout", Access: gateway.Everybody, Doc: "Log this browser out.", Serve: a.logout},
		{Method: http.MethodGet, Path: "/auth/login.css", Access: gateway.Everybody, Doc: "Load the login page's style.", Serve: style},
		{Method: http.MethodGet, Path: "/auth/session", Access: gateway.Readers, Doc: "Show the name and roles of the session, and the proof that forms must carry.", Serve: whoami},
	}
	if a.cfg.OIDC != nil {
		out = append(out,
			gateway.Route{Method: http.MethodGet, Path: attemptPath + "start", Access: gateway.Everybody, Doc: "Begin a login at the identity provider.", Serve: a.start},
			gateway.Route{Method: http.MethodGet, Path: attemptPath + "callback", Access: gateway.Everybody, Doc: "Complete a login at the identity provider.", Serve: a.callback})
	}
	return out
}

// localPath keeps redirections within this server.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") || u.Host != "" || u.Scheme != "" || strings.HasPrefix(u.Path, LoginPath) {
		return "/"
	}
	return next
}

func (a *Auth) showLogin(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	if p != nil && !a.IsOpen() {
		a.goTo(w, r, r.URL.Query().Get("next"))
		return nil
	}
	return a.page(w, r, http.StatusOK, nil)
}

// page shows the login page, with the error if there is one.
func (a *Auth) page(w http.ResponseWriter, r *http.Request, status int, wrong error) error {
	data := struct {
		Next, Wrong, Hint, Issuer, Start, User string
		Tokens                                 bool
		Brand                                  template.HTML
	}{Brand: gateway.Brand, Next: localPath(r.FormValue("next")), Tokens: a.cfg.Tokens != nil}
	if a.IsOpen() {
		data.Tokens, data.User = false, a.cfg.Local.Name
	}
	if a.cfg.OIDC != nil {
		data.Issuer = a.cfg.OIDC.cfg.Issuer
		data.Start = attemptPath + "start?next=" + url.QueryEscape(data.Next)
	}
	if e, ok := errors.AsType[*message.Error](wrong); ok {
		data.Wrong, data.Hint = e.What, e.Hint
	}
	var b bytes.Buffer
	if err := loginPage.Execute(&b, data); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_, err := w.Write(b.Bytes())
	return err
}

// login starts a session for a token.
func (a *Auth) login(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	if err := r.ParseForm(); err != nil {
		return &message.Error{Code: message.CodeInvalid, Op: "log in", What: "the form is not valid", Hint: "send token as application/x-www-form-urlencoded", Err: err}
	}
	next := localPath(r.PostFormValue("next"))
	if a.IsOpen() {
		return a.page(w, r, http.StatusForbidden, refusal("every request from this machine acts as "+a.cfg.Local.Name+", and a login cannot choose another name", "make a token with askance token create NAME --role approver, then log in with it"))
	}
	token := strings.TrimSpace(r.PostFormValue("token"))
	if token == "" && p != nil && p.Ambient { // the current session continues
		a.goTo(w, r, next)
		return nil
	}
	if p == nil || token != "" {
		var err error
		if p, err = gateway.LoginAgain(r, token); err != nil {
			status := http.StatusUnauthorized
			if message.AsError("", err).Code == message.CodeOverLimit {
				status = http.StatusTooManyRequests
			}
			return a.page(w, r, status, err)
		}
	}
	if err := a.sessions.begin(w, r, p.Identity); err != nil {
		return err
	}
	a.goTo(w, r, next)
	return nil
}

// goTo redirects a browser within this server.
func (*Auth) goTo(w http.ResponseWriter, r *http.Request, next string) {
	http.Redirect(w, r, localPath(next), http.StatusSeeOther) //nolint:gosec // G710: localPath keeps it within this server
}

func (a *Auth) logout(w http.ResponseWriter, r *http.Request, _ *gateway.Peer) error {
	a.sessions.leave(w, r)
	http.Redirect(w, r, LoginPath, http.StatusSeeOther)
	return nil
}

func style(w http.ResponseWriter, _ *http.Request, _ *gateway.Peer) error {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("Cache-Control", "max-age=3600")
	_, err := io.WriteString(w, gateway.PageCSS)
	return err
}

func whoami(w http.ResponseWriter, _ *http.Request, p *gateway.Peer) error {
	return gateway.ReplyJSON(w, http.StatusOK, struct {
		Name   string           `json:"name"`
		Space  toolcall.SpaceID `json:"space"`
		Roles  []toolcall.Role  `json:"roles"`
		Groups []string         `json:"groups"`
		Auth   string           `json:"auth"`
		CSRF   string           `json:"csrf"`
	}{p.Name, p.Space.ID, p.Roles, p.Groups, p.Auth, p.CSRF})
}

const (
	attemptCookie = "askance-oidc-" // followed by the beginning of the state, so each tab has its own login
	attemptLife   = 10 * time.Minute
	attemptPath   = "/auth/oidc/"
	maxAttempts   = 8 // of one browser: all its requests carry their cookies
)

// start redirects a browser to the provider. A sealed cookie carries state, nonce and the PKCE
// verifier, so the server stores nothing for unauthenticated clients.
func (a *Auth) start(w http.ResponseWriter, r *http.Request, _ *gateway.Peer) error {
	p, err := a.cfg.OIDC.discover(r.Context())
	if err != nil {
		a.cfg.Log.Warn("the identity provider cannot be used", "err", err)
		return a.page(w, r, http.StatusServiceUnavailable, err)
	}
	at := attempt{State: randomID(), Nonce: randomID(), Verifier: oauth2.GenerateVerifier(), Next: localPath(r.URL.Query().Get("next")), Until: time.Now().Add(attemptLife)}
	sealed, err := a.sealer.seal(sealedAttempt, at)
	if len(sealed) > maxCookie { // a browser would not keep it
		at.Next = "/"
		sealed, err = a.sealer.seal(sealedAttempt, at)
	}
	if err != nil {
		return err
	}
	if open := a.attempts(r); len(open) >= maxAttempts {
		for _, c := range open {
			c.Path, c.MaxAge = "/", -1
			http.SetCookie(w, c)
		}
	}
	http.SetCookie(w, a.attemptCookie(at.State, sealed, int(attemptLife.Seconds())))
	http.Redirect(w, r, a.cfg.OIDC.oauth(p).AuthCodeURL(at.State, oidc.Nonce(at.Nonce), oauth2.S256ChallengeOption(at.Verifier)), http.StatusSeeOther)
	return nil
}

// attempts returns the cookies of the logins that a browser has started.
func (a *Auth) attempts(r *http.Request) []*http.Cookie {
	prefix := cookieName(attemptCookie, a.cfg.Secure)
	return slices.DeleteFunc(r.Cookies(), func(c *http.Cookie) bool { return !strings.HasPrefix(c.Name, prefix) })
}

func (a *Auth) attemptCookie(state, value string, seconds int) *http.Cookie {
	name := cookieName(attemptCookie, a.cfg.Secure) + state[:min(len(state), 8)]
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: a.cfg.Secure, SameSite: http.SameSiteLaxMode} //nolint:gosec // G124: Secure wherever there is TLS
}

// callback receives a browser that the provider redirected.
func (a *Auth) callback(w http.ResponseWriter, r *http.Request, _ *gateway.Peer) error {
	http.SetCookie(w, a.attemptCookie(r.URL.Query().Get("state"), "", -1)) // valid once
	id, next, err := a.exchange(r)
	if err != nil {
		a.cfg.Log.Info("a login at the identity provider failed", "err", err)
		status := gateway.StatusOf(message.AsError("", err).Code)
		if status != http.StatusServiceUnavailable {
			status = http.StatusForbidden
		}
		return a.page(w, r, status, err)
	}
	if err := a.sessions.begin(w, r, *id); err != nil {
		return err
	}
	a.goTo(w, r, next)
	return nil
}

func (a *Auth) exchange(r *http.Request) (*gateway.Identity, string, error) {
	again := "start the login again"
	q := r.URL.Query()
	c, err := r.Cookie(a.attemptCookie(q.Get("state"), "", 0).Name)
	if err != nil {
		return nil, "", refusal(errSeal.Error(), again)
	}
	var at attempt
	if a.sealer.unseal(sealedAttempt, c.Value, &at) != nil || time.Now().After(at.Until) {
		return nil, "", refusal(errSeal.Error(), again)
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(at.State)) != 1:
		return nil, "", refusal("the provider's reply belongs to another login", again)
	case q.Get("error") != "":
		return nil, "", refusal("the provider refused the login: "+quote(q.Get("error")), again)
	}
	o := a.cfg.OIDC
	p, err := o.discover(r.Context())
	if err != nil {
		return nil, "", err
	}
	ctx := o.withClient(r.Context())
	token, err := o.oauth(p).Exchange(ctx, q.Get("code"), oauth2.VerifierOption(at.Verifier))
	if err != nil {
		if _, said := errors.AsType[*oauth2.RetrieveError](err); said {
			return nil, "", &message.Error{Code: message.CodeForbidden, Op: "authenticate", What: "the provider refused its code", Hint: again, Err: err}
		}
		return nil, "", o.unavailable(err)
	}
	raw, _ := token.Extra("id_token").(string)
	verified, err := p.Verifier(&oidc.Config{ClientID: o.cfg.ClientID}).Verify(ctx, raw)
	if err != nil || subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(at.Nonce)) != 1 {
		return nil, "", o.unverified(err, "the provider's token is not valid for this login", again)
	}
	said, err := o.readClaims(ctx, p, token, verified)
	if err != nil {
		return nil, "", err
	}
	id, err := o.identity(said)
	return id, at.Next, err
}

// attempt is a started login at the provider.
type attempt struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Next     string    `json:"next"`
	Until    time.Time `json:"until"`
}

// sealedAttempt is the purpose with which attempts are sealed.
const sealedAttempt = "attempt"

var errSeal = errors.New("the login was not started in this browser, or is too old")

// sealer encrypts and authenticates what a browser carries for us.
type sealer struct{ aead cipher.AEAD }

// newSealer makes a sealer. A zero key means a random one for this process.
func newSealer(key [32]byte) *sealer {
	if key == [32]byte{} {
		_, _ = rand.Read(key[:]) // never fails
	}
	block, err := aes.NewCipher(key[:])
	if err == nil {
		var aead cipher.AEAD
		if aead, err = cipher.NewGCMWithRandomNonce(block); err == nil {
			return &sealer{aead}
		}
	}
	panic("auth: AES-256-GCM: " + err.Error()) // a key of 32 bytes is always valid
}

// seal returns text that only unseal with the same purpose can read.
func (s *sealer) seal(purpose string, v any) (string, error) {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, b, []byte(purpose))), nil //nolint:gosec // G407: this AEAD makes random nonces itself
}

func (s *sealer) unseal(purpose, text string, into any) error {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		b, err = s.aead.Open(nil, nil, b, []byte(purpose))
	}
	if err == nil {
		err = strictjson.Unmarshal(b, into)
	}
	return err
}
