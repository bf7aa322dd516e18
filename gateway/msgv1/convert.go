// Package msgv1 lets HTTP routes accept and return the message dicts of AgentScope 1.x where they
// accept and return messages of AgentScope 2.0.
//
// The media type selects the form. A request whose Content-Type is [Type] has dicts in its body;
// a request that prefers [Type] in Accept gets dicts. The JSON around the messages stays the
// same. [Type01] does the same for 0.1.x; both dialects are read under either type.
//
//	if msgv1.IsSent(r) {
//		dicts, err := msgv1.Decode("chat", body.Input)
//		msgs, err := msgv1.Convert("chat", dicts)
//	}
//	if kind := msgv1.WantedBy(r); kind != "" {
//		dicts, lost, err := msgv1.Encode(kind, msgs, digest)
//	}
//
// # Guarantees
//
//   - [Convert] refuses a dict if AgentScope 2.0 would lose a part of it; the error
//     names the part and the message.
//   - [Encode] reports everything that a dict cannot represent.
//   - A text is never a decision: only metadata.askance.decisions is, and each
//     decision names the digest of the approval request that its author saw. See package
//     message/v1.
//
// It does no I/O, and its functions are safe for concurrent use.
package msgv1

import (
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/message"
	v1 "github.com/askance-dev/askance/message/v1"
	"github.com/askance-dev/askance/toolcall"
)

// Loss is a part of a message that a dict has no place for.
type Loss struct {
	// Message is the id of the message.
	Message string `json:"message_id"`
	// What was left out.
	What string `json:"what"`
}

// Decode reads dicts.
func Decode(op string, raw []message.RawJSON) ([]*v1.Msg, error) {
	list := []byte{'['}
	for i, m := range raw {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, m...)
	}
	dicts, err := v1.Codec{MaxBytes: math.MaxInt}.DecodeMsgs(append(list, ']')) // the body is bounded
	if err != nil {
		code := message.CodeInvalid
		if errors.Is(err, message.ErrTooLarge) {
			code = message.CodeTooLarge
		}
		return nil, &message.Error{
			Code: code, Op: op, What: "these are not AgentScope 1.x messages: " + err.Error(),
			Hint: "send what Msg.to_dict() gives, or AgentScope 2.0 messages with Content-Type: application/json",
		}
	}
	return dicts, nil
}

// DecisionsOf reads the decisions of a single dict, or returns nil if there are none. It refuses
// a list in which a dict decides.
func DecisionsOf(dicts []*v1.Msg) (*v1.Decisions, error) {
	for _, m := range dicts {
		d, err := v1.DecisionsOf(m)
		if d == nil && err == nil {
			continue
		}
		if err == nil && len(dicts) > 1 {
			err = &message.Error{Code: message.CodeInvalid, Op: "decide", What: "a message with decisions stands among others", Hint: "send it alone"}
		}
		return d, err
	}
	return nil, nil
}

// Convert converts dicts to messages of AgentScope 2.0. It refuses what they cannot represent.
func Convert(op string, dicts []*v1.Msg) ([]*message.Msg, error) {
	lost := []v1.Loss{}
	msgs, err := v1.Codec{OnLoss: func(l v1.Loss) { lost = append(lost, l) }}.ToMsgs(dicts)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: op, What: "AgentScope 2.0 has no such message: " + err.Error(), Hint: "correct the message"}
	}
	if len(lost) > 0 {
		return nil, &message.Error{
			Code: message.CodeInvalid, Op: op,
			What: fmt.Sprintf("message %.100q would lose %.200s: AgentScope 2.0 has no place for it", lost[0].ID, lost[0].What),
			Hint: "leave that part out",
		}
	}
	return msgs, nil
}

// Encode converts messages to dicts of a media type. digest returns the digest of a call's open
// approval request, or "" if there is none.
func Encode(kind string, msgs []*message.Msg, digest func(message.ReplyID, message.CallID) string) ([]message.RawJSON, []Loss, error) {
	var lost []Loss
	c := v1.Codec{Dialect: dialects[kind], Digest: digest, OnLoss: func(l v1.Loss) {
		if l.Row != v1.RowCallState { // metadata.askance has it
			lost = append(lost, Loss{l.ID, l.What})
		}
	}}
	dicts, err := c.FromMsgs(msgs)
	if err != nil {
		return nil, nil, err
	}
	out := make([]message.RawJSON, len(dicts))
	for i, d := range dicts {
		if out[i], err = c.AppendMsg(nil, d); err != nil {
			return nil, nil, err
		}
	}
	return out, lost, nil
}

