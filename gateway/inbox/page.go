package inbox

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
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
		Approver: p.Has(toolcall.RoleApprover), Operator: p.Has(toolcall.RoleOperator), Login: p.CSRF != "",
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

//go:embed assets
var assetFiles embed.FS

// assetPath is where assets are, below a folder named after their content.
const assetPath = "/assets/"

// assets are the files that pages use.
type assets struct {
	build string // of all content: a new build has new addresses
	files map[string][]byte
}

var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// loadAssets reads what is embedded: it is there.
func loadAssets() *assets {
	a := &assets{files: map[string][]byte{}}
	sum := sha256.New()
	entries, _ := assetFiles.ReadDir("assets")
	for _, e := range entries { // sorted by name
		b, _ := assetFiles.ReadFile("assets/" + e.Name())
		a.files[e.Name()] = b
		sum.Write([]byte(e.Name() + "\x00"))
		sum.Write(b)
	}
	a.build = hex.EncodeToString(sum.Sum(nil)[:8])
	return a
}

// url is the address of an asset.
func (a *assets) url(name string) string { return assetPath + a.build + "/" + name }

// asset serves one. Its address changes with its content, so it may be kept.
func (in *Inbox) asset(w http.ResponseWriter, r *http.Request, _ *gateway.Peer) error {
	name := r.PathValue("file")
	b, ok := in.assets.files[name]
	if !ok || r.PathValue("build") != in.assets.build {
		return &message.Error{Code: message.CodeNotFound, Op: "asset", What: "there is no such file", Hint: "load the page again"}
	}
	h := w.Header()
	h.Set("Content-Type", contentTypes[path.Ext(name)])
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	_, err := w.Write(b)
	return err
}

// functions are those that templates call.
func functions() template.FuncMap {
	return template.FuncMap{
		"line":    func(s any) template.HTML { return markup(reveal.Line(fmt.Sprint(s))) },
		"text":    func(s any) template.HTML { return markup(reveal.Text(fmt.Sprint(s))) },
		"safe":    safe,
		"time":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"clock":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"ago":     func(t, now time.Time) string { return asked.Span(now.Sub(t)) + " ago" },
		"until":   asked.Until,
		"span":    asked.Span,
		"inc":     func(i int) int { return i + 1 },
		"plural":  asked.Count,
		"initial": initial,
		"send":    func(p *panel, label, tone string) button { return button{p, label, tone} },
		"scopes":  scopes,
		"lasts":   func() []choice { return lasts },
		"limits":  asked.Limits,
		"kinds":   func() []choice { return outcomes },
	}
}

// oddMark is how package reveal writes a character that is not shown as itself.
// Nobody else can write one: the brackets are marked, too.
var oddMark = regexp.MustCompile(`‹(U\+[0-9A-F]{4,6}|0x[0-9A-F]{2})›`)

// markup makes HTML of a text that package reveal has gone over, with its marks
// set apart.
func markup(revealed string) template.HTML {
	var b strings.Builder
	at := 0
	for _, m := range oddMark.FindAllStringSubmatchIndex(revealed, -1) {
		b.WriteString(template.HTMLEscapeString(revealed[at:m[0]]))
		name := revealed[m[2]:m[3]]
		b.WriteString(`<mark class="odd" title="a character that is invisible, or looks like another one">` + name + `</mark>`)
		at = m[1]
	}
	b.WriteString(template.HTMLEscapeString(revealed[at:]))
	return template.HTML(b.String()) //nolint:gosec // every piece was escaped above
}

// safe is for text that package asked or reveal has made visible already.
func safe(s string) template.HTML { return markup(s) }

// initial is the dead letter of a person's badge.
func initial(name string) string {
	for _, r := range reveal.Line(name) {
		return strings.ToUpper(string(r))
	}
	return "?"
}

// domID names the call in pages and events. Ids of calls may contain anything.
func domID(k toolcall.Key) string {
	sum := sha256.Sum256([]byte(k.IdempotencyKey()))
	return "c" + hex.EncodeToString(sum[:8])
}

// address is the page of a call. more are further parameters, in pairs; those
// without a value are left out.
func address(k toolcall.Key, base url.Values, more ...string) string {
	q := url.Values{}
	maps.Copy(q, base)
	q.Set("session", string(k.Session))
	q.Set("reply", string(k.Reply))
	q.Set("call", string(k.Call))
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] != "" {
			q.Set(more[i], more[i+1])
		}
	}
	return pathCall + "?" + q.Encode()
}

// keyOf reads the address of a call.
func keyOf(q url.Values, space toolcall.SpaceID) (toolcall.Key, error) {
	k := toolcall.Key{Space: space, Session: message.SessionID(q.Get("session")), Reply: message.ReplyID(q.Get("reply")), Call: message.CallID(q.Get("call"))}
	return k, k.Validate()
}
