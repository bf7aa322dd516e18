package engine

import (
	"context"

	"github.com/askance-dev/askance/message"
)

// This file is about calls that hide behind the approval request of another one.

// hiddenBehind finds an earlier call of the same batch whose open approval request,
// answered with its suggested rules, would allow this call as well. Asking
// twice at once would be noise.
func (e *Engine) hiddenBehind(ctx context.Context, c *message.Call, earlier []*message.Call) message.CallID {
	for _, o := range earlier {
		if now := e.view.Call(o.Key); now != nil {
			o = now
		}
		if o.State != message.ToolCallAsking || len(o.Suggested) == 0 || !e.together(o, c) {
			continue
		}
		rules := append(e.view.Rules(c.SessionKey()), o.Suggested...)
		if d := e.policy.Decide(ctx, e.request(c, c.Input, rules)); d.Behavior == message.BehaviorAllow {
			return o.Call
		}
	}
	return ""
}

// together reports whether two calls of one reply belong to one
// concurrency-safe group.
func (e *Engine) together(a, b *message.Call) bool {
	return a.Batch.Number == b.Batch.Number && a.Batch.Group == b.Batch.Group && e.safe(a.Tool) && e.safe(b.Tool)
}

// hides reports whether a call is hidden behind an approval request that is still open.
func (e *Engine) hides(c *message.Call) bool {
	if c.Behind == "" {
		return false
	}
	key := c.Key
	key.Call = c.Behind
	o := e.view.Call(key)
	return o != nil && o.State == message.ToolCallAsking
}

// overtakes reports whether one of the calls before c in its group is still to
// be decided: it may ask, and c hide behind its approval request.
func (e *Engine) overtakes(c *message.Call, earlier []*message.Call) bool {
	for _, o := range earlier {
		if now := e.view.Call(o.Key); now != nil {
			o = now
		}
		if o.State == message.ToolCallPending && e.together(o, c) && !e.hides(o) {
			return true
		}
	}
	return false
}
