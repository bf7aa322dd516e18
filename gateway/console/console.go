// Package console is the web console. It shows the calls of a space, the open approval requests
// with what a response covers, and forms to respond.
//
//	gateway.New(gateway.Config{Surfaces: []gateway.Surface{console.New()}, …})
//
// The server renders the pages (html/template), and all of them work without scripts. A small
// script keeps them live: a stream of server-sent events reports changes, and the script reloads
// the page and replaces what differs. CONSOLE.md is for users.
//
// # Guarantees
//
//   - Untrusted values (arguments, names, reasons, output) are text, never markup,
//     and misleading characters are visible (internal/reveal).
//   - A response carries the digest of the approval request on the page. If the
//     request changed or was decided in the meantime, nothing is sent and the page says
//     who decided and how.
//   - The digest of a request is computed from what the page shows.
//   - The content security policy allows only files of this server: nothing inline,
//     nothing from other hosts.
//
// # What it does not do
//
// It stores nothing except the last progress lines of running calls, in memory. Package gateway
// authenticates people and checks that a form came from one of these pages.
package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"maps"
	"math"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Console is the surface. It is safe for concurrent use.
type Console struct {
	pages    *template.Template
	assets   *assets
	progress *progress
	now      func() time.Time
	links    *webhook.Links // may be nil
}

// Option configures the console.
type Option func(*Console)

// WithLinks makes the console accept webhook links; with nil it refuses them.
func WithLinks(l *webhook.Links) Option { return func(in *Console) { in.links = l } }

// New returns a console.
func New(opts ...Option) *Console {
	a := loadAssets()
	pages := template.Must(template.New("").Funcs(functions()).ParseFS(pageFiles, "templates/*.html")) // a mistake in one fails the first test
	in := &Console{pages: pages, assets: a, progress: &progress{lines: map[toolcall.Key][]line{}}, now: time.Now}
	for _, o := range opts {
		o(in)
	}
	return in
}

// Paths of the pages.
const (
	pathOverview = "/"
	pathInbox    = "/inbox"
	pathCall     = "/inbox/call"
	pathBulk     = "/inbox/bulk"
	pathTimeline = "/timeline"
	pathStanding = "/standing"
	pathInsights = "/insights"
	pathFind     = "/find"
	pathPolicy   = "/policy"
	pathWorkers  = "/workers"
	pathHistory  = "/history"
	pathExport   = "/history/export"
	pathAudit    = "/audit"
)

// Routes implements gateway.Surface.
func (in *Console) Routes() []gateway.Route {
	get := func(path, doc string, h gateway.Handler) gateway.Route {
		return gateway.Route{Method: http.MethodGet, Path: path, Access: gateway.People, Serve: h, Doc: doc}
	}
	post := func(path string, who gateway.Access, doc string, h gateway.Handler) gateway.Route {
		return gateway.Route{Method: http.MethodPost, Path: path, Access: who, Serve: h, Doc: doc}
	}
	approvers, operators := gateway.Only(toolcall.RoleApprover), gateway.Only(toolcall.RoleOperator)
	both := gateway.Only(toolcall.RoleApprover, toolcall.RoleOperator)
	check := post("/inbox/check", approvers, "Check edited arguments before sending them.", in.check)
	check.Safe = true
	try := post(pathPolicy, gateway.People, "Try the policy on a call without proposing it.", in.tryCall)
	try.Safe = true
	stream := get("/inbox/events", "Follow changes of calls.", in.events)
	stream.Stream = true
	export := get(pathExport, "Download finished calls as CSV or JSON.", records{in}.exportHistory)
	export.Stream = true
	prove := post(pathAudit, gateway.People, "Verify the journal or check a receipt.", records{in}.audit)
	prove.Safe, prove.MaxBody = true, maxAuditForm
	return []gateway.Route{
		get("/{$}", "Open the overview of current activity.", figures{in}.overview),
		get(pathInbox, "Open the page of open approval requests.", in.list),
		get(pathInbox+"/rows", "Read the inbox rows of the named calls.", in.rows),
		get(pathBulk, "Open the confirmation page for one response to several requests.", bulkPages{in}.review),
		get(pathCall, "Open the page of one call.", in.call),
		get(webhook.LinkPath, "Open the page of an approval request, with the response of a link prepared.", in.showLink),
		get(pathStanding, "Open the page of standing approvals.", in.standing),
		get(pathHistory, "Open the page of finished calls.", records{in}.history),
		export,
		get(pathAudit, "Open the audit page of the journal.", records{in}.audit),
		prove,
		post("/audit/receipt", gateway.People, "Download the receipt of a call.", records{in}.receipt),
		get(pathTimeline, "Open the timeline of a session's calls.", records{in}.showTimeline),
		get(pathInsights, "Open the page of calls, outcomes and times in a period.", figures{in}.insights),
		get(pathFind, "Search calls by id, tool, agent, session, rule and arguments.", figures{in}.find),
		get(pathPolicy, "Open the page of the policy in force.", in.policy),
		try,
		get(pathWorkers, "Open the page of workers and queues.", in.workers),
		stream,
		check,
		post("/inbox/response", approvers, "Respond to an approval request.", in.answer),
		post(pathBulk, approvers, "Respond to several requests.", bulkPages{in}.answer),
		post("/inbox/resolve", operators, "Resolve a call.", in.resolve),
		post("/inbox/revoke", both, "Revoke an allowed call that has not started.", in.revoke),
		post("/inbox/interrupt", both, "Interrupt every open call of a reply.", in.interrupt),
		post("/standing/revoke", both, "Revoke a standing approval.", in.revokeStanding),
		{Method: http.MethodGet, Path: assetPath + "{build}/{file}", Access: gateway.Everybody, Serve: in.asset, Doc: "Load the style, script and icon of the console."},
	}
}

