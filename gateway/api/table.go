package api

import (
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/gateway/msgv1"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	operation "github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// maxHoldMS is how long a request is held at most.
const maxHoldMS = 30_000

// tableOps are the routes of the table of operations.
func tableOps(keep *kept) []*op {
	var out []*op
	for _, row := range operation.Table() {
		if row.HTTP != nil {
			out = append(out, tableOp(row, keep))
		}
	}
	return out
}

func tableOp(row *operation.Operation, keep *kept) *op {
	in, out := row.Types()
	o := &op{HTTP: *row.HTTP, roles: row.Roles, changes: row.Changes, out: out, takes: taking[row.Name], gives: giving[row.Name]}
	if o.Method == http.MethodPost {
		o.in = &body{Type: in, without: inPath(o.Path)}
	}
	o.serve = func(a *ask) error {
		if stream, ok := streams[row.Name]; ok && wantsStream(a.r) {
			return stream(a)
		}
		var content []byte
		if o.in != nil {
			var err error
			if content, err = io.ReadAll(a.r.Body); err != nil {
				return bodyError(o.ID, err)
			}
		}
		act := func() (any, error) { return a.call(row, content) }
		if row.Changes {
			return keep.once(a, content, act)
		}
		reply, err := act()
		if err != nil {
			return err
		}
		return a.answer(http.StatusOK, reply)
	}
	return o
}

// call carries out the operation of a row.
func (a *ask) call(row *operation.Operation, content []byte) (any, error) {
	request, err := a.request(row, content)
	if err == nil {
		err = row.Check(request)
	}
	if err != nil {
		return nil, err
	}
	reply, err := a.c.Call(a.ctx(), row, row.Hold(request, maxHoldMS))
	if add, ok := added[row.Name]; ok {
		return add(a, request, reply, err)
	}
	return reply, err
}

// added has what HTTP adds to replies.
var added = map[string]func(a *ask, request, reply any, err error) (any, error){
	operation.List.Name:           addToList,
	operation.Show.Name:           addToShow,
	operation.SubmitResponse.Name: addToAnswer,
}

// streams has the operations that can answer with a stream.
var streams = map[string]func(*ask) error{operation.Events.Name: streamEvents}

// addToList says what open approval requests wait for, and where the next page is.
func addToList(a *ask, _, reply any, err error) (any, error) {
	out, _ := reply.(toolcall.ListReply)
	for _, c := range out.Calls {
		if w, ok := c.Waiting(); ok {
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

// addToShow says what the open approval request waits for.
func addToShow(_ *ask, _, reply any, err error) (any, error) {
	out, _ := reply.(toolcall.ShowReply)
	if err == nil && out.Call != nil {
		if w, ok := out.Call.Waiting(); ok {
			out.Waiting = &w
		}
	}
	return out, err
}

// addToAnswer replies with the call to an answer that is on record already: it
// was carried out before what is remembered of Idempotency-Keys begins.
func addToAnswer(a *ask, request, reply any, err error) (any, error) {
	ans, _ := request.(toolcall.Response)
	if err != nil && a.r.Header.Get("Idempotency-Key") != "" {
		if c := toolcall.CallOf(err); c.HasResponse(a.p.Name, ans) {
			return c, nil
		}
	}
	return reply, err
}

// request puts the request of an operation together: from the body, or from the
// query, and from the path.
func (a *ask) request(row *operation.Operation, content []byte) (any, error) {
	var parts [][]byte
	switch {
	case a.op.takes != nil && msgv1.IsSent(a.r):
		taken, err := a.taken(content)
		if err != nil {
			return nil, err
		}
		parts = append(parts, taken)
	case len(content) > 0:
		if err := a.checkBody(content); err != nil {
			return nil, err
		}
		parts = append(parts, content)
	}
	named, err := a.named(row)
	if err != nil {
		return nil, err
	}
	request, err := row.Decode(toolcall.MaxRequestBytes, append(parts, named)...)
	if err != nil {
		return nil, badBody(a.op.ID, err)
	}
	return request, nil
}

// checkBody refuses a body of another type, and members that the path or the
// credentials give.
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
			return &message.Error{Code: message.CodeInvalid, Op: a.op.ID, What: "the body has the member " + strconv.Quote(m.Name) + ", which the path gives", Hint: "leave it out"}
		}
	}
	return nil
}

// named are the members of the request that the path and the query give, as one
// JSON object.
func (a *ask) named(row *operation.Operation) ([]byte, error) {
	members := map[string]any{}
	for _, name := range pathNames(a.op.Path) {
		members[name] = a.r.PathValue(name)
	}
	in, _ := row.Types()
	if f, ok := in.FieldByName("Space"); ok && f.Type == reflect.TypeFor[toolcall.SpaceID]() {
		members["space"] = a.p.Space.ID
	}
	for _, p := range a.op.Params {
		values := a.q.texts(p.Name)
		if len(values) == 0 {
			continue
		}
		name := p.Member
		if name == "" {
			name = p.Name
		}
		switch {
		case p.Many:
			members[name] = values
		case p.Type == "integer" && isInt(in, name):
			members[name] = a.q.count(p.Name)
		case p.Type == "integer":
			members[name] = a.q.number(p.Name)
		case p.Type == "boolean":
			members[name] = a.q.is(p.Name)
		default:
			members[name] = values[0]
		}
	}
	return strictjson.Marshal(members)
}

// isInt reports whether a member is an int, which larger numbers do not fit.
func isInt(t reflect.Type, member string) bool {
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == member {
			return f.Type.Kind() == reflect.Int
		}
	}
	return false
}

