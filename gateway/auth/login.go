package auth

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"errors"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

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
		{Method: http.MethodGet, Path: LoginPath, Access: gateway.Everybody, Doc: "The login page.", Serve: a.showLogin},
		{Method: http.MethodPost, Path: LoginPath, Access: gateway.Readers, OwnAuth: true, MaxBody: 64 << 10, Doc: "Logs in with a token and sets a cookie.", Serve: a.login},
		{Method: http.MethodPost, Path: "/logout", Access: gateway.Everybody, Doc: "Logs this browser out.", Serve: a.logout},
		{Method: http.MethodGet, Path: "/auth/login.css", Access: gateway.Everybody, Doc: "The login page's style.", Serve: style},
		{Method: http.MethodGet, Path: "/auth/session", Access: gateway.Readers, Doc: "The name and roles of the session, and the proof that forms must carry.", Serve: whoami},
	}
	if a.cfg.OIDC != nil {
		out = append(out,
			gateway.Route{Method: http.MethodGet, Path: attemptPath + "start", Access: gateway.Everybody, Doc: "Begins a login at the identity provider.", Serve: a.start},
			gateway.Route{Method: http.MethodGet, Path: attemptPath + "callback", Access: gateway.Everybody, Doc: "The redirect from the identity provider.", Serve: a.callback})
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

// page shows the login page, with what went wrong.
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
	if token == "" && p != nil && p.Ambient { // the present session continues
		a.goTo(w, r, next)
		return nil
	}
	if p == nil || token != "" {
		var err error
		if p, err = a.authenticateForm(r, p, token); err != nil {
			status := http.StatusUnauthorized
			if message.AsError("", err).Code == message.CodeOverLimit {
				status = http.StatusTooManyRequests
			}
			return a.page(w, r, status, err)
		}
	}
	a.sessions.leave(w, r)
	w.Header().Del("Set-Cookie")
	a.sessions.begin(w, p.Identity)
	a.goTo(w, r, next)
	return nil
}

// authenticateForm checks the token of a form, also of a browser that is logged in.
func (a *Auth) authenticateForm(r *http.Request, now *gateway.Peer, token string) (*gateway.Peer, error) {
	if now == nil {
		return gateway.Login(r, token)
	}
	id, err := a.Token(r, token)
	if err != nil {
		return nil, err
	}
	p := *now
	p.Identity = *id
	return &p, nil
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
	b, err := strictjson.Marshal(struct {
		Name   string           `json:"name"`
		Space  toolcall.SpaceID `json:"space"`
		Roles  []toolcall.Role  `json:"roles"`
		Groups []string         `json:"groups"`
		Auth   string           `json:"auth"`
		CSRF   string           `json:"csrf"`
	}{p.Name, p.Space.ID, p.Roles, p.Groups, p.Auth, p.CSRF})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(append(b, '\n'))
	return err
}

// Bounds of sessions.
const (
	maxSessions   = 10_000
	maxOfOne      = 50 // of one person; the oldest goes
	sessionLife   = 12 * time.Hour
	sessionCookie = "askance-session"
)

// sessions are the logins of browsers, in memory: a restart ends them. A browser
// holds only a random id. It is safe for concurrent use.
type sessions struct {
	life   time.Duration
	secure bool // cookies are sent over TLS only

	mu  sync.Mutex // guards what follows
	all map[[sha256.Size]byte]*session
}

// session is one login.
type session struct {
	id   gateway.Identity
	key  [sha256.Size]byte
	made time.Time
	end  func() // closes id.Revoked
}

func newSessions(life time.Duration, secure bool) *sessions {
	if life <= 0 {
		life = sessionLife
	}
	return &sessions{life: life, secure: secure, all: map[[sha256.Size]byte]*session{}}
}

// randomID returns 256 random bits as text.
func randomID() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// begin starts a session under a new id. It ends with the identity that it was
// started with.
func (s *sessions) begin(w http.ResponseWriter, id gateway.Identity) {
	now, number, parent := time.Now(), randomID(), id.Revoked
	if until := now.Add(s.life); id.Expires.IsZero() || until.Before(id.Expires) {
		id.Expires = until
	}
	ctx, cancel := context.WithDeadline(context.Background(), id.Expires)
	id.Ambient, id.CSRF, id.Revoked = true, randomID(), ctx.Done()
	if parent != nil {
		go func() {
			select {
			case <-parent:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	n := &session{id: id, key: sha256.Sum256([]byte(number)), made: now, end: cancel}
	s.mu.Lock()
	s.makeRoom(id.Name, now)
	s.all[n.key] = n
	s.mu.Unlock()
	http.SetCookie(w, s.cookie(number, int(time.Until(id.Expires).Seconds())))
}

// makeRoom removes ended sessions, and the oldest where there are too many.
func (s *sessions) makeRoom(name string, now time.Time) {
	var oldest, oldestOfName *session
	ofName := 0
	for key, old := range s.all {
		if hasEnded(old, now) {
			old.end()
			delete(s.all, key)
			continue
		}
		if oldest == nil || old.made.Before(oldest.made) {
			oldest = old
		}
		if old.id.Name == name {
			if ofName++; oldestOfName == nil || old.made.Before(oldestOfName.made) {
				oldestOfName = old
			}
		}
	}
	switch {
	case ofName >= maxOfOne:
		s.drop(oldestOfName)
	case len(s.all) >= maxSessions:
		s.drop(oldest)
	}
}

// drop ends a session. The caller holds s.mu.
func (s *sessions) drop(old *session) {
	old.end()
	delete(s.all, old.key)
}

func hasEnded(s *session, now time.Time) bool {
	select {
	case <-s.id.Revoked:
		return true
	default:
		return !now.Before(s.id.Expires)
	}
}

// find returns the session of a request, or nil.
func (s *sessions) find(r *http.Request) *session {
	c, err := r.Cookie(s.name())
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.all[sha256.Sum256([]byte(c.Value))]
	if found == nil || hasEnded(found, time.Now()) {
		return nil
	}
	return found
}

// leave ends the session of a request, if any.
func (s *sessions) leave(w http.ResponseWriter, r *http.Request) {
	if found := s.find(r); found != nil {
		s.mu.Lock()
		s.drop(found)
		s.mu.Unlock()
	}
	http.SetCookie(w, s.cookie("", -1))
}

func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, old := range s.all {
		s.drop(old)
	}
}

// name is the name of the cookie. Browsers let only this host set one with the
// prefix.
func (s *sessions) name() string {
	if s.secure {
		return "__Host-" + sessionCookie
	}
	return sessionCookie
}

// cookie is Lax and not Strict: a person who returns from an identity provider or
// follows a link in a message is logged in. No GET changes anything.
func (s *sessions) cookie(value string, seconds int) *http.Cookie {
	return &http.Cookie{Name: s.name(), Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode} //nolint:gosec // G124: Secure wherever there is TLS
}
