package api

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/msgv1"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	operation "github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// maxHoldMS is the longest time that a request is held.
const maxHoldMS = 30_000

func tableOps(keep *replies) []*op {
	var out []*op
	for _, row := range operation.Table() {
		if row.HTTP != nil {
			out = append(out, tableOp(row, keep))
		}
	}
	return out
}

func tableOp(row *operation.Operation, keep *replies) *op {
	in, out := row.Types()
	o := &op{HTTP: *row.HTTP, roles: row.Roles, changes: row.Changes, out: out, takes: takers[row.Name], gives: givers[row.Name]}
	if o.Method == http.MethodPost {
		o.in = &body{Type: in, without: append(pathNames(o.Path), "space", "v")}
	}
	o.serve = func(a *ask) error {
		if stream, ok := streams[row.Name]; ok && strings.Contains(a.r.Header.Get("Accept"), "text/event-stream") {
			return stream(a)
		}
		var content []byte
		if o.in != nil {
			var err error
			if content, err = gateway.ReadBody(o.ID, a.r); err != nil {
				return err
			}
		}
		act := func() (any, error) { return a.call(row, content) }
		if row.Changes && !row.Repeatable {
			return keep.once(a, content, act)
		}
		reply, err := act()
		if err != nil {
			return err
		}
		return a.reply(http.StatusOK, reply)
	}
	return o
}

func (a *ask) call(row *operation.Operation, content []byte) (any, error) {
	request, err := a.request(row, content)
	if err == nil {
		err = row.Check(request)
	}
	if err != nil {
		return nil, err
	}
	if resp, ok := request.(toolcall.Response); ok {
		request = a.identify(resp)
	}
	reply, err := a.c.Call(a.ctx(), row, row.Hold(request, maxHoldMS))
	if add, ok := additions[row.Name]; ok {
		return add(a, request, reply, err)
	}
	return reply, err
}

// additions are what HTTP adds to replies.
var additions = map[string]func(a *ask, request, reply any, err error) (any, error){
	operation.List.Name: addToList,
	operation.Show.Name: addToShow,
}

// streams has the operations that can reply with a stream.
var streams = map[string]func(*ask) error{operation.Events.Name: streamEvents}

// addToList adds what open approval requests wait for, and the link to the next page.
func addToList(a *ask, _, reply any, err error) (any, error) {
	out, _ := reply.(toolcall.ListReply)
	for _, c := range out.Calls {
		if w, ok := c.Waiting(time.Now()); ok {
			out.Waiting = append(out.Waiting, w)
		}
	}
	if out.Next != 0 {
		next := *a.r.URL
		values := next.Query()
		values.Set("after", strconv.FormatUint(out.Next, 10))
		a.w.Header().Set("Link", "<"+(&url.URL{Path: next.Path, RawQuery: values.Encode()}).String()+`>; rel="next"`)
	}
	return out, err
}

// addToShow adds what the open approval request waits for.
func addToShow(_ *ask, _, reply any, err error) (any, error) {
	out, _ := reply.(toolcall.ShowReply)
	if err == nil && out.Call != nil {
		if w, ok := out.Call.Waiting(time.Now()); ok {
			out.Waiting = &w
		}
	}
	return out, err
}

// identify gives a response without an id one that follows from its Idempotency-Key, so that
// the journal knows a response whose key is no longer stored.
func (a *ask) identify(resp toolcall.Response) toolcall.Response {
	key := a.r.Header.Get("Idempotency-Key")
	if resp.ID != "" || key == "" {
		return resp
	}
	sum := sha256.Sum256([]byte(strconv.Quote(a.p.Auth) + key)) // engines compare the name
	resp.ID = "key_" + base64.RawURLEncoding.EncodeToString(sum[:])
	return resp
}

// request makes the request of an operation from the body, the query and the path.
func (a *ask) request(row *operation.Operation, content []byte) (any, error) {
	var parts [][]byte
	switch {
	case a.op.takes != nil && msgv1.IsSent(a.r):
		request, err := a.convertMsgs(content)
		if err != nil {
			return nil, err
		}
		parts = append(parts, request)
	case len(content) > 0:
		if err := a.checkBody(content); err != nil {
			return nil, err
		}
		parts = append(parts, content)
	}
	members, err := a.addressMembers(row)
	if err != nil {
		return nil, badBody(a.op.ID, err)
	}
	request, err := row.Decode(toolcall.MaxRequestBytes, append(parts, members)...)
	if err != nil {
		return nil, badBody(a.op.ID, err)
	}
	return request, nil
}

// checkBody refuses a body of another type, and members that the path or the
// credentials determine.
func (a *ask) checkBody(content []byte) error {
	if !isJSON(a.r.Header.Get("Content-Type")) {
		return notJSON(a.op.ID)
	}
	members, err := strictjson.Members(content)
	if err != nil {
		return badBody(a.op.ID, err)
	}
	for _, m := range members {
		if slices.Contains(a.op.in.without, m.Name) {
			return &message.Error{Code: message.CodeInvalid, Op: a.op.ID, What: "the body has the member " + strconv.Quote(m.Name) + ", which the path determines", Hint: "leave it out"}
		}
	}
	return nil
}

