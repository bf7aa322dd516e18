package v1

import (
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/object"
	"github.com/askance-dev/askance/toolcall"
)

// Decision is what a user's dict says about one open call, an item of
// metadata.askance.decisions. Digest names the approval request that its author saw.
type Decision struct {
	ToolUseID message.CallID
	Digest    string
	Type      toolcall.ResponseKind // approve, reject, or respond
	Input     *string               // with approve: other arguments
	Message   string                // with reject: why; with respond: the result
	Rules     []message.PermissionRule
}

// Decisions are the decisions of one dict. RequestID names the request: the
// reply's id.
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
	r := ours(m)
	if r == nil || !r.Has("reply_id") {
		return link{}, false
	}
	l := link{Reply: message.ReplyID(r.Text("reply_id")), Part: int(r.IntOr("part", 0))}
	return l, r.Err() == nil && l.Part >= 0
}

// ours is metadata.askance, nil if there is none.
func ours(m *Msg) *object.Reader {
	if strictjson.KindOf(m.Metadata) != "object" {
		return nil
	}
	raw := object.Read(m.Metadata).Raw(own, "")
	if strictjson.KindOf(raw) != "object" {
		return nil
	}
	return object.Read(raw)
}

// request is what metadata.askance says about the open calls among the blocks,
// nil if there are none. 1.x itself has nothing of the kind.
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

func rules(r *object.Reader, name string) []message.PermissionRule {
	var out []message.PermissionRule
	r.Items(name, func(raw []byte) error {
		var rule message.PermissionRule
		err := rule.UnmarshalJSON(raw)
		out = append(out, rule)
		return err
	})
	return out
}

// DecisionsOf reads the decisions of a user's dict, nil if it has none. What
// the dict's text says is never a decision. Members and words that are not
// known refuse the whole.
func DecisionsOf(m *Msg) (*Decisions, error) {
	r := ours(m)
	if r == nil || !r.There("decisions") {
		return nil, nil
	}
	if m.Role != message.RoleUser {
		return nil, message.Errorf(message.CodeForbidden, "read decisions", "message %.60q: only a user's message can decide, this is the %s's", m.ID, m.Role)
	}
	r.Only("request_id", "decisions", "reply_id", "part")
	d := &Decisions{RequestID: r.Text("request_id")}
	r.Need("decisions", func(raw []byte) error {
		return object.Each(raw, func(raw []byte) error {
			item, err := decisionOf(raw)
			d.Items = append(d.Items, item)
			return err
		})
	})
	if len(d.Items) == 0 {
		r.Fail(strictjson.ErrMissingMember, "no decision")
	}
	if err := r.Err(); err != nil {
		return nil, message.Errorf(message.CodeInvalid, "read decisions", "message %.60q: %w", m.ID, err)
	}
	return d, nil
}

func decisionOf(raw []byte) (Decision, error) {
	r := object.Read(raw)
	r.Only("tool_use_id", "digest", "type", "input", "message", "rules")
	d := Decision{ToolUseID: message.CallID(r.Text("tool_use_id")), Digest: r.Text("digest"), Type: toolcall.ResponseKind(r.Text("type")), Message: r.TextOr("message", ""), Rules: rules(r, "rules")}
	if input := r.Raw("input", "object"); input != nil {
		text := string(input)
		d.Input = &text
	}
	if r.Err() != nil {
		return d, r.Err()
	}
	return d, d.check()
}

// check refuses what could be meant in two ways.
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
			bad = "a response in the place of the tool has a message and nothing else"
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

// Responses turns the decisions into answers about calls of the reply that
// RequestID names, in a session. Each answers the approval request that its digest names
// and no other. Calls that no decision names stay open.
func (d *Decisions) Responses(space toolcall.SpaceID, session message.SessionID) ([]toolcall.Response, error) {
	var out []toolcall.Response
	seen := map[message.CallID]bool{}
	for i, item := range d.Items {
		if seen[item.ToolUseID] {
			return nil, message.Errorf(message.CodeInvalid, "answer", "decisions[%d]: a second decision about %.60q", i, string(item.ToolUseID))
		}
		seen[item.ToolUseID] = true
		a := toolcall.Response{
			Key:    toolcall.Key{Space: space, Session: session, Reply: message.ReplyID(d.RequestID), Call: item.ToolUseID},
			Digest: item.Digest, Kind: item.Type, Input: item.Input, Rules: item.Rules,
		}
		if item.Type == toolcall.ResponseRespond {
			a.Output = item.Message
		} else {
			a.Feedback = item.Message
		}
		out = append(out, a)
	}
	return out, nil
}
