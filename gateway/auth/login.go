package auth

import (
	"bytes"
	_ "embed" // the page
	"errors"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strings"

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
	if token == "" && p != nil && p.Ambient { // the present session continues
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
