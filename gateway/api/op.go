package api

import (
	"container/list"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/msgv1"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	operation "github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// op is one operation: routes and the OpenAPI document are made from it.
type op struct {
	operation.HTTP
	roles   []toolcall.Role // who may use it, in order of preference
	in      *body           // nil: it has no body
	out     reflect.Type    // of the reply
	changes bool            // it changes something
	takes   takeMsgs        // reads AgentScope 1.x messages; may be nil
	gives   giveMsgs        // writes them; may be nil
	serve   func(*ask) error
}

// description returns the operation's description, with its formats.
func (o *op) description() string {
	switch {
	case o.takes != nil:
		return o.Doc + " As " + msgv1.Type + " it takes MsgsBody and gives MsgsReply."
	case o.gives != nil:
		return o.Doc + " As " + msgv1.Type + " it gives MsgsReply."
	}
	return o.Doc
}

// body is the type of a request without the members of the path.
type body struct {
	reflect.Type
	without []string
}

func (b *body) name() string {
	return strings.TrimSuffix(strings.TrimSuffix(b.Name(), "Request"), "Body") + "Body"
}

// typeName is the name of a type in the OpenAPI document.
func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// The roles that may use operations that only HTTP has, in order of preference.
var (
	asReader   = []toolcall.Role{toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor, toolcall.RoleRuntime}
	asOperator = []toolcall.Role{toolcall.RoleOperator}
	asOverseer = []toolcall.Role{toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor}
)

// asParam is a parameter of every operation.
var asParam = operation.Param{Name: "as", Type: "string", Doc: "The role in which to act, if the credentials have several.", Words: []string{"runtime", "approver", "operator", "auditor"}}

// ask is one request to one operation.
type ask struct {
	op *op
	w  http.ResponseWriter
	r  *http.Request
	p  *gateway.Peer
	c  engine.Client
	by toolcall.Role
	q  query
}

func (a *ask) ctx() context.Context { return a.r.Context() }

func (a *ask) key() toolcall.Key {
	return toolcall.Key{
		Space:   a.p.Space.ID,
		Session: message.SessionID(a.r.PathValue("session_id")),
		Reply:   message.ReplyID(a.r.PathValue("reply_id")),
		Call:    message.CallID(a.r.PathValue("tool_call_id")),
	}
}

func (o *op) route() gateway.Route {
	return gateway.Route{Method: o.Method, Path: o.Path, Access: gateway.Only(o.roles...), Stream: o.Stream, Doc: o.Summary, Serve: o.handle}
}

func (o *op) handle(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	a := &ask{op: o, w: w, r: r, p: p}
	var err error
	if a.q, err = readQuery(r, append([]operation.Param{asParam}, o.Params...)); err != nil {
		return err
	}
	if a.by, err = o.chooseRole(p, toolcall.Role(a.q.text("as"))); err != nil {
		return err
	}
	if a.c, err = p.As(a.by); err != nil {
		return err
	}
	return o.serve(a)
}

// chooseRole returns the role in which the peer acts. The route admits only peers with such a role.
func (o *op) chooseRole(p *gateway.Peer, wish toolcall.Role) (toolcall.Role, error) {
	for _, r := range o.roles {
		if p.Has(r) && (wish == "" || wish == r) {
			return r, nil
		}
	}
	return "", &message.Error{Code: message.CodeForbidden, Op: o.ID, What: "these credentials cannot act here as=" + string(wish), Hint: "leave it out, or use credentials with that role"}
}

func newRead[Out any](h operation.HTTP, roles []toolcall.Role, f func(a *ask) (Out, error)) *op {
	h.Method = http.MethodGet
	return &op{HTTP: h, roles: roles, out: reflect.TypeFor[Out](), serve: func(a *ask) error {
		out, err := f(a)
		if err != nil {
			return err
		}
		return a.reply(http.StatusOK, out)
	}}
}

// newChange makes an operation without a body that changes something.
func newChange[Out any](h operation.HTTP, roles []toolcall.Role, keep *replies, f func(a *ask) (Out, error)) *op {
	o := &op{HTTP: h, roles: roles, changes: true, out: reflect.TypeFor[Out]()}
	o.serve = func(a *ask) error {
		content, err := gateway.ReadBody(o.ID, a.r)
		if err != nil {
			return err
		}
		return keep.once(a, content, func() (any, error) {
			if err := checkEmpty(o.ID, a.r, content); err != nil {
				return nil, err
			}
			return f(a)
		})
	}
	return o
}

// checkEmpty refuses a body with members.
func checkEmpty(op string, r *http.Request, content []byte) error {
	if len(content) == 0 {
		return nil
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		return notJSON(op)
	}
	var none struct{}
	if err := strictjson.Unmarshal(content, &none); err != nil {
		return badBody(op, err)
	}
	return nil
}

func notJSON(op string) error {
	return &message.Error{Code: message.CodeInvalid, Op: op, What: "the body's Content-Type is not application/json", Hint: "send Content-Type: application/json"}
}

func badBody(op string, err error) error {
	return &message.Error{Code: message.CodeInvalid, Op: op, What: "the request is not valid: " + err.Error(), Hint: "send what the schema in GET /openapi.json describes"}
}

func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(media), "application/json")
}

