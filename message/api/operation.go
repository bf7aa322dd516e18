// Package api is the table of the operations that askance offers.
//
// A row defines an operation's name, request, reply, roles, capacity and transports.
// [Table] returns every row. The in-process engine, the NATS service and client, the HTTP
// API with its OpenAPI document, and the documentation are all built from it.
//
//	reply, err := api.List.Call(ctx, client, toolcall.ListRequest{})
//
// A transport is a [Caller]. [Methods] adds one method per operation, which makes it a
// [Client].
//
// # How to add an operation
//
// Declare its request, its reply and its row here, add the row to the table, and
// implement it in package engine. Tests fail until every transport of the row has it.
//
// # What it does not do
//
// It decides and checks nothing; the engine checks the role.
package api

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Caller carries out operations for one principal. It is safe for concurrent use. request
// and reply have the types of the row; a reply may be returned with an error.
type Caller interface {
	Call(ctx context.Context, op *Operation, request any) (reply any, err error)
}

// Class is a kind of operation with its own capacity.
type Class int

// The classes.
const (
	ClassStop    Class = iota // stops calls: interrupt, revoke
	ClassPropose              // adds new work: proposals, and events of a turn
	ClassDecide               // finishes work: responses, reports of results, resolutions
	ClassWork                 // belongs to a worker that runs a call
	ClassRead                 // reads and replies immediately
	ClassWait                 // reads, and waits for changes
	ClassOffer                // a worker waits for a task
)

// Classes lists all classes, in the order of their values.
var Classes = []Class{ClassStop, ClassPropose, ClassDecide, ClassWork, ClassRead, ClassWait, ClassOffer}

func (c Class) String() string {
	return [...]string{"stop", "propose", "decide", "work", "read", "wait", "offer"}[c]
}

// Holds reports whether an operation of the class may wait for changes.
func (c Class) Holds() bool { return c == ClassWait || c == ClassOffer }

// Operation is a row of the table.
type Operation struct {
	Name  string // on NATS, in errors and in logs
	Class Class
	// Roles may use it. A peer with several roles acts in the first of these that it has.
	Roles   []toolcall.Role
	Changes bool // whether it can write
	// Repeatable requests name themselves. HTTP carries out a repeated one again instead of sending
	// the first reply, which may be out of date.
	Repeatable bool
	// NATS maps each role to the kind of its subject; it is empty if not offered over NATS.
	NATS map[toolcall.Role]string
	HTTP *HTTP // the route; nil if not offered over HTTP

	request, reply reflect.Type
	version        []int // the field of the request's version; nil if none
	decode         func(parts [][]byte, limit strictjson.Option) (any, error)
	decodeReply    func([]byte, strictjson.Option) (any, error)
	hold           func(request any, longest int64) any
	halve          func(request, reply any) (any, bool)
	check          func(request any) error
}

// HTTP is the route of an operation.
type HTTP struct {
	ID           string // in the OpenAPI document
	Method, Path string // Path contains members of the request
	Tag          string
	Summary, Doc string
	Params       []Param // the members of the request in the query
	Stream       bool    // whether it can reply with server-sent events
}

// Param is a query parameter.
type Param struct {
	Name   string
	Member string // of the request; "": the name of the parameter
	Doc    string
	Type   string // string, integer, boolean
	Many   bool   // whether it may be repeated
	Words  []string
}

// Op is an operation with its types.
type Op[Req, Rep any] struct{ *Operation }

// Define adds the types of request and reply to a row.
func Define[Req, Rep any](o Operation) Op[Req, Rep] {
	o.request, o.reply = reflect.TypeFor[Req](), reflect.TypeFor[Rep]()
	if f, ok := o.request.FieldByName("V"); ok {
		o.version = f.Index
	}
	o.decode = func(parts [][]byte, limit strictjson.Option) (any, error) {
		var r Req
		for _, p := range parts {
			if err := strictjson.Unmarshal(p, &r, limit); err != nil {
				return nil, err
			}
		}
		return r, nil
	}
	o.decodeReply = func(data []byte, limit strictjson.Option) (any, error) {
		var r Rep
		err := strictjson.UnmarshalOpen(data, &r, limit)
		return r, err
	}
	return Op[Req, Rep]{&o}
}

