// Package api is askance's own API over HTTP: REST with JSON, server-sent events,
// and an OpenAPI 3.1 document that is made from the types and the table that serve
// it.
//
//	gateway.Config{Surfaces: []gateway.Surface{api.New(api.Config{Version: "1.2.0"})}}
//
// It uses the names of the requests in package toolcall. A path names a call,
// /v1/calls/{session_id}/{reply_id}/{tool_call_id}; the credentials determine the space. API.md
// is the guide.
//
// # Guarantees
//
//   - Unknown members, unknown or repeated query parameters and wrong types are
//     refused before anything is done. The error says where and how to fix it.
//   - The author of a response is the authenticated peer: no body or parameter
//     names a person.
//   - The parameter as selects one of the roles of the credentials; it grants none.
//   - A request with an Idempotency-Key is carried out once. Sent again within a
//     day it gets the first reply; with other content it is refused. After a
//     restart, or when too many are stored, it is carried out again, which is
//     harmless: a proposal returns the current state, and a response that is on
//     record returns the call. A begin is always carried out again, because the
//     call may have ended meanwhile; its claim makes that safe.
//   - Errors are problem details (RFC 9457) with a closed list of codes.
//   - An event stream continues from Last-Event-ID without a gap or a duplicate.
package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/message"
	operation "github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// Config configures the API.
type Config struct {
	Version  string   // of askance, for the OpenAPI document
	Webhooks Webhooks // serves dead letters; nil: there are none
}

// API is the surface. It is safe for concurrent use.
type API struct {
	ops  []*op
	spec []byte // the OpenAPI document
	page []byte // the page for people
}

// New makes the API.
func New(cfg Config) (*API, error) {
	a := &API{ops: operations(newReplies(), cfg.Webhooks)}
	var err error
	if a.spec, err = documentOf(cfg.Version); err != nil {
		return nil, err
	}
	a.page, err = makePage(a.ops, a.spec)
	return a, err
}

func operations(keep *replies, hooks Webhooks) []*op {
	return slices.Concat(tableOps(keep), spaceOps(), hookOps(keep, hooks))
}

// OpenAPI returns the OpenAPI 3.1 document.
func (a *API) OpenAPI() []byte { return a.spec }

// Routes implements gateway.Surface.
func (a *API) Routes() []gateway.Route {
	out := make([]gateway.Route, 0, len(a.ops)+2)
	for _, o := range a.ops {
		out = append(out, o.route())
	}
	return append(out,
		static("/openapi.json", "application/json", "Read the OpenAPI 3.1 document of this API.", a.spec),
		static("/docs", "text/html; charset=utf-8", "Read the reference of this API.", a.page),
	)
}

func static(path, kind, doc string, body []byte) gateway.Route {
	return gateway.Route{Method: http.MethodGet, Path: path, Access: gateway.Everybody, Doc: doc, Serve: func(w http.ResponseWriter, _ *http.Request, _ *gateway.Peer) error {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		_, _ = w.Write(body) // the peer may be gone
		return nil
	}}
}

// spaceOps are operations that only HTTP has.
func spaceOps() []*op {
	return []*op{
		newRead(operation.HTTP{ID: "whoami", Path: "/v1/whoami", Tag: "space",
			Summary: "Show your identity", Doc: "Returns the name, space and roles of the credentials, and when they expire."}, slices.Concat(asReader, []toolcall.Role{toolcall.RoleWorker}), whoami),
		newRead(operation.HTTP{ID: "listTools", Path: "/v1/tools", Tag: "space",
			Summary: "List tools", Doc: "Lists the tools of the space with the JSON Schemas of their arguments."}, asReader, tools),
		watchOp(),
	}
}

func whoami(a *ask) (WhoamiReply, error) {
	return WhoamiReply{Name: a.p.Name, Space: a.p.Space.ID, Roles: a.p.Roles, Auth: a.p.Auth, Expires: a.p.Expires}, nil
}