// reply writes a reply in the format that the client accepts.
func (a *ask) reply(status int, v any) error {
	kind, b, err := a.encode(v)
	if err != nil {
		return err
	}
	return gateway.Reply(a.w, status, kind, b)
}

// query is the checked query of a request.
type query struct{ values url.Values }

func readQuery(r *http.Request, params []operation.Param) (query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return query{}, badQuery("the query cannot be read", "percent-encode its values")
	}
	for name, got := range values {
		i := slices.IndexFunc(params, func(p operation.Param) bool { return p.Name == name })
		if i < 0 {
			return query{}, badQuery(fmt.Sprintf("the query parameter %q is unknown", name), "use: "+paramNames(params))
		}
		if err := checkParam(params[i], got); err != nil {
			return query{}, err
		}
	}
	return query{values}, nil
}

func checkParam(p operation.Param, got []string) error {
	if len(got) > 1 && !p.Many {
		return badQuery("parameter "+p.Name+" occurs twice", "send it once")
	}
	for _, v := range got {
		switch {
		case p.Type == "integer":
			if _, err := strconv.ParseUint(v, 10, 63); err != nil {
				return badQuery(fmt.Sprintf("parameter %s is %q", p.Name, v), "send a number of 0 or more")
			}
		case p.Type == "boolean" && v != "true" && v != "false":
			return badQuery(fmt.Sprintf("parameter %s is %q", p.Name, v), "send true or false")
		case len(p.Words) > 0 && !slices.Contains(p.Words, v):
			return badQuery(fmt.Sprintf("parameter %s is %q", p.Name, v), "send one of: "+strings.Join(p.Words, ", "))
		}
	}
	return nil
}

func paramNames(params []operation.Param) string {
	out := make([]string, len(params))
	for i, p := range params {
		out[i] = p.Name
	}
	return strings.Join(out, ", ")
}

func badQuery(what, hint string) error {
	return &message.Error{Code: message.CodeInvalid, Op: "query", What: what, Hint: hint}
}

func (q query) text(name string) string { return q.values.Get(name) }

func (q query) number(name string) uint64 {
	n, _ := strconv.ParseUint(q.values.Get(name), 10, 63) // it was checked, or is absent
	return n
}

// Bounds of the stored replies, for all peers together.
const (
	keepFor      = 24 * time.Hour
	keepRequests = 10_000
	keepBytes    = 64 << 20
	maxKeyBytes  = 255
)

// replies stores the replies to requests with an Idempotency-Key. The oldest are
// removed when there are too many: see the package documentation.
type replies struct {
	mu    sync.Mutex
	byKey map[replyKey]*list.Element // of *storedResponse
	order *list.List                 // the oldest first
	bytes int
}

// replyKey names a request: each peer has its own keys.
type replyKey struct {
	space      toolcall.SpaceID
	name, auth string
	key        string
}

type storedResponse struct {
	key  replyKey
	mark [sha256.Size]byte // of method, path, query, formats and body
	at   time.Time
	done chan struct{} // closed when the rest is set
	// status is 0 for a failed request that may be retried.
	status int
	kind   string
	body   []byte
}

func newReplies() *replies {
	return &replies{byKey: map[replyKey]*list.Element{}, order: list.New()}
}

