package inbox

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
)

//go:embed templates
var pageFiles embed.FS

// policy lets pages load our own files and nothing else. Scripts may make
// markup only through the one policy that app.js names.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types askance"

// themeCookie keeps a person's choice of light or dark; it is no secret.
const themeCookie = "askance_theme"

// shell is what every page has.
type shell struct {
	Title, Nav       string
	Who, Space, Role string
	Theme            string // light, dark, or "": as the system has it
	CSRF             string
	CSS, JS, Icon    string
	Now              time.Time
	Approver         bool
	Operator         bool
	Flash            *flash
	Side             *side // the list beside the page; nil: none
	Login            bool  // the person can log out
}

// flash is what became of what the person has just done.
type flash struct {
	Tone string // good, bad
	Text string
	Next string // address of the next approval request, or ""
}

func (in *Inbox) shell(r *http.Request, p *gateway.Peer, nav, title string) shell {
	s := shell{
		Title: title, Nav: nav, Who: p.Name, Space: string(p.Space.ID), Role: roles(p), CSRF: p.CSRF, Now: in.now(),
		CSS: in.assets.url("inbox.css"), JS: in.assets.url("app.js"), Icon: in.assets.url("icon.svg"),
		Approver: p.Has(message.RoleApprover), Operator: p.Has(message.RoleOperator), Login: p.CSRF != "",
	}
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "dark" || c.Value == "light") {
		s.Theme = c.Value
	}
	return s
}

func roles(p *gateway.Peer) string {
	out := make([]string, 0, len(p.Roles))
	for _, r := range p.Roles {
		out = append(out, string(r))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// loadPages parses what is embedded; a mistake there ends the first test.
func loadPages() *template.Template {
	return template.Must(template.New("").Funcs(functions()).ParseFS(pageFiles, "templates/*.html"))
}

// write answers with a page. Nothing is written if it cannot be made.
func (in *Inbox) write(w http.ResponseWriter, status int, name string, view any) error {
	var b bytes.Buffer
	if err := in.pages.ExecuteTemplate(&b, name, view); err != nil {
		return message.Errorf(message.CodeInternal, "page "+name, "%w", err)
	}
	secure(w.Header())
	w.WriteHeader(status)
	_, err := w.Write(b.Bytes())
	return err
}

func secure(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Referrer-Policy", "same-origin") // with less, browsers hide the origin of forms
	h.Set("X-Content-Type-Options", "nosniff")
}