var pathName = regexp.MustCompile(`\{(\w+)\}`)

// pathNames are the names in a path.
func pathNames(path string) []string {
	var out []string
	for _, m := range pathName.FindAllStringSubmatch(path, -1) {
		out = append(out, m[1])
	}
	return out
}

// inPath are the members of a request that do not stand in the body.
func inPath(path string) []string { return append(pathNames(path), "space", "v") }

// MsgsBody is a body of type application/vnd.agentscope.v1+json.
type MsgsBody struct {
	// Messages are AgentScope 1.x messages, as Msg.to_dict() gives them: name, role,
	// content, metadata, id, timestamp.
	Messages []message.RawJSON `json:"messages"`
}

// MsgsReply is an answer of type application/vnd.agentscope.v1+json: the calls as
// AgentScope 1.x messages.
type MsgsReply struct {
	// Messages are an assistant's message with the tool_use blocks, and a system's
	// with the tool_result blocks, for Msg.from_dict(). Open calls stand in
	// metadata.askance.calls, with the digest of the approval request that is open.
	Messages []message.RawJSON `json:"messages"`
	// Done says that there is nothing to wait for.
	Done bool `json:"done"`
	// Lost is what AgentScope 1.x has no place for.
	Lost []msgv1.Loss `json:"lost,omitzero"`
}

type (
	// takeMsgs makes an operation's request of AgentScope 1.x messages.
	takeMsgs func(a *ask, in MsgsBody) (request any, err error)
	// giveMsgs tells the calls of an operation's answer, and whether they are done.
	giveMsgs func(out any) (calls []*toolcall.Call, done bool)
)

// taking and giving have the operations that speak AgentScope 1.x.
var (
	taking = map[string]takeMsgs{operation.Propose.Name: takeProposal, operation.Report.Name: takeResult}
	giving = map[string]giveMsgs{operation.Propose.Name: giveProposed, operation.Wait.Name: giveWaited, operation.Report.Name: giveCall}
)

// taken is the request, as JSON, that a body of AgentScope 1.x messages makes.
func (a *ask) taken(content []byte) ([]byte, error) {
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

// wanted is the media type of the answer's messages, "" for plain JSON.
func (a *ask) wanted() string {
	if a.op.gives == nil {
		return ""
	}
	return msgv1.WantedBy(a.r)
}

// formats name what a request is read as and answered in.
func (a *ask) formats() string { return strconv.FormatBool(msgv1.IsSent(a.r)) + a.wanted() }

// encode writes an answer in the format that the client wants.
func (a *ask) encode(out any) (kind string, body []byte, err error) {
	kind = "application/json"
	if want := a.wanted(); want != "" {
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
	return reply.Calls, areFinished(reply.Calls)
}

func giveWaited(out any) ([]*toolcall.Call, bool) {
	reply, _ := out.(toolcall.WaitReply)
	return reply.Calls, reply.Done
}

func giveCall(out any) ([]*toolcall.Call, bool) {
	call, _ := out.(*toolcall.Call)
	return []*toolcall.Call{call}, !call.Open()
}

func areFinished(calls []*toolcall.Call) bool {
	for _, c := range calls {
		if c.Open() {
			return false
		}
	}
	return true
}
