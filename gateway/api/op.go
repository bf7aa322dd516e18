package api

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/msgv1"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// op is one operation: a row of the table from which routes and the OpenAPI
// document are made.
type op struct {
	id, method, path string
	tag              string
	summary, doc     string
	roles            []message.Role // who may, and in which role first
	params           []param
	in               reflect.Type // of the body; nil: none
	out              reflect.Type // of the answer; nil: none
	stream           bool         // the answer can be a stream of events
	changes          bool         // it changes something
	takes            takeMsgs     // AgentScope 1.x messages; nil: it takes none
	gives            giveMsgs     // nil: it gives none
	serve            func(*ask) error
}

// param is a query parameter.
type param struct {
	Name, Doc string
	Type      string // string, integer, boolean
	Many      bool
	Words     []string // the only values
}

// about is the operation's description, with the formats that it takes and gives.
func (o *op) about() string {
	switch {
	case o.takes != nil:
		return o.doc + " As " + msgv1.Type + " it takes MsgsBody and gives MsgsReply."
	case o.gives != nil:
		return o.doc + " As " + msgv1.Type + " it gives MsgsReply."
	}
	return o.doc
}

// typeName is the name of a type in the document.
func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// Who may do what, in the order in which a role is chosen.
var (
	asReader   = []message.Role{message.RoleApprover, message.RoleOperator, message.RoleAuditor, message.RoleRuntime}
	asWaiter   = []message.Role{message.RoleRuntime, message.RoleApprover, message.RoleOperator, message.RoleAuditor}
	asRuntime  = []message.Role{message.RoleRuntime}
	asReporter = []message.Role{message.RoleRuntime, message.RoleOperator}
	asApprover = []message.Role{message.RoleApprover}
	asOperator = []message.Role{message.RoleOperator}
	asRevoker  = []message.Role{message.RoleOperator, message.RoleApprover}
	asStopper  = []message.Role{message.RoleOperator, message.RoleApprover, message.RoleRuntime}
	asOverseer = []message.Role{message.RoleApprover, message.RoleOperator, message.RoleAuditor}
)

// asParam is accepted by every operation.
var asParam = param{Name: "as", Type: "string", Doc: "The role in which to act, if the credentials have several.", Words: []string{"runtime", "approver", "operator", "auditor"}}

// ask is one request to one operation.
type ask struct {
	op *op
	w  http.ResponseWriter
	r  *http.Request
	p  *gateway.Peer
	c  engine.Client
	by message.Role
	q  query
}

func (a *ask) ctx() context.Context { return a.r.Context() }

// key is the call that the path names.
func (a *ask) key() message.Key {
	return message.Key{
		Space:   a.p.Space.ID,
		Session: message.SessionID(a.r.PathValue("session_id")),
		Reply:   message.ReplyID(a.r.PathValue("reply_id")),
		Call:    message.CallID(a.r.PathValue("tool_call_id")),
	}
}

// route makes the gateway's route of an operation.
func (o *op) route() gateway.Route {
	return gateway.Route{Method: o.method, Path: o.path, Access: gateway.Only(o.roles...), Stream: o.stream, Doc: o.summary, Serve: o.handle}
}

func (o *op) handle(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	a := &ask{op: o, w: w, r: r, p: p}
	var err error
	if a.q, err = readQuery(r, append([]param{asParam}, o.params...)); err != nil {
		return err
	}
	if a.by, err = o.role(p, message.Role(a.q.text("as"))); err != nil {
		return err
	}
	if a.c, err = p.As(a.by); err != nil {
		return err
	}
	return o.serve(a)
}

// role chooses in which role the peer acts.
func (o *op) role(p *gateway.Peer, wish message.Role) (message.Role, error) {
	for _, r := range o.roles {
		if p.Has(r) && (wish == "" || wish == r) {
			return r, nil
		}
	}
	if wish != "" {
		return "", &message.Error{Code: message.CodeForbidden, Op: o.id, What: "as=" + string(wish) + " is not possible here with these credentials", Hint: "leave it out, or use credentials with that role"}
	}
	return "", &message.Error{Code: message.CodeForbidden, Op: o.id, What: "none of the credentials' roles may do this", Hint: "use credentials with one of: " + roleWords(o.roles)}
}

func roleWords(roles []message.Role) string {
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}

// get makes an operation that reads.
func get[Out any](o op, f func(a *ask) (Out, error)) *op {
	o.method, o.out = http.MethodGet, reflect.TypeFor[Out]()
	o.serve = func(a *ask) error {
		out, err := f(a)
		if err != nil {
			return err
		}
		return a.answer(http.StatusOK, out)
	}
	return &o
}

// post makes an operation with a body that changes something.
func post[In, Out any](o op, keep *kept, f func(a *ask, in In) (Out, error)) *op {
	o.method, o.in, o.out, o.changes = http.MethodPost, reflect.TypeFor[In](), reflect.TypeFor[Out](), true
	o.serve = func(a *ask) error {
		body, err := io.ReadAll(a.r.Body)
		if err != nil {
			return bodyError(o.id, err)
		}
		return keep.once(a, body, func() (any, error) {
			var in In
			if err := a.decode(body, &in); err != nil {
				return nil, err
			}
			return f(a, in)
		})
	}
	return &o
}

// act makes an operation without a body that changes something.
func act[Out any](o op, keep *kept, f func(a *ask) (Out, error)) *op {
	p := post(o, keep, func(a *ask, _ struct{}) (Out, error) { return f(a) })
	p.method, p.in = o.method, nil
	return p
}

// decodeBody reads a body strictly. An empty one is an empty object.
func decodeBody(op string, r *http.Request, body []byte, into any) error {
	if len(body) == 0 {
		body = []byte("{}")
	} else if t := r.Header.Get("Content-Type"); !isJSON(t) {
		return &message.Error{Code: message.CodeInvalid, Op: op, What: "the body's Content-Type is not application/json", Hint: "send Content-Type: application/json"}
	}
	return unmarshalBody(op, body, into)
}

func unmarshalBody(op string, body []byte, into any) error {
	if err := strictjson.Unmarshal(body, into); err != nil {
		return &message.Error{Code: message.CodeInvalid, Op: op, What: "the body is not as it should be: " + err.Error(), Hint: "GET /openapi.json has its schema"}
	}
	return nil
}

func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(media), "application/json")
}

func bodyError(op string, err error) error {
	if tooLarge, ok := asMaxBytes(err); ok {
		return &message.Error{Code: message.CodeTooLarge, Op: op, What: tooLarge, Hint: "send less"}
	}
	return &message.Error{Code: message.CodeInvalid, Op: op, What: "the body could not be read", Hint: "send it again", Err: err}
}

// answer writes a JSON answer.
func (a *ask) answer(status int, v any) error {
	kind, b, err := a.encode(v)
	if err != nil {
		return err
	}
	return a.writeAs(status, kind, b)
}

func (a *ask) writeAs(status int, kind string, body []byte) error {
	h := a.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	a.w.WriteHeader(status)
	_, _ = a.w.Write(body) // the peer may be gone
	return nil
}