func tools(a *ask) (ToolsReply, error) {
	out := ToolsReply{Tools: make([]Tool, len(a.p.Space.Tools))}
	for i, t := range a.p.Space.Tools {
		out.Tools[i] = Tool{Name: t.Name, Description: t.Description, Placement: t.Placement, InputSchema: t.Schema.JSON()}
		if t.Placement == "" {
			out.Tools[i].Placement = toolcall.PlaceLocal
		}
	}
	slices.SortFunc(out.Tools, func(x, y Tool) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
}

// Tool is a tool of the space.
type Tool struct {
	Name        string             `json:"name"`
	Description string             `json:"description,omitzero"`
	Placement   toolcall.Placement `json:"placement"`
	InputSchema message.RawJSON    `json:"input_schema,omitzero"` // JSON Schema of the arguments
}

// ToolsReply lists the tools by name.
type ToolsReply struct {
	Tools []Tool `json:"tools"`
}

// WhoamiReply describes the credentials.
type WhoamiReply struct {
	Name    string           `json:"name"`
	Space   toolcall.SpaceID `json:"space"`
	Roles   []toolcall.Role  `json:"roles"`
	Auth    string           `json:"auth"` // how the name was authenticated; votes record it
	Expires time.Time        `json:"expires,omitzero"`
}

// ChangeEvent is the data of an event of GET /v1/calls/stream.
type ChangeEvent struct {
	Seq  uint64             `json:"seq"`
	Kind string             `json:"kind"`             // the last transition
	By   toolcall.Principal `json:"by,omitzero"`      // who caused it
	At   time.Time          `json:"at"`               // when
	Call *toolcall.Call     `json:"call"`             // its state after it
	Wait *toolcall.Waiting  `json:"waiting,omitzero"` // what its open approval request waits for
}

// DeadLettersReply lists dead letters.
type DeadLettersReply struct {
	DeadLetters []toolcall.DeadLetter `json:"dead_letters"`
}

// FateReply is the new state of a dead letter.
type FateReply struct {
	Fate webhook.Fate `json:"fate" jsonschema:"enum=delivered,enum=stale,enum=dropped"`
}

// Webhooks has the dead letters of one space, as *webhook.Webhooks does. It is safe
// for concurrent use.
type Webhooks interface {
	Space() toolcall.SpaceID
	DeadLetters(ctx context.Context) ([]toolcall.DeadLetter, error)
	// Retry makes one more attempt now; Drop deletes a dead letter.
	Retry(ctx context.Context, destination string, seq uint64) (webhook.Fate, error)
	Drop(ctx context.Context, destination string, seq uint64) (webhook.Fate, error)
}

const deadLetterPath = "/v1/webhooks/dead/{destination}/{seq}"

func hookOps(keep *replies, hooks Webhooks) []*op {
	return []*op{
		newRead(operation.HTTP{ID: "listDeadLetters", Path: "/v1/webhooks/dead", Tag: "webhooks",
			Summary: "List dead letters of webhooks", Doc: "Lists messages that a destination did not accept in any attempt, with the error of the last one."}, asOperator, func(a *ask) (DeadLettersReply, error) {
			if err := a.checkWebhooks(hooks); err != nil {
				return DeadLettersReply{}, err
			}
			all, err := hooks.DeadLetters(a.ctx())
			return DeadLettersReply{DeadLetters: append([]toolcall.DeadLetter{}, all...)}, err
		}),
		newChange(operation.HTTP{ID: "retryDeadLetter", Method: http.MethodPost, Path: deadLetterPath + "/retry", Tag: "webhooks",
			Summary: "Retry a dead letter of a webhook", Doc: "Makes one more attempt. If the destination does not accept the message, the reply is the error unavailable with the reason, and the dead letter stays. A message about an approval request that is no longer open is dropped, with the fate stale."}, asOperator, keep, deadLetterOp(hooks, func(a *ask, to string, seq uint64) (webhook.Fate, error) {
			return hooks.Retry(a.ctx(), to, seq)
		})),
		newChange(operation.HTTP{ID: "dropDeadLetter", Method: http.MethodDelete, Path: deadLetterPath, Tag: "webhooks",
			Summary: "Drop a dead letter of a webhook", Doc: "Deletes the dead letter. Its message is never sent."}, asOperator, keep, deadLetterOp(hooks, func(a *ask, to string, seq uint64) (webhook.Fate, error) {
			return hooks.Drop(a.ctx(), to, seq)
		})),
	}
}

// checkWebhooks refuses a request where the space of the credentials has no webhooks.
func (a *ask) checkWebhooks(hooks Webhooks) error {
	e := &message.Error{Code: message.CodeNotFound, Op: a.op.ID, Hint: "name destinations with askance serve --webhooks"}
	switch {
	case hooks == nil:
		e.What = "this server has no webhooks"
	case hooks.Space() != a.p.Space.ID:
		e.What = "this space has no webhooks"
	default:
		return nil
	}
	return e
}

// deadLetterOp makes an operation on the dead letter that the path names.
func deadLetterOp(hooks Webhooks, do func(a *ask, destination string, seq uint64) (webhook.Fate, error)) func(*ask) (FateReply, error) {
	return func(a *ask) (FateReply, error) {
		if err := a.checkWebhooks(hooks); err != nil {
			return FateReply{}, err
		}
		seq, err := strconv.ParseUint(a.r.PathValue("seq"), 10, 64)
		if err != nil {
			return FateReply{}, &message.Error{Code: message.CodeInvalid, Op: a.op.ID, What: "seq is not a number", Hint: "use a seq that GET /v1/webhooks/dead lists"}
		}
		fate, err := do(a, a.r.PathValue("destination"), seq)
		return FateReply{fate}, err
	}
}
