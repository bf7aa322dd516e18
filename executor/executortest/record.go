package executortest

import (
	"fmt"
	"time"

	"github.com/askance-dev/askance/message"
)

// Key is the key that Event record gives to a call.
func Key(id message.CallID) message.Key {
	return message.Key{Space: "test", Session: "session-1", Reply: "reply-1", Call: id}
}

// Record makes the submitted event record of a call's first attempt: decided by a rule,
// granted for an hour from now, signed. It is not offered yet.
func (e *Engine) Record(id message.CallID, input string) *message.EventRecord {
	return e.Attempt(id, input, 1)
}

// Attempt is Event record for the attempt with number n.
func (e *Engine) Attempt(id message.CallID, input string, n int) *message.EventRecord {
	now := time.Now().UTC()
	k := Key(id)
	f := &message.EventRecord{
		V: message.RecordVersion, ID: fmt.Sprintf("%s-submitted-%d", id, n), At: now, Engine: "engine-1",
		Path: []message.Step{{Cause: "submit", From: message.ToolCallAllowed, To: message.ToolCallSubmitted}},
		By:   message.Principal{Role: message.RoleEngine, Name: "engine-1", Auth: "in-process"},
		Call: &message.Call{
			Key: k, Runtime: "runtime-1", Tool: e.tool, Input: input,
			State: message.ToolCallSubmitted, Cause: "submit", Placement: message.PlaceRemote,
			ProposedAt: now, UpdatedAt: now, Records: n,
			Request: &message.ApprovalRequest{
				V: 1, Key: k, Tool: e.tool, Input: input, Rule: "allow-tests",
				Reason: "a rule allows it", Bundle: "sha256:test",
			},
			Attempt: message.Attempt{
				Number: n, Offers: 1, OfferedAt: now,
				Grant: &message.Grant{
					V: 1, Key: k, IdempotencyKey: k.IdempotencyKey(), Tool: e.tool, Attempt: n,
					Bundle: "sha256:test", Approvals: []message.Approval{}, NotBefore: now,
					Expires: now.Add(time.Hour), Nonce: fmt.Sprintf("nonce-%s-%d", id, n),
				},
			},
		},
	}
	e.Sign(f)
	return f
}

// Sign computes the digest of the event record's approval request anew and signs its grant,
// for a test that has changed either and wants an honest engine to stand for
// it. It panics when the approval request has no digest, which is a fault of the test.
func (e *Engine) Sign(f *message.EventRecord) {
	c := f.Call
	digest, err := c.Request.Digest()
	if err == nil {
		c.Digest, c.Attempt.Grant.Digest = digest, digest
		err = c.Attempt.Grant.Sign(e.key)
	}
	if err != nil {
		panic("executortest: sign " + c.Key.String() + ": " + err.Error())
	}
}
