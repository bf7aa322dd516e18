package mcp

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// state is what a modern client returns as requestState. The client could change it, so the
// gateway accepts it only with its own authentication code.
type state struct {
	Call      message.CallID    `json:"call"`
	Session   message.SessionID `json:"session"`
	Principal string            `json:"principal"`
	Digest    string            `json:"digest"` // of tool and arguments
	Until     int64             `json:"until"`
	// Leg counts the questions of the upstream.
	Leg int `json:"leg,omitzero"`
	// Request is the digest of the approval request that a form showed.
	Request string `json:"request,omitzero"`
}

// stateTime is how long a client may return a state.
const stateTime = 24 * time.Hour

func (g *Gateway) mac(kind string, text []byte) []byte {
	m := hmac.New(sha256.New, g.cfg.Key)
	m.Write([]byte(kind))
	m.Write([]byte{0})
	m.Write(text)
	return m.Sum(nil)
}

func (g *Gateway) sealState(s state) string {
	text := encode(s)
	return base64.RawURLEncoding.EncodeToString(text) + "." + base64.RawURLEncoding.EncodeToString(g.mac("state", text))
}

var errState = badParams("invalid requestState: it was changed, is too old, or belongs to another request. Call the tool again without it")

// openState reads a state that a client returned for a request.
func (g *Gateway) openState(sealed, principal, digest string) (state, error) {
	var s state
	head, tail, _ := strings.Cut(sealed, ".")
	text, err := base64.RawURLEncoding.DecodeString(head)
	mac, merr := base64.RawURLEncoding.DecodeString(tail)
	if err != nil || merr != nil || !hmac.Equal(mac, g.mac("state", text)) {
		return s, errState
	}
	if err := strictjson.Unmarshal(text, &s); err != nil || s.Principal != principal || s.Digest != digest || time.Now().Unix() > s.Until {
		return s, errState
	}
	return s, nil
}

// newCallID makes the id of a call. It is bound to the principal, so that no other principal can
// ask for the result.
func (g *Gateway) newCallID(principal string) message.CallID {
	id := rand.Text()
	return message.CallID("mcp_" + id + "_" + g.tagOf(id, principal))
}

func (g *Gateway) tagOf(id, principal string) string {
	return hex.EncodeToString(g.mac("call", []byte(id+"\x00"+principal))[:8])
}

// ownsCall reports whether a call id was made for a principal.
func (g *Gateway) ownsCall(id message.CallID, principal string) bool {
	rest, found := strings.CutPrefix(string(id), "mcp_")
	random, tag, two := strings.Cut(rest, "_")
	return found && two && hmac.Equal([]byte(tag), []byte(g.tagOf(random, principal)))
}

func digestOf(tool string, arguments json.RawMessage) string {
	sum := sha256.Sum256([]byte(tool + "\x00" + string(arguments)))
	return hex.EncodeToString(sum[:])
}

// maxFormInput bounds the arguments that a form shows.
const maxFormInput = 4 << 10

// canForm reports whether the client's user may be asked to decide here: the operator
// permits it, and the client has forms.
func (p *peer) canForm(call *toolcall.Call) bool {
	return p.g.cfg.Vote != nil && p.modern && p.can("elicitation", "form") && call.Digest != "" && len(call.Input) <= maxFormInput
}

// askToDecide is a form with which the client's user approves or rejects.
func askToDecide(call *toolcall.Call) json.RawMessage {
	params := map[string]any{
		"mode": "form", "message": "Run " + reveal.Text(call.Tool) + " with " + reveal.Text(call.Input) + "?",
		"requestedSchema": map[string]any{"type": "object", "required": []string{"decision"}, "properties": map[string]any{
			"decision": map[string]any{"type": "string", "description": "Whether the call may run.", "enum": []string{"approve", "reject"}},
			"feedback": map[string]any{"type": "string", "description": "What the model is told with a rejection."},
		}},
	}
	return encode(map[string]any{"askance": map[string]any{"method": "elicitation/create", "params": params}})
}

// resume handles what a client sends with a state: answers for the server, or a vote.
func (e *exchange) resume(ctx context.Context, h *held, s state) {
	responses := e.params.get("inputResponses")
	h.takeAnswers(s.Leg, responses)
	vote := e.peer.g.cfg.Vote
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
	if err := vote(ctx, e.peer.principal, r); err != nil {
		e.peer.g.cfg.Log.Warn("a form does not count", "call", call.Call, "principal", e.peer.principal, "error", err)
	}
}