// withHold sets the request's field for how long it may be held, in milliseconds. With
// always, 0 means as long as possible.
func (o Op[Req, Rep]) withHold(at func(*Req) *int64, always bool) Op[Req, Rep] {
	o.hold = func(request any, longest int64) any {
		r, ok := request.(Req)
		if ms := at(&r); ok && (*ms > longest || always && *ms <= 0) {
			*ms = longest
		}
		return r
	}
	return o
}

// withPages sets the request's field for the page size, and the function that counts the
// items of a reply.
func (o Op[Req, Rep]) withPages(limit func(*Req) *int, count func(Rep) int) Op[Req, Rep] {
	o.halve = func(request, reply any) (any, bool) {
		r, _ := request.(Req)
		rep, ok := reply.(Rep)
		n := limit(&r)
		if has := count(rep); *n <= 0 || *n > has {
			*n = has
		}
		if !ok || *n <= 1 {
			return nil, false
		}
		*n /= 2
		return r, true
	}
	return o
}

// withCheck sets the check of requests from outside.
func (o Op[Req, Rep]) withCheck(check func(Req) error) Op[Req, Rep] {
	o.check = func(request any) error {
		r, _ := request.(Req)
		return check(r)
	}
	return o
}

// Call carries out the operation.
func (o Op[Req, Rep]) Call(ctx context.Context, c Caller, r Req) (Rep, error) {
	out, err := c.Call(ctx, o.Operation, r)
	rep, ok := out.(Rep)
	if err == nil && !ok {
		err = &message.Error{Code: message.CodeInternal, Op: o.Name, What: fmt.Sprintf("the reply is a %T", out)}
	}
	return rep, err
}

// Types returns the types of request and reply; an empty struct means none.
func (o *Operation) Types() (request, reply reflect.Type) { return o.request, o.reply }

// Version returns the version of a request, or 0.
func (o *Operation) Version(request any) int {
	v := reflect.ValueOf(request)
	if o.version == nil || v.Type() != o.request {
		return 0
	}
	return int(v.FieldByIndex(o.version).Int())
}

// Decode strictly decodes a request of at most most bytes. Later parts add members to earlier
// ones.
func (o *Operation) Decode(most int, parts ...[]byte) (any, error) {
	return o.decode(parts, strictjson.MaxBytes(most))
}

// DecodeReply decodes a reply of at most most bytes, ignoring unknown members.
func (o *Operation) DecodeReply(most int, data []byte) (any, error) {
	return o.decodeReply(data, strictjson.MaxBytes(most))
}

// Hold limits how long a request may be held, if its operation holds requests.
func (o *Operation) Hold(request any, longestMS int64) any {
	if o.hold == nil {
		return request
	}
	return o.hold(request, longestMS)
}

// Halve returns a request for half the page after a reply that was too large, or false if
// that is impossible.
func (o *Operation) Halve(request, reply any) (any, bool) {
	if o.halve == nil {
		return nil, false
	}
	return o.halve(request, reply)
}

// Check refuses requests that only askance's own programs may send.
func (o *Operation) Check(request any) error {
	if o.check == nil {
		return nil
	}
	return o.check(request)
}

// Client is what a runtime, an approver's surface or an operator works with: the
// operations of the table as methods. All methods may be called from many goroutines.
// Errors are *message.Error.
type Client interface {
	Caller
	Propose(ctx context.Context, r toolcall.ProposeRequest) (toolcall.ProposeReply, error)
	Wait(ctx context.Context, r toolcall.WaitRequest) (toolcall.WaitReply, error)
	Emit(ctx context.Context, r toolcall.EmitRequest) (toolcall.EmitReply, error)
	Events(ctx context.Context, r toolcall.EventsRequest) (toolcall.EventsReply, error)
	Begin(ctx context.Context, r toolcall.BeginRequest) (*toolcall.Call, error)
	Report(ctx context.Context, r toolcall.ReportRequest) (*toolcall.Call, error)
	SubmitResponse(ctx context.Context, r toolcall.Response) (*toolcall.Call, error)
	Interrupt(ctx context.Context, r toolcall.InterruptRequest) (toolcall.InterruptReply, error)
	Resolve(ctx context.Context, r toolcall.ResolveRequest) (*toolcall.Call, error)
	Revoke(ctx context.Context, r toolcall.RevokeRequest) (*toolcall.Call, error)
	List(ctx context.Context, r toolcall.ListRequest) (toolcall.ListReply, error)
	Show(ctx context.Context, r toolcall.ShowRequest) (toolcall.ShowReply, error)
	Info(ctx context.Context) (toolcall.InfoReply, error)
	Load(ctx context.Context, r toolcall.LoadRequest) (toolcall.LoadReply, error)
	Activity(ctx context.Context, r toolcall.ActivityRequest) (toolcall.ActivityReply, error)
	StandingApprovals(ctx context.Context, r toolcall.StandingApprovalsRequest) (toolcall.StandingApprovalsReply, error)
	ShowStandingApproval(ctx context.Context, r toolcall.ShowStandingApprovalRequest) (toolcall.ShowStandingApprovalReply, error)
	RevokeStandingApproval(ctx context.Context, r toolcall.RevokeStandingApprovalRequest) (*toolcall.StandingApproval, error)
	Explain(ctx context.Context, r toolcall.ExplainRequest) (toolcall.ExplainReply, error)
}