//go:embed templates
var pageFiles embed.FS

// policy allows only files from this server, and images inside a page. Scripts create markup only
// through the trusted-types policy of page.js.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types askance"

// themeCookie stores the choice of light or dark.
const themeCookie = "askance_theme"

// shell is the data of every page.
type shell struct {
	Title, Nav       string // Nav is the name of the page in the table of pages
	Pages            []page
	Who, Space, Role string
	Theme            string // light, dark, or "": the system's
	CSRF             string
	CSS, JS, Icon    string
	Now              time.Time
	Open             int              // open approval requests, in the title
	Counts           map[string]count // by the name of a page
	Approver         bool
	Operator         bool
	Flash            *flash
	Side             *side // the list next to the page; may be nil
	Login            bool  // the person can log out
}

// page is an entry of the navigation. Pages of one Group are listed together, Icon is a key of
// icons, Key opens the page after g, and Dock pages appear in the bar on phones.
type page struct {
	Name, Path, Title string
	Group, Icon, Key  string
	Dock              bool
}

// pages is the navigation, in order.
var pages = []page{
	{Name: "overview", Path: pathOverview, Title: "Overview", Icon: "overview", Key: "o", Dock: true},
	{Name: "inbox", Path: pathInbox, Title: "Inbox", Icon: "inbox", Key: "i", Dock: true},
	{Name: "workers", Path: pathWorkers, Title: "Workers", Icon: "workers", Key: "w", Dock: true},
	{Name: "history", Path: pathHistory, Title: "History", Group: "Records", Icon: "history", Key: "h", Dock: true},
	{Name: "timeline", Path: pathTimeline, Title: "Timeline", Group: "Records", Icon: "timeline", Key: "t"},
	{Name: "insights", Path: pathInsights, Title: "Insights", Group: "Records", Icon: "insights", Key: "n"},
	{Name: "audit", Path: pathAudit, Title: "Audit", Group: "Records", Icon: "audit", Key: "a"},
	{Name: "policy", Path: pathPolicy, Title: "Policy", Group: "Rules", Icon: "policy", Key: "p"},
	{Name: "standing", Path: pathStanding, Title: "Standing approvals", Group: "Rules", Icon: "standing", Key: "s"},
}

// count is the number next to a navigation entry.
type count struct {
	N          int
	Tone, What string
}

// flash reports the outcome of what the person did.
type flash struct {
	Tone string // good, bad
	Text string
	Next string // address of the next approval request, or ""
}

func (in *Console) shell(r *http.Request, p *gateway.Peer, nav, title string) shell {
	s := shell{
		Title: title, Nav: nav, Pages: pages, Who: p.Name, Space: string(p.Space.ID), Role: gateway.RoleList(p.Roles), CSRF: p.CSRF, Now: in.now(),
		CSS: in.assets.url(styleFile), JS: in.assets.url("app.js"), Icon: in.assets.url("icon.svg"),
		Approver: p.Has(toolcall.RoleApprover), Operator: p.Has(toolcall.RoleOperator), Login: p.CSRF != "",
	}
	s.addCounts(r.Context(), p)
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "dark" || c.Value == "light") {
		s.Theme = c.Value
	}
	return s
}

// addCounts adds what is waiting for people. A page also works without the counts.
func (s *shell) addCounts(ctx context.Context, p *gateway.Peer) {
	c, err := p.Reader()
	if err != nil {
		return
	}
	load, err := c.Load(ctx, toolcall.LoadRequest{V: 1})
	if err != nil {
		return
	}
	s.Open = load.Open
	s.Counts = map[string]count{"inbox": {s.Open, "ask", "open"}}
}

