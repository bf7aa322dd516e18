package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

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

// attemptCookie makes the cookie of the login with a state.
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
	id, err := o.identity(verified)
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