// Methods makes a Client from a Caller.
type Methods struct{ Caller }

var _ Client = Methods{}

// Propose calls the operation.
func (m Methods) Propose(ctx context.Context, r toolcall.ProposeRequest) (toolcall.ProposeReply, error) {
	return Propose.Call(ctx, m.Caller, r)
}

// Wait calls the operation.
func (m Methods) Wait(ctx context.Context, r toolcall.WaitRequest) (toolcall.WaitReply, error) {
	return Wait.Call(ctx, m.Caller, r)
}

// Emit calls the operation.
func (m Methods) Emit(ctx context.Context, r toolcall.EmitRequest) (toolcall.EmitReply, error) {
	return Emit.Call(ctx, m.Caller, r)
}

// Events calls the operation.
func (m Methods) Events(ctx context.Context, r toolcall.EventsRequest) (toolcall.EventsReply, error) {
	return Events.Call(ctx, m.Caller, r)
}

// Begin calls the operation.
func (m Methods) Begin(ctx context.Context, r toolcall.BeginRequest) (*toolcall.Call, error) {
	return Begin.Call(ctx, m.Caller, r)
}

// Report calls the operation.
func (m Methods) Report(ctx context.Context, r toolcall.ReportRequest) (*toolcall.Call, error) {
	return Report.Call(ctx, m.Caller, r)
}

// SubmitResponse calls the operation.
func (m Methods) SubmitResponse(ctx context.Context, r toolcall.Response) (*toolcall.Call, error) {
	return SubmitResponse.Call(ctx, m.Caller, r)
}

// Interrupt calls the operation.
func (m Methods) Interrupt(ctx context.Context, r toolcall.InterruptRequest) (toolcall.InterruptReply, error) {
	return Interrupt.Call(ctx, m.Caller, r)
}

// Resolve calls the operation.
func (m Methods) Resolve(ctx context.Context, r toolcall.ResolveRequest) (*toolcall.Call, error) {
	return Resolve.Call(ctx, m.Caller, r)
}

// Revoke calls the operation.
func (m Methods) Revoke(ctx context.Context, r toolcall.RevokeRequest) (*toolcall.Call, error) {
	return Revoke.Call(ctx, m.Caller, r)
}

// List calls the operation.
func (m Methods) List(ctx context.Context, r toolcall.ListRequest) (toolcall.ListReply, error) {
	return List.Call(ctx, m.Caller, r)
}

// Show calls the operation.
func (m Methods) Show(ctx context.Context, r toolcall.ShowRequest) (toolcall.ShowReply, error) {
	return Show.Call(ctx, m.Caller, r)
}

// Info calls the operation.
func (m Methods) Info(ctx context.Context) (toolcall.InfoReply, error) {
	return Info.Call(ctx, m.Caller, struct{}{})
}

// Load calls the operation.
func (m Methods) Load(ctx context.Context, r toolcall.LoadRequest) (toolcall.LoadReply, error) {
	return Load.Call(ctx, m.Caller, r)
}

// Activity calls the operation.
func (m Methods) Activity(ctx context.Context, r toolcall.ActivityRequest) (toolcall.ActivityReply, error) {
	return Activity.Call(ctx, m.Caller, r)
}