// addressMembers returns the members of the path and the query as one JSON object.
func (a *ask) addressMembers(row *operation.Operation) ([]byte, error) {
	members := map[string]any{}
	for _, name := range pathNames(a.op.Path) {
		members[name] = a.r.PathValue(name)
	}
	in, _ := row.Types()
	if f, ok := in.FieldByName("Space"); ok && f.Type == reflect.TypeFor[toolcall.SpaceID]() {
		members["space"] = a.p.Space.ID
	}
	for _, p := range a.op.Params {
		values := a.q.values[p.Name]
		if len(values) == 0 {
			continue
		}
		name := cmp.Or(p.Member, p.Name)
		switch {
		case p.Many:
			members[name] = values
		case p.Type == "integer" && isInt(in, name):
			members[name] = int(min(a.q.number(p.Name), 1<<30))
		case p.Type == "integer":
			members[name] = a.q.number(p.Name)
		case p.Type == "boolean":
			members[name] = values[0] == "true"
		default:
			members[name] = values[0]
		}
	}
	return strictjson.Marshal(members)
}

// isInt reports whether a member is an int, which a larger number would overflow.
func isInt(t reflect.Type, member string) bool {
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == member {
			return f.Type.Kind() == reflect.Int
		}
	}
	return false
}

var pathName = regexp.MustCompile(`\{(\w+)\}`)

func pathNames(path string) []string {
	var out []string
	for _, m := range pathName.FindAllStringSubmatch(path, -1) {
		out = append(out, m[1])
	}
	return out
}

// MsgsBody is a body of type application/vnd.agentscope.v1+json.
type MsgsBody struct {
	// Messages are AgentScope 1.x messages, as Msg.to_dict() returns them: name, role,
	// content, metadata, id, timestamp.
	Messages []message.RawJSON `json:"messages"`
}

// MsgsReply is a reply of type application/vnd.agentscope.v1+json: the calls as
// AgentScope 1.x messages.
type MsgsReply struct {
	// Messages are an assistant's message with the tool_use blocks and a system's
	// with the tool_result blocks, for Msg.from_dict(). metadata.askance.calls has the
	// open calls, with the digest of the open approval request.
	Messages []message.RawJSON `json:"messages"`
	// Done: there is nothing to wait for.
	Done bool `json:"done"`
	// Lost is what AgentScope 1.x cannot express.
	Lost []msgv1.Loss `json:"lost,omitzero"`
}

type (
	// takeMsgs makes an operation's request from AgentScope 1.x messages.
	takeMsgs func(a *ask, in MsgsBody) (request any, err error)
	// giveMsgs returns the calls of an operation's reply, and whether they are done.
	giveMsgs func(out any) (calls []*toolcall.Call, done bool)
)

// takers and givers are the operations that accept and return AgentScope 1.x messages.
var (
	takers = map[string]takeMsgs{operation.Propose.Name: takeProposal, operation.Report.Name: takeResult}
	givers = map[string]giveMsgs{operation.Propose.Name: giveProposed, operation.Wait.Name: giveWaited, operation.Report.Name: giveCall}
)

// convertMsgs makes a request, as JSON, from a body of AgentScope 1.x messages.
func (a *ask) convertMsgs(content []byte) ([]byte, error) {
	var in MsgsBody
	if len(content) == 0 {
		content = []byte("{}")
	}
	if err := strictjson.Unmarshal(content, &in); err != nil {
		return nil, badBody(a.op.ID, err)
	}
	request, err := a.op.takes(a, in)
	if err != nil {
		return nil, err
	}
	return strictjson.Marshal(request)
}

// replyType is the media type of the reply's messages; "": plain JSON.
func (a *ask) replyType() string {
	if a.op.gives == nil {
		return ""
	}
	return msgv1.WantedBy(a.r)
}

// formats name the formats of a request and its reply.
func (a *ask) formats() string { return strconv.FormatBool(msgv1.IsSent(a.r)) + a.replyType() }

// encode encodes a reply in the format that the client accepts.
func (a *ask) encode(out any) (kind string, body []byte, err error) {
	kind = "application/json"
	if want := a.replyType(); want != "" {
		kind = want
		calls, done := a.op.gives(out)
		reply := MsgsReply{Done: done}
		if reply.Messages, reply.Lost, err = msgv1.Calls(kind, a.key().Reply, calls); err != nil {
			return "", nil, err
		}
		out = reply
	}
	body, err = strictjson.Marshal(out)
	return kind, append(body, '\n'), err
}

func takeProposal(a *ask, in MsgsBody) (any, error) {
	agent, calls, err := msgv1.Proposal(a.op.ID, in.Messages)
	return toolcall.ProposeRequest{Agent: agent, Calls: calls}, err
}

func takeResult(a *ask, in MsgsBody) (any, error) {
	result, err := msgv1.Result(a.op.ID, in.Messages, a.key().Call)
	return toolcall.ReportRequest{Result: result}, err
}

func giveProposed(out any) ([]*toolcall.Call, bool) {
	reply, _ := out.(toolcall.ProposeReply)
	return reply.Calls, !slices.ContainsFunc(reply.Calls, (*toolcall.Call).Open)
}

func giveWaited(out any) ([]*toolcall.Call, bool) {
	reply, _ := out.(toolcall.WaitReply)
	return reply.Calls, reply.Done
}

func giveCall(out any) ([]*toolcall.Call, bool) {
	call, _ := out.(*toolcall.Call)
	return []*toolcall.Call{call}, !call.Open()
}
