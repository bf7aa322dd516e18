// Package api is the table of the operations that askance offers.
//
// A row says of one operation its name, its request and its reply, who may use
// it, which capacity it takes, and on which transports it exists. [Table] has
// every row. The engine in process, the NATS service and client, the HTTP API
// with its OpenAPI document and the documentation are made by loops over it.
//
//	reply, err := api.List.Call(ctx, client, toolcall.ListRequest{})
//
// A transport is a [Caller]. [Methods] gives it one method per operation, the
// [Client].
//
// # How to add an operation
//
// Declare its request, its reply and its row here, add the row to the table,
// and carry it out in package engine. Tests fail until every transport that the
// row names has it.
//
// # What it does not do
//
// It decides nothing and checks nothing: the engine checks the role.
package api

import (
	"context"
	"fmt"
	"reflect"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Caller carries operations out for one principal. Call may be called from many
// goroutines. request and reply have the types of the row; an error can come
// with a reply.
type Caller interface {
	Call(ctx context.Context, op *Operation, request any) (reply any, err error)
}

// Class is a kind of operation with a capacity of its own.
type Class int

// The classes.
const (
	ClassStop   Class = iota // stops calls: interrupt, revoke
	ClassDecide              // writes what a runtime, approver or operator decides
	ClassWork                // belongs to a worker that runs a call
	ClassRead                // reads and replies at once
	ClassWait                // reads, and rests until there is news
	ClassOffer               // a worker that waits for an item
)

// Classes are all of them, in the order of their values.
var Classes = []Class{ClassStop, ClassDecide, ClassWork, ClassRead, ClassWait, ClassOffer}

func (c Class) String() string {
	return [...]string{"stop", "decide", "work", "read", "wait", "offer"}[c]
}

// Holds reports whether an operation of the class can rest until there is news.
func (c Class) Holds() bool { return c == ClassWait || c == ClassOffer }

// Operation is a row of the table.
type Operation struct {
	Name  string // on NATS, in errors and in logs
	Class Class
	// Roles may use it. A peer with several of them acts in the first.
	Roles   []toolcall.Role
	Changes bool // it can leave something behind
	// NATS names for each role the kind of subject on which it sends the operation;
	// empty: it does not exist over NATS.
	NATS map[toolcall.Role]string
	// HTTP is its route; nil: it does not exist over HTTP.
	HTTP *HTTP

	request, reply reflect.Type
	version        []int // where the request keeps its version; nil: nowhere
	decode         func(parts [][]byte, options []strictjson.Option) (any, error)
	decodeReply    func([]byte, []strictjson.Option) (any, error)
	hold           func(request any, longest int64) any
	halve          func(request, reply any) (any, bool)
	check          func(request any) error
}

// HTTP is the route of an operation.
type HTTP struct {
	// ID names it in the OpenAPI document.
	ID string
	// Method, and Path with the members of the request that stand in it.
	Method, Path string
	Tag          string
	Summary, Doc string
	// Params are the members of the request that stand in the query.
	Params []Param
	// Stream: it can answer with server-sent events.
	Stream bool
}

// Param is a query parameter.
type Param struct {
	Name   string
	Member string // of the request; "": the name of the parameter
	Doc    string
	Type   string // string, integer, boolean
	Many   bool   // it can be given several times
	Words  []string
}

// Op is an operation with its types.
type Op[Req, Rep any] struct{ *Operation }

// Define makes an operation of a row.
func Define[Req, Rep any](o Operation) Op[Req, Rep] {
	o.request, o.reply = reflect.TypeFor[Req](), reflect.TypeFor[Rep]()
	if f, ok := o.request.FieldByName("V"); ok {
		o.version = f.Index
	}
	o.decode = func(parts [][]byte, options []strictjson.Option) (any, error) {
		var r Req
		for _, p := range parts {
			if err := strictjson.Unmarshal(p, &r, options...); err != nil {
				return nil, err
			}
		}
		return r, nil
	}
	o.decodeReply = func(data []byte, options []strictjson.Option) (any, error) {
		var r Rep
		err := strictjson.UnmarshalOpen(data, &r, options...)
		return r, err
	}
	return Op[Req, Rep]{&o}
}

// held says where the request keeps how long it may be held, in milliseconds;
// always: 0 means as long as possible.
func (o Op[Req, Rep]) held(at func(*Req) *int64, always bool) Op[Req, Rep] {
	o.hold = func(request any, longest int64) any {
		r, ok := request.(Req)
		if ms := at(&r); ok && (*ms > longest || always && *ms <= 0) {
			*ms = longest
		}
		return r
	}
	return o
}

// paged says where the request keeps the size of a page, and how many a reply
// has.
func (o Op[Req, Rep]) paged(limit func(*Req) *int, count func(Rep) int) Op[Req, Rep] {
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

// fromOutside sets what a transport refuses of requests from outside.
func (o Op[Req, Rep]) fromOutside(check func(Req) error) Op[Req, Rep] {
	o.check = func(request any) error {
		r, _ := request.(Req)
		return check(r)
	}
	return o
}

// Call carries the operation out.
func (o Op[Req, Rep]) Call(ctx context.Context, c Caller, r Req) (Rep, error) {
	out, err := c.Call(ctx, o.Operation, r)
	rep, ok := out.(Rep)
	if err == nil && !ok {
		err = &message.Error{Code: message.CodeInternal, Op: o.Name, What: fmt.Sprintf("the reply is a %T", out)}
	}
	return rep, err
}

// Types are those of the request and the reply; an empty struct: none.
func (o *Operation) Types() (request, reply reflect.Type) { return o.request, o.reply }

// Version is the version of a request; 0: it names none.
func (o *Operation) Version(request any) int {
	v := reflect.ValueOf(request)
	if o.version == nil || v.Type() != o.request {
		return 0
	}
	return int(v.FieldByIndex(o.version).Int())
}

// Decode reads a request of at most so many bytes strictly. Later parts add
// members to earlier ones.
func (o *Operation) Decode(most int, parts ...[]byte) (any, error) {
	return o.decode(parts, []strictjson.Option{strictjson.MaxBytes(most)})
}

// DecodeReply reads a reply of at most so many bytes and drops members that it
// does not know.
func (o *Operation) DecodeReply(most int, data []byte) (any, error) {
	return o.decodeReply(data, []strictjson.Option{strictjson.MaxBytes(most)})
}

// Hold bounds how long a request may be held, if it is of an operation that
// holds requests.
func (o *Operation) Hold(request any, longestMS int64) any {
	if o.hold == nil {
		return request
	}
	return o.hold(request, longestMS)
}

// Halve makes a request for a smaller page out of one whose reply was too
// large; false: there is none.
func (o *Operation) Halve(request, reply any) (any, bool) {
	if o.halve == nil {
		return nil, false
	}
	return o.halve(request, reply)
}

// Check refuses what only askance's own programs may request.
func (o *Operation) Check(request any) error {
	if o.check == nil {
		return nil
	}
	return o.check(request)
}