// Proposal reads the tool calls of one turn from the assistant's dicts, and the agent's name. It
// ignores text and thinking in them: a proposal does not record them.
func Proposal(op string, raw []message.RawJSON) (agent string, calls []message.ToolCallBlock, err error) {
	dicts, err := Decode(op, raw)
	if err != nil {
		return "", nil, err
	}
	msgs, err := Convert(op, dicts)
	if err != nil {
		return "", nil, err
	}
	if len(msgs) != 1 || msgs[0].Role != message.RoleAssistant || len(message.BlocksOf[*message.ToolResultBlock](msgs[0])) > 0 {
		return "", nil, &message.Error{Code: message.CodeInvalid, Op: op, What: "the messages are not one turn of an assistant without results", Hint: "send the assistant's message with the tool_use blocks, and no other"}
	}
	for _, b := range message.BlocksOf[*message.ToolCallBlock](msgs[0]) {
		calls = append(calls, *b)
	}
	return msgs[0].Name, calls, nil
}

// Result reads the result of one call from the dict that holds it.
func Result(op string, raw []message.RawJSON, call message.CallID) (message.ToolResultBlock, error) {
	dicts, err := Decode(op, raw)
	if err != nil {
		return message.ToolResultBlock{}, err
	}
	wrong := &message.Error{Code: message.CodeInvalid, Op: op, What: fmt.Sprintf("the messages are not one tool_result of the call %.100q", string(call)), Hint: "send the system's message with that tool_result, and no other"}
	if len(dicts) != 1 || len(dicts[0].Content.Blocks) != 1 {
		return message.ToolResultBlock{}, wrong
	}
	result, ok := dicts[0].Content.Blocks[0].(*v1.ToolResultBlock)
	if !ok || result.ID != call {
		return message.ToolResultBlock{}, wrong
	}
	// The result follows its call, as in the agent's memory.
	use := &v1.Msg{ID: "call", Role: message.RoleAssistant, Content: v1.List(&v1.ToolUseBlock{ID: call, Name: result.Name, Input: message.RawJSON("{}")}), Metadata: message.RawJSON("{}")}
	msgs, err := Convert(op, []*v1.Msg{use, dicts[0]})
	if err != nil {
		return message.ToolResultBlock{}, err
	}
	return *msgs[0].ToolResult(call), nil
}

// Calls makes dicts of the calls of a reply in their current state: the assistant's tool_use
// blocks with the open approval requests, then the results.
func Calls(kind string, reply message.ReplyID, calls []*toolcall.Call) ([]message.RawJSON, []Loss, error) {
	if len(calls) == 0 {
		return []message.RawJSON{}, nil, nil
	}
	m := &message.Msg{
		ID: string(reply), Name: calls[0].Agent, Role: message.RoleAssistant,
		CreatedAt: message.Timestamp(calls[0].ProposedAt), Metadata: map[string]any{}, Content: []message.Block{},
	}
	open := map[message.CallID]string{}
	var results []message.Block
	for _, c := range calls {
		at := message.Timestamp(c.ProposedAt)
		m.Content = append(m.Content, &message.ToolCallBlock{ID: c.Call, Name: c.Tool, Input: c.Input, State: c.State, SuggestedRules: c.Suggested, CreatedAt: at})
		if c.State == message.ToolCallAsking {
			open[c.Call] = c.Digest
		}
		if c.Result != nil {
			results = append(results, c.Result)
		}
	}
	m.Content = append(m.Content, results...)
	return Encode(kind, []*message.Msg{m}, func(_ message.ReplyID, id message.CallID) string { return open[id] })
}

// The media types of JSON whose messages are dicts.
const (
	Type   = "application/vnd.agentscope.v1+json"   // AgentScope 1.x
	Type01 = "application/vnd.agentscope.v0.1+json" // AgentScope 0.1.x
)

var dialects = map[string]v1.Dialect{Type: v1.V1, Type01: v1.V01}

// IsSent reports whether the body of a request has dicts for messages.
func IsSent(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	_, ok := dialects[kind]
	return err == nil && ok
}

// WantedBy returns the media type of dicts if the client prefers it to plain JSON, or else "". A
// tie goes to the type that Accept names first.
func WantedBy(r *http.Request) string {
	best, wanted := 0.0, ""
	for item := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		kind, params, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		if q <= best {
			continue
		}
		if _, ok := dialects[kind]; ok {
			best, wanted = q, kind
		} else if kind == "application/json" || kind == "application/*" || kind == "*/*" {
			best, wanted = q, ""
		}
	}
	return wanted
}
