package executortest

import (
	"fmt"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Key returns the key that Record gives to a call.
func Key(id message.CallID) toolcall.Key {
	return toolcall.Key{Space: "test", Session: "session-1", Reply: "reply-1", Call: id}
}

// Record returns the submitted event record of a call's first attempt: decided by a rule,
// granted for an hour from now, and signed. It is not offered yet.
func (e *Engine) Record(id message.CallID, input string) *toolcall.EventRecord {
	return e.Attempt(id, input, 1)
}

// Attempt is like Record, but for the attempt with number n.
func (e *Engine) Attempt(id message.CallID, input string, n int) *toolcall.EventRecord {
	now := time.Now().UTC()
	k := Key(id)
	rec := &toolcall.EventRecord{
		V: toolcall.RecordVersion, ID: fmt.Sprintf("%s-submitted-%d", id, n), At: now, Engine: "engine-1",
		Path: []toolcall.Step{{Cause: "submit", From: message.ToolCallAllowed, To: message.ToolCallSubmitted}},
		By:   toolcall.Principal{Role: toolcall.RoleEngine, Name: "engine-1", Auth: "in-process"},
		Call: &toolcall.Call{
			Key: k, Runtime: "runtime-1", Tool: e.tool, Input: input,
			State: message.ToolCallSubmitted, Cause: "submit", Placement: toolcall.PlaceRemote,
			ProposedAt: now, UpdatedAt: now, Records: n,
			Request: &toolcall.ApprovalRequest{
				V: 1, Key: k, Tool: e.tool, Input: input, Rule: "allow-tests",
				Reason: "a rule allows it", Bundle: "sha256:test",
			},
			Attempt: toolcall.Attempt{
				Number: n, Offers: 1, OfferedAt: now,
				Grant: &toolcall.Grant{
					V: 1, Key: k, IdempotencyKey: k.IdempotencyKey(), Tool: e.tool, Attempt: n,
					Bundle: "sha256:test", Approvals: []toolcall.Approval{}, NotBefore: now,
					Expires: now.Add(time.Hour), Nonce: fmt.Sprintf("nonce-%s-%d", id, n),
				},
			},
		},
	}
	e.Sign(rec)
	return rec
}

// Sign computes the digest of the event record's approval request again and signs its
// grant, for a test that has changed either of them. It panics if the approval request has
// no digest, which is a fault of the test.
func (e *Engine) Sign(rec *toolcall.EventRecord) {
	c := rec.Call
	digest, err := c.Request.Digest()
	if err == nil {
		c.Digest, c.Attempt.Grant.Digest = digest, digest
		err = c.Attempt.Grant.Sign(e.key)
	}
	if err != nil {
		panic("executortest: sign " + c.Key.String() + ": " + err.Error())
	}
}
