package mcp

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

// maxFormInput bounds the arguments that a form shows.
const maxFormInput = 4 << 10

// canForm reports whether the client's user may be asked to decide here: the operator
// permits it, and the client has forms.
func (h *held) canForm(p *peer, call *toolcall.Call) bool {
	return p.g.cfg.Vote != nil && p.modern && p.can("elicitation", "form") && call.Digest != "" && len(call.Input) <= maxFormInput
}

// askToDecide is a form with which the client's user approves or rejects.
func askToDecide(call *toolcall.Call) json.RawMessage {
	text := func(description string, more map[string]any) map[string]any {
		out := map[string]any{"type": "string", "description": description}
		maps.Copy(out, more)
		return out
	}
	params := map[string]any{
		"mode": "form", "message": "Run " + reveal.Text(call.Tool) + " with " + reveal.Text(call.Input) + "?",
		"requestedSchema": map[string]any{"type": "object", "required": []string{"decision"}, "properties": map[string]any{
			"decision": text("Whether the call may run.", map[string]any{"enum": []string{"approve", "reject"}}),
			"feedback": text("What the model is told with a rejection.", nil),
		}},
	}
	return encode(map[string]any{"askance": map[string]any{"method": "elicitation/create", "params": params}})
}

// resume handles what a client sends with a state: answers for the server, or a vote.
func (x *exchange) resume(ctx context.Context, h *held, s state) {
	responses := x.params.get("inputResponses")
	h.takeAnswers(s.Leg, responses)
	vote := x.peer.g.cfg.Vote
	answer := objectOf(objectOf(responses).get("askance"))
	if vote == nil || s.Request == "" || answer.text("action") != "accept" {
		return
	}
	h.mu.Lock()
	call := h.call
	h.mu.Unlock()
	content := objectOf(answer.get("content"))
	r := toolcall.Response{V: 1, Key: call.Key, ID: "mcp-form-" + string(call.Call), Digest: s.Request, Kind: toolcall.ResponseKind(content.text("decision"))}
	switch r.Kind {
	case toolcall.ResponseApprove:
	case toolcall.ResponseReject:
		r.Feedback = content.text("feedback")
	default:
		return
	}
	if err := vote(ctx, x.peer.principal, r); err != nil {
		x.peer.g.cfg.Log.Warn("a form does not count", "call", call.Call, "principal", x.peer.principal, "error", err)
	}
}
