package v1

import (
	"reflect"
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/wire"
	"github.com/askance-dev/askance/toolcall"
)

// Decision is what a user's dict says about one open call, an item of metadata.askance.decisions.
// Digest is the digest of the approval request that its author saw.
type Decision struct {
	ToolUseID message.CallID
	Digest    string
	Type      toolcall.ResponseKind // approve, reject, or respond
	Input     *string               // with approve: other arguments
	Message   string                // with reject: why; with respond: the result
	Rules     []message.PermissionRule
}

// Decisions are the decisions of one dict. RequestID is the id of the request, which is
// that of the reply.
type Decisions struct {
	RequestID string
	Items     []Decision
}

// link says which message a dict is a part of.
type link struct {
	Reply message.ReplyID
	Part  int
}

// linkOf reads a dict's link.
func linkOf(m *Msg) (link, bool) {
	members := ownMembers(m)
	if strictjson.KindOf(strictjson.Find(members, "reply_id")) == "null" || !has(members, "reply_id") {
		return link{}, false
	}
	var in struct {
		Reply message.ReplyID `json:"reply_id" wire:"required"`
		Part  int             `json:"part" wire:"null,least=0"`
	}
	err := (&wire.Reader{Format: &format}).Members(members, reflect.ValueOf(&in).Elem())
	return link{in.Reply, in.Part}, err == nil
}

// ownMembers returns the members of metadata.askance, or nil if there are none.
func ownMembers(m *Msg) []strictjson.Member {
	if strictjson.KindOf(m.Metadata) != "object" {
		return nil
	}
	members, _ := strictjson.Members(m.Metadata)
	raw := strictjson.Find(members, own)
	if strictjson.KindOf(raw) != "object" {
		return nil
	}
	members, _ = strictjson.Members(raw)
	return members
}

// request returns what metadata.askance says about the open calls among the blocks, or
// nil if there are none. 1.x itself has nothing like it.
func (s *splitter) request(blocks []message.Block) map[string]any {
	open := s.openCalls(blocks)
	if len(open) == 0 {
		return nil
	}
	calls := make([]any, len(open))
	for i, call := range open {
		c := map[string]any{"tool_use_id": string(call.ID), "state": string(call.State)}
		if s.c.Digest != nil && call.State == message.ToolCallAsking {
			if d := s.c.Digest(message.ReplyID(s.m.ID), call.ID); d != "" {
				c["digest"] = d
			}
		}
		if len(call.SuggestedRules) > 0 {
			c["suggested_rules"] = call.SuggestedRules
		}
		calls[i] = c
	}
	return map[string]any{"request_id": s.m.ID, "calls": calls}
}

// DecisionsOf returns the decisions of a user's dict, or nil if it has none. The text
// of a dict is never a decision. Unknown members and words are an error.
func DecisionsOf(m *Msg) (*Decisions, error) {
	members := ownMembers(m)
	if !has(members, "decisions") {
		return nil, nil
	}
	if m.Role != message.RoleUser {
		return nil, message.Errorf(message.CodeForbidden, "read decisions", "message %.60q: only a user's message can decide, this is the %s's", m.ID, m.Role)
	}
	var in struct {
		RequestID string           `json:"request_id" wire:"required"`
		Decisions []spokenDecision `json:"decisions" wire:"required"`
		Reply     message.RawJSON  `json:"reply_id" wire:"any"`
		Part      message.RawJSON  `json:"part" wire:"any"`
		_         struct{}         `wire:"closed"`
	}
	err := (&wire.Reader{Format: &format}).Members(members, reflect.ValueOf(&in).Elem())
	d := &Decisions{RequestID: in.RequestID}
	for i := 0; i < len(in.Decisions) && err == nil; i++ {
		item := in.Decisions[i].decision()
		if err = item.check(); err != nil {
			err = strictjson.Within(err, "decode", "/decisions/"+strconv.Itoa(i), -1)
		}
		d.Items = append(d.Items, item)
	}
	if err == nil && len(d.Items) == 0 {
		err = strictjson.Wrong(strictjson.ErrMissingMember, "no decision")
	}
	if err != nil {
		return nil, message.Errorf(message.CodeInvalid, "read decisions", "message %.60q: %w", m.ID, err)
	}
	return d, nil
}

// spokenDecision is a [Decision] as it is written in a dict.
type spokenDecision struct {
	ToolUseID message.CallID           `json:"tool_use_id" wire:"required"`
	Digest    string                   `json:"digest" wire:"required"`
	Type      toolcall.ResponseKind    `json:"type" wire:"required"`
	Input     message.RawJSON          `json:"input" wire:"object,null"`
	Message   string                   `json:"message" wire:"null"`
	Rules     []message.PermissionRule `json:"rules" wire:"null"`
	_         struct{}                 `wire:"closed"`
}

func (s *spokenDecision) decision() Decision {
	d := Decision{ToolUseID: s.ToolUseID, Digest: s.Digest, Type: s.Type, Message: s.Message}
	if s.Input != nil {
		d.Input = new(string(s.Input))
	}
	if len(s.Rules) > 0 {
		d.Rules = s.Rules
	}
	return d
}

// check refuses ambiguous decisions.
func (d Decision) check() error {
	bad := ""
	switch d.Type {
	case toolcall.ResponseApprove:
		if d.Message != "" {
			bad = "an approval with a message, which has no reader"
		}
	case toolcall.ResponseReject:
		if d.Input != nil || d.Rules != nil {
			bad = "a rejection with input or rules"
		}
	case toolcall.ResponseRespond:
		if d.Input != nil || d.Rules != nil || d.Message == "" {
			bad = "a response in place of the tool without a message, or with input or rules"
		}
	default:
		bad = "the type is none of approve, reject, respond"
	}
	if d.Digest == "" {
		bad = "the digest of the approval request is empty"
	}
	if bad != "" {
		return strictjson.Wrong(strictjson.ErrType, "%s", bad)
	}
	return nil
}

// Responses converts the decisions to responses about calls of the reply that RequestID
// names, in a session. Each responds only to the approval request with its digest.
// Calls without a decision stay open.
func (d *Decisions) Responses(space toolcall.SpaceID, session message.SessionID) ([]toolcall.Response, error) {
	var out []toolcall.Response
	seen := map[message.CallID]bool{}
	for i, item := range d.Items {
		if seen[item.ToolUseID] {
			return nil, message.Errorf(message.CodeInvalid, "answer", "decisions[%d]: a second decision about %.60q", i, string(item.ToolUseID))
		}
		seen[item.ToolUseID] = true
		resp := toolcall.Response{
			Key:    toolcall.Key{Space: space, Session: session, Reply: message.ReplyID(d.RequestID), Call: item.ToolUseID},
			Digest: item.Digest, Kind: item.Type, Input: item.Input, Rules: item.Rules,
		}
		if item.Type == toolcall.ResponseRespond {
			resp.Output = item.Message
		} else {
			resp.Feedback = item.Message
		}
		out = append(out, resp)
	}
	return out, nil
}
