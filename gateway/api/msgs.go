package api

import (
	"strconv"

	"github.com/askance-dev/askance/gateway/msgv1"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	operation "github.com/askance-dev/askance/message/api"
)

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
	giveMsgs func(out any) (calls []*message.Call, done bool)
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
	return message.ProposeRequest{Agent: agent, Calls: calls}, err
}

func takeResult(a *ask, in MsgsBody) (any, error) {
	result, err := msgv1.Result(a.op.ID, in.Messages, a.key().Call)
	return message.ReportRequest{Result: result}, err
}

func giveProposed(out any) ([]*message.Call, bool) {
	reply, _ := out.(message.ProposeReply)
	return reply.Calls, areFinished(reply.Calls)
}

func giveWaited(out any) ([]*message.Call, bool) {
	reply, _ := out.(message.WaitReply)
	return reply.Calls, reply.Done
}

func giveCall(out any) ([]*message.Call, bool) {
	call, _ := out.(*message.Call)
	return []*message.Call{call}, !call.Open()
}

func areFinished(calls []*message.Call) bool {
	for _, c := range calls {
		if c.Open() {
			return false
		}
	}
	return true
}