// write replies with a page, or writes nothing if rendering fails.
func (in *Console) write(w http.ResponseWriter, status int, name string, view any) error {
	var b bytes.Buffer
	if err := in.pages.ExecuteTemplate(&b, name, view); err != nil {
		return message.Errorf(message.CodeInternal, "page "+name, "%w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	w.WriteHeader(status)
	_, err := w.Write(b.Bytes())
	return err
}

//go:embed assets
var assetFiles embed.FS

// assetPath is the folder of assets. The folder below it is named after their content.
const assetPath = "/assets/"

// styleFile contains all style sheets, sorted by name.
const styleFile = "console.css"

// assets are the files that pages use.
type assets struct {
	build string // hash of all content: a new build has new addresses
	files map[string][]byte
}

var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

func loadAssets() *assets {
	a := &assets{files: map[string][]byte{}}
	sum := sha256.New()
	entries, _ := assetFiles.ReadDir("assets")
	for _, e := range entries { // sorted by name
		b, _ := assetFiles.ReadFile("assets/" + e.Name())
		sum.Write([]byte(e.Name() + "\x00"))
		sum.Write(b)
		if path.Ext(e.Name()) == ".css" {
			a.files[styleFile] = append(append(a.files[styleFile], b...), '\n')
			continue
		}
		a.files[e.Name()] = b
	}
	a.build = hex.EncodeToString(sum.Sum(nil)[:8])
	return a
}

func (a *assets) url(name string) string { return assetPath + a.build + "/" + name }

// asset serves an asset. Its address changes with its content, so caches may keep it.
func (in *Console) asset(w http.ResponseWriter, r *http.Request, _ *gateway.Peer) error {
	name := r.PathValue("file")
	b, ok := in.assets.files[name]
	if !ok || r.PathValue("build") != in.assets.build {
		return &message.Error{Code: message.CodeNotFound, Op: "asset", What: "this server has no such file", Hint: "load the page again"}
	}
	h := w.Header()
	h.Set("Content-Type", contentTypes[path.Ext(name)])
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	_, err := w.Write(b)
	return err
}

func functions() template.FuncMap {
	return template.FuncMap{
		"line":     func(s any) template.HTML { return markup(reveal.Line(fmt.Sprint(s))) },
		"text":     func(s any) template.HTML { return markup(reveal.Text(fmt.Sprint(s))) },
		"prose":    func(s any) template.HTML { return highlight(joinEmoji(reveal.Text(fmt.Sprint(s)))) }, // for what people only read, in the order of its language
		"name":     nameOf,
		"icon":     icon,
		"about":    aboutCall,
		"safe":     markup, // for text that package asked or reveal has already made visible
		"base":     path.Base,
		"time":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"sentence": sentence,
		"clock":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"day":      func(t time.Time) string { return t.UTC().Format("01-02 15:04:05") },
		"ago":      func(t, now time.Time) string { return asked.Span(now.Sub(t)) + " ago" },
		"since":    func(t, now time.Time) string { return asked.Span(now.Sub(t)) },
		"until":    asked.Until,
		"span":     asked.Span,
		"inc":      func(i int) int { return i + 1 },
		"plural":   asked.Count,
		"initial":  initial,
		"send":     func(p *panel, label, tone, next string) button { return button{p, label, tone, next} },
		"scopes":   scopes,
		"lasts":    func() []choice { return lasts },
		"limits":   asked.Limits,
		"short":    shortHash,
		"tally":    func(n uint64, what string) string { return asked.Count(int(min(n, math.MaxInt32)), what) },
		"median":   medianOf,
		"tookms":   tookMS,
		"rowIn":    func(s *side, r row) rowIn { return rowIn{r, s.Now, s.Can && s.Filter.Show == showOpen} },
		"riskTone": riskTone,
		"laid":     func(s string) template.HTML { return markup(asked.Laid(s)) },
		"number":   asked.Number,
		"foldAt":   foldAt,
		"foldDiff": foldDiff,
		"revealed": reveal.Text,
	}
}

// oddMarks matches how package reveal writes misleading characters. No input can imitate it,
// because reveal also marks the brackets.
var oddMarks = regexp.MustCompile(`(‹(U\+[0-9A-F]{4,6}|0x[0-9A-F]{2})›)+`)

// rightToLeft matches text that browsers write from right to left.
var rightToLeft = func() *regexp.Regexp {
	const letter = `\x{590}-\x{8ff}\x{fb1d}-\x{fdff}\x{fe70}-\x{fefc}\x{10800}-\x{10fff}\x{1e800}-\x{1efff}`
	return regexp.MustCompile(`[` + letter + `]([` + letter + ` ,.!?]*[` + letter + `])?`)
}()

// markup makes HTML from a text of package reveal. Everything is in its order from left to right:
// text from right to left is isolated, so it does not move what is next to it.
func markup(revealed string) template.HTML {
	return template.HTML(rightToLeft.ReplaceAllString(string(highlight(revealed)), `<bdi dir="rtl">$0</bdi>`)) //nolint:gosec // only text has such letters
}

// highlight makes HTML with highlighted marks, and counts equal ones in a row.
func highlight(revealed string) template.HTML {
	title := ` title="an invisible character, or one that looks like another"`
	return template.HTML(oddMarks.ReplaceAllStringFunc(template.HTMLEscapeString(revealed), func(marks string) string { //nolint:gosec // all was escaped
		var b strings.Builder
		b.WriteString("<mark" + title + ">")
		title = "" // a text can have thousands of marks
		for n := 1; marks != ""; n++ {
			name, rest, _ := strings.Cut(strings.TrimPrefix(marks, "‹"), "›")
			if marks = rest; strings.HasPrefix(marks, "‹"+name+"›") {
				continue
			}
			if b.WriteString(name); n > 1 {
				fmt.Fprintf(&b, "&nbsp;×%d", n)
			}
			if n = 0; marks != "" {
				b.WriteByte(' ')
			}
		}
		b.WriteString("</mark>")
		return b.String()
	}))
}

// shortHash is the start of a digest, for people to compare.
func shortHash(digest string) string {
	_, hash, ok := strings.Cut(digest, ":")
	if !ok {
		hash = digest
	}
	return hash[:min(12, len(hash))]
}

// nameOf shows the name of a person or program. A word that mixes alphabets gets a subtle hint.
func nameOf(v any) template.HTML {
	name := fmt.Sprint(v)
	shown := markup(reveal.Name(name))
	if reveal.Mixed(name) {
		return `<span class="mixed" title="mixes letters of several alphabets">` + shown + `</span>`
	}
	return shown
}

// initial is the letter on a person's badge.
func initial(name string) string {
	for _, r := range reveal.Name(name) {
		return strings.ToUpper(string(r))
	}
	return "?"
}

// domID names a call in pages and events, because call ids may contain any character.
func domID(k toolcall.Key) string {
	sum := sha256.Sum256([]byte(k.IdempotencyKey()))
	return "c" + hex.EncodeToString(sum[:8])
}

// setParams sets parameters, which are given in pairs. An empty value removes its parameter.
func setParams(q url.Values, pairs ...string) url.Values {
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Del(pairs[i])
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

// withParams returns the address of a page with parameters, if there are any.
func withParams(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// address returns the page of a call. more has further parameters in pairs.
func address(k toolcall.Key, base url.Values, more ...string) string {
	q := url.Values{}
	maps.Copy(q, base)
	setParams(q, "session", string(k.Session), "reply", string(k.Reply), "call", string(k.Call))
	return withParams(pathCall, setParams(q, more...))
}

func keyOf(q url.Values, space toolcall.SpaceID) (toolcall.Key, error) {
	k := toolcall.Key{Space: space, Session: message.SessionID(q.Get("session")), Reply: message.ReplyID(q.Get("reply")), Call: message.CallID(q.Get("call"))}
	if k.Session == "" || k.Reply == "" || k.Call == "" {
		return k, &message.Error{Code: message.CodeInvalid, What: "the address names no call", Hint: "open the call from the inbox or the history"}
	}
	return k, k.Validate()
}

func capitalize(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToUpper(first)) + s[n:]
}

// sentence capitalizes a text and ends it with a period.
func sentence(s string) string {
	if s = capitalize(s); s == "" {
		return s
	}
	if strings.ContainsAny(s[len(s)-1:], ".!?:") {
		return s
	}
	return s + "."
}

// iconPaths has a line for each icon: its name and its SVG path, for a 1.8 wide stroke in a 24 by 24 box.
//
//go:embed icons.txt
var iconPaths string

// icon renders an icon. Icons are decoration: the text next to each names it.
func icon(name string) template.HTML {
	_, path, _ := strings.Cut("\n"+iconPaths, "\n"+name+" ")
	path, _, _ = strings.Cut(path, "\n")
	return template.HTML(`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d="` + template.HTMLEscapeString(path) + `"/></svg>`) //nolint:gosec // the paths are ours
}
