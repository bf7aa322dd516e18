// Package inbox is the web inbox: the open approval requests of a space in a browser,
// each with what its answer binds, and the means to answer it.
//
//	gateway.New(gateway.Config{Surfaces: []gateway.Surface{inbox.New()}, …})
//
// Pages are made on the server (html/template) and work without a script for
// looking, approving and rejecting. A small script of our own makes them live:
// a stream of server-sent events says that something has changed, the script
// asks for the same page again and exchanges what differs. INBOX.md is for
// users.
//
// # Guarantees
//
//   - What strangers wrote (arguments, names, reasons, output) is text, never
//     markup, and characters that mislead are visible (internal/reveal).
//   - An answer carries the digest of the approval request that was on the page. If the
//     approval request has been resolved or asked anew meanwhile, nothing is sent on and
//     the page says who was first and how.
//   - Before an approval request is shown for an answer, its digest is computed from what
//     is shown.
//   - The pages load nothing from elsewhere and run nothing inline: the content
//     security policy allows our own files only.
//
// # What it does not do
//
// It keeps nothing but the last progress lines of running calls, in memory. Who
// somebody is, and whether a request that changes something came from one of
// these pages, is checked by package gateway.
package inbox

import (
	"html/template"
	"net/http"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/toolcall"
)

// Inbox is the surface. Make one with New. It may be used from many goroutines.
type Inbox struct {
	pages    *template.Template
	assets   *assets
	progress *progress
	now      func() time.Time
	links    *webhook.Links // nil: none lead here
}

// Option changes the inbox.
type Option func(*Inbox)

// WithLinks has the inbox take the links of webhooks. nil is none.
func WithLinks(l *webhook.Links) Option { return func(in *Inbox) { in.links = l } }

// New makes the inbox.
func New(opts ...Option) *Inbox {
	a := loadAssets()
	in := &Inbox{pages: loadPages(), assets: a, progress: newProgress(), now: time.Now}
	for _, o := range opts {
		o(in)
	}
	return in
}

// people are those for whom the inbox is. A runtime has a surface of its own.
var people = gateway.Only(toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor)

// Paths of the inbox.
const (
	pathList    = "/"
	pathCall    = "/inbox/call"
	pathRules   = "/inbox/rules"
	pathFigures = "/inbox/figures"
)

// Routes implements gateway.Surface.
func (in *Inbox) Routes() []gateway.Route {
	get := func(path, doc string, h gateway.Handler) gateway.Route {
		return gateway.Route{Method: http.MethodGet, Path: path, Access: people, Serve: h, Doc: doc}
	}
	post := func(path string, who gateway.Access, doc string, h gateway.Handler) gateway.Route {
		return gateway.Route{Method: http.MethodPost, Path: path, Access: who, Serve: h, Doc: doc}
	}
	approvers, operators := gateway.Only(toolcall.RoleApprover), gateway.Only(toolcall.RoleOperator)
	both := gateway.Only(toolcall.RoleApprover, toolcall.RoleOperator)
	check := post("/inbox/check", approvers, "Check edited arguments before they are sent.", in.check)
	check.Safe = true
	stream := get("/inbox/events", "Send changes as server-sent events.", in.events)
	stream.Stream = true
	return []gateway.Route{
		get("/{$}", "The page of open approval requests.", in.list),
		get(pathCall, "The page of one call.", in.call),
		get(webhook.LinkPath, "The page of an approval request, with the response of a link prepared.", in.fromLink),
		get(pathRules, "The page of standing approvals.", in.rules),
		get(pathFigures, "The page of requests, outcomes and response times.", in.figures),
		stream,
		check,
		post("/inbox/response", approvers, "Respond to an approval request.", in.answer),
		post("/inbox/resolve", operators, "Resolve a blocked call.", in.resolve),
		post("/inbox/revoke", both, "Revoke an allowed call that has not started.", in.revoke),
		post("/inbox/interrupt", both, "Interrupt every open call of a reply.", in.interrupt),
		post("/inbox/rules/revoke", both, "Revoke a standing approval.", in.revokeRule),
		{Method: http.MethodGet, Path: assetPath + "{build}/{file}", Access: gateway.Everybody, Serve: in.asset, Doc: "Style, script and icon of the inbox."},
	}
}
