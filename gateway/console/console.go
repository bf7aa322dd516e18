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
	"html/template"
	"net/http"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/webhook"
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
	in := &Console{pages: loadPages(), assets: a, progress: &progress{lines: map[toolcall.Key][]line{}}, now: time.Now}
	for _, o := range opts {
		o(in)
	}
	return in
}

// people are the roles that can use the console.
var people = gateway.Only(toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor)

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
		return gateway.Route{Method: http.MethodGet, Path: path, Access: people, Serve: h, Doc: doc}
	}
	post := func(path string, who gateway.Access, doc string, h gateway.Handler) gateway.Route {
		return gateway.Route{Method: http.MethodPost, Path: path, Access: who, Serve: h, Doc: doc}
	}
	approvers, operators := gateway.Only(toolcall.RoleApprover), gateway.Only(toolcall.RoleOperator)
	both := gateway.Only(toolcall.RoleApprover, toolcall.RoleOperator)
	check := post("/inbox/check", approvers, "Check edited arguments before sending them.", in.check)
	check.Safe = true
	try := post(pathPolicy, people, "Try the policy on a call without proposing it.", in.tryCall)
	try.Safe = true
	stream := get("/inbox/events", "Follow changes of calls.", in.events)
	stream.Stream = true
	export := get(pathExport, "Download finished calls as CSV or JSON.", records{in}.exportHistory)
	export.Stream = true
	prove := post(pathAudit, people, "Verify the journal or check a receipt.", records{in}.audit)
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
		post("/audit/receipt", people, "Download the receipt of a call.", records{in}.receipt),
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
		post("/standing/revoke", both, "Revoke a standing approval.", in.revokeRule),
		{Method: http.MethodGet, Path: assetPath + "{build}/{file}", Access: gateway.Everybody, Serve: in.asset, Doc: "Load the style, script and icon of the console."},
	}
}
