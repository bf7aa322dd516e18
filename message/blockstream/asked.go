package blockstream

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Asked is one approval_request as it was first sent. Positional decisions depend on the
// order of its calls: store it as it is (it is plain JSON) and never compute it again.
type Asked struct {
	Key            string            `json:"approval_key"`
	Session        message.SessionID `json:"session_id"`
	MessageID      message.ReplyID   `json:"message_id"`
	Calls          []AskedCall       `json:"calls"`
	TimeoutSeconds int64             `json:"timeout_seconds,omitzero"` // as sent to the client
}

// AskedCall is one call of an approval_request: exactly what the person saw, and the digest
// of that approval request.
type AskedCall struct {
	toolcall.Key
	Tool           string                   `json:"tool_name"`
	Input          string                   `json:"input"`
	Digest         string                   `json:"digest,omitzero"`
	Text           string                   `json:"text,omitzero"`
	SuggestedRules []message.PermissionRule `json:"suggested_rules,omitzero"`
}

// FromCall makes the approval_request for a call of the engine that is asking, for
// [Mapper.Resend], however old it is. It has the same key as the one made from the event of
// the approval request, if Config.Request knows its digest. The time limit counts from now.
func FromCall(c *toolcall.Call, now time.Time) (Asked, error) {
	if c == nil || c.State != message.ToolCallAsking || c.Request == nil || c.Digest == "" {
		return Asked{}, message.Errorf(message.CodeState, "ask", "there is no call with an open approval request")
	}
	if !isObject(c.Input) {
		return Asked{}, message.Errorf(message.CodeInvalid, "ask", "%w: call %s", ErrUnshowable, c.Key)
	}
	a := Asked{Session: c.Session, MessageID: c.Reply, Calls: []AskedCall{{
		Key: c.Key, Tool: c.Tool, Input: c.Input, Digest: c.Digest, Text: c.RequestText(), SuggestedRules: slices.Clone(c.Suggested),
	}}}
	a.limit(c.Request.Requirement.Ends(), now)
	a.Key = approvalKey(a.Session, "", a.Calls)
	return a, nil
}

// limit sets the time limit to the earliest deadline, at least one second.
func (a *Asked) limit(deadline, now time.Time) {
	if deadline.IsZero() {
		return
	}
	left := max(1, int64(deadline.Sub(now).Seconds()))
	if a.TimeoutSeconds == 0 || left < a.TimeoutSeconds {
		a.TimeoutSeconds = left
	}
}

// approvalKey identifies an approval request: by the session and, where the original uses a
// count, a number from a hash of what is asked: of the digests or, if they are unknown, of
// the event and the calls. A count would differ after a restart or with another retention,
// and an old card would then answer another approval request.
func approvalKey(session message.SessionID, event string, calls []AskedCall) string {
	h := sha256.New()
	part := func(s string) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	part("askance-approval-v1")
	if slices.ContainsFunc(calls, func(c AskedCall) bool { return c.Digest == "" }) {
		part(event)
	}
	for _, c := range calls {
		part(c.String())
		part(c.Tool)
		part(c.Input)
		part(c.Digest)
	}
	const bits = 62 // fits into the signed integers of all client languages
	number := binary.BigEndian.Uint64(h.Sum(nil)) >> (64 - bits)
	return string(session) + "_" + strconv.FormatUint(number, 10)
}

// frames returns the block's start, delta and stop, readable in either form.
func (a *Asked) frames() (*ApprovalRequest, *ApprovalDelta) {
	actions := make([]Action, len(a.Calls))
	configs := make([]ReviewConfig, len(a.Calls))
	for i, c := range a.Calls {
		actions[i] = Action{
			Name: c.Tool, Args: message.RawJSON(c.Input), ToolUseID: c.Call,
			Description: c.Text, SuggestedRules: c.SuggestedRules,
		}
		configs[i] = ReviewConfig{RequireApproval: true, Timeout: a.TimeoutSeconds}
	}
	return &ApprovalRequest{ApprovalKey: a.Key, Actions: actions, ReviewConfigs: configs},
		&ApprovalDelta{Actions: actions, ReviewConfigs: configs, TimeoutSeconds: a.TimeoutSeconds}
}