// once carries a request out, or repeats the reply to an earlier one with the same
// Idempotency-Key.
func (k *replies) once(a *ask, body []byte, act func() (any, error)) error {
	key := a.r.Header.Get("Idempotency-Key")
	if key == "" {
		out, err := act()
		if err != nil {
			return err
		}
		return a.reply(http.StatusOK, out)
	}
	if len(key) > maxKeyBytes {
		return &message.Error{Code: message.CodeTooLarge, Op: a.op.ID, What: "the Idempotency-Key is over 255 bytes", Hint: "use a UUID"}
	}
	mine := &storedResponse{
		key:  replyKey{a.p.Space.ID, a.p.Name, a.p.Auth, key},
		mark: sha256.Sum256([]byte(a.r.Method + "\n" + a.r.URL.EscapedPath() + "\n" + a.r.URL.RawQuery + "\n" + a.formats() + "\n" + string(body))),
		at:   time.Now(), done: make(chan struct{}),
	}
	first := k.claim(mine)
	if first == mine {
		return k.carryOut(a, mine, act)
	}
	if first.mark != mine.mark {
		return &message.Error{Code: message.CodeConflict, Op: a.op.ID, What: "this Idempotency-Key was used for another request", Hint: "use a new key for each request"}
	}
	select {
	case <-first.done:
	case <-a.ctx().Done():
		return &message.Error{Code: message.CodeUnavailable, Op: a.op.ID, What: "the first request with this Idempotency-Key is not finished", Hint: "send it again", Err: context.Cause(a.ctx())}
	}
	if first.status == 0 { // it failed for a temporary reason: this is the next attempt
		return k.once(a, body, act)
	}
	a.w.Header().Set("Idempotency-Replayed", "true")
	return gateway.Reply(a.w, first.status, first.kind, first.body)
}

// claim returns the earlier request with the key, or stores this one.
func (k *replies) claim(mine *storedResponse) *storedResponse {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removeOld(mine.at)
	if e, ok := k.byKey[mine.key]; ok {
		if first, ok := e.Value.(*storedResponse); ok {
			return first
		}
	}
	k.byKey[mine.key] = k.order.PushBack(mine)
	return mine
}

// removeOld removes replies that are too old or too many.
func (k *replies) removeOld(now time.Time) {
	for e := k.order.Front(); e != nil; e = k.order.Front() {
		old, ok := e.Value.(*storedResponse)
		if ok && now.Sub(old.at) < keepFor && k.order.Len() < keepRequests && k.bytes < keepBytes {
			return
		}
		k.remove(old)
	}
}

func (k *replies) remove(a *storedResponse) {
	if e, ok := k.byKey[a.key]; ok && e.Value == any(a) {
		k.order.Remove(e)
		delete(k.byKey, a.key)
		k.bytes -= len(a.body)
	}
}

// keep stores a reply for waiting requests, and for later ones unless the request
// was removed meanwhile.
func (k *replies) keep(a *storedResponse, status int, kind string, body []byte) {
	a.status, a.kind, a.body = status, kind, body
	if e, ok := k.byKey[a.key]; ok && e.Value == any(a) {
		k.bytes += len(body)
	}
}

// carryOut carries the request out and stores its reply, even a refusal, unless the next attempt
// may succeed.
func (k *replies) carryOut(a *ask, mine *storedResponse, act func() (any, error)) error {
	var status int
	var kind string
	var body []byte
	defer func() { // even if act panics
		k.mu.Lock()
		defer k.mu.Unlock()
		if status == 0 || status >= http.StatusInternalServerError || status == http.StatusTooManyRequests {
			k.remove(mine)
		} else {
			k.keep(mine, status, kind, body)
		}
		close(mine.done)
	}()
	out, err := act()
	if err == nil {
		if kind, body, err = a.encode(out); err != nil {
			return err
		}
		status = http.StatusOK
		return gateway.Reply(a.w, status, kind, body)
	}
	p := gateway.ProblemOf(err)
	status, kind = p.Status, "application/problem+json"
	if body, err = strictjson.Marshal(p); err != nil {
		status = 0
		return err
	}
	body = append(body, '\n')
	return gateway.Reply(a.w, status, kind, body)
}