// StandingApprovals calls the operation.
func (m Methods) StandingApprovals(ctx context.Context, r toolcall.StandingApprovalsRequest) (toolcall.StandingApprovalsReply, error) {
	return Standings.Call(ctx, m.Caller, r)
}

// ShowStandingApproval calls the operation.
func (m Methods) ShowStandingApproval(ctx context.Context, r toolcall.ShowStandingApprovalRequest) (toolcall.ShowStandingApprovalReply, error) {
	return ShowStandingApproval.Call(ctx, m.Caller, r)
}

// RevokeStandingApproval calls the operation.
func (m Methods) RevokeStandingApproval(ctx context.Context, r toolcall.RevokeStandingApprovalRequest) (*toolcall.StandingApproval, error) {
	return RevokeStandingApproval.Call(ctx, m.Caller, r)
}

// Explain calls the operation.
func (m Methods) Explain(ctx context.Context, r toolcall.ExplainRequest) (toolcall.ExplainReply, error) {
	return Explain.Call(ctx, m.Caller, r)
}

// WorkerMethods are the operations of workers as methods.
type WorkerMethods struct{ Caller }

// Start calls the operation.
func (m WorkerMethods) Start(ctx context.Context, r toolcall.StartRequest) (toolcall.StartReply, error) {
	return Start.Call(ctx, m.Caller, r)
}

// Heartbeat calls the operation.
func (m WorkerMethods) Heartbeat(ctx context.Context, r toolcall.HeartbeatRequest) (toolcall.HeartbeatReply, error) {
	return Heartbeat.Call(ctx, m.Caller, r)
}

// Result calls the operation.
func (m WorkerMethods) Result(ctx context.Context, r toolcall.ResultRequest) (toolcall.ResultReply, error) {
	return Result.Call(ctx, m.Caller, r)
}

// Progress calls the operation.
func (m WorkerMethods) Progress(ctx context.Context, r toolcall.ProgressRequest) error {
	_, err := Progress.Call(ctx, m.Caller, r)
	return err
}

// Encode puts the members of a request into the path, the query or the body, except those that
// the token determines.
func (h *HTTP) Encode(request any) (path string, query url.Values, body []byte, err error) {
	text, err := strictjson.Marshal(request)
	if err != nil {
		return "", nil, nil, err
	}
	members, err := strictjson.Members(text)
	if err != nil {
		return "", nil, nil, err
	}
	path, query = h.Path, url.Values{}
	var rest []strictjson.Member
	for _, m := range members {
		switch place := "{" + m.Name + "}"; {
		case m.Name == "v" || m.Name == "space":
		case strings.Contains(path, place):
			path = strings.ReplaceAll(path, place, url.PathEscape(plainText(m.Value)))
		default:
			rest = append(rest, m)
		}
	}
	for _, p := range h.Params {
		value := strictjson.Find(rest, cmp.Or(p.Member, p.Name))
		if value == nil {
			continue
		}
		values := []strictjson.Member{{Value: value}}
		if p.Many {
			if values, err = strictjson.Items(value); err != nil {
				return "", nil, nil, err
			}
		}
		for _, v := range values {
			query.Add(p.Name, plainText(v.Value))
		}
	}
	if h.Method == "POST" { //nolint:usestdlibvars // net/http would be linked into every client
		body = strictjson.Join(rest)
	}
	return path, query, body, nil
}

// plainText returns a JSON value as a path or a query has it.
func plainText(value []byte) string {
	if text, err := strictjson.Text(value); err == nil {
		return text
	}
	return string(value)
}

// ReadProblem returns the error that an HTTP reply has as problem details, without its Op. It
// returns nil for a reply that is not from askance, such as the page of a proxy.
func ReadProblem(contentType string, body []byte) *message.Error {
	var p struct {
		Detail string          `json:"detail"`
		Code   message.Code    `json:"code"`
		Hint   string          `json:"hint"`
		Call   message.RawJSON `json:"call"`
	}
	media, _, _ := strings.Cut(contentType, ";")
	if media != "application/problem+json" || strictjson.UnmarshalOpen(body, &p, strictjson.MaxBytes(len(body))) != nil || p.Code == "" {
		return nil //nolint:nilerr // it is not from askance
	}
	return &message.Error{Code: p.Code, What: p.Detail, Hint: p.Hint, Call: p.Call}
}
