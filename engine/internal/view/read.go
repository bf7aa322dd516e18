package view

import (
	"cmp"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Call returns the view's copy of a call, or nil. The caller must not change it.
func (v *View) Call(key toolcall.Key) *toolcall.Call {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.calls[key]
}

// Session returns a session's own entity and its sequence, or zero if it is unknown here.
func (v *View) Session(session toolcall.Key) (toolcall.SessionState, uint64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if s := v.sessions[session]; s != nil {
		return s.state, s.seq
	}
	return toolcall.SessionState{}, 0
}

// Tool returns the tool definition with this hash, or nil if it is unknown here.
func (v *View) Tool(hash string) *toolcall.DeclaredTool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.tools[hash]
}

// ReplyState returns the last known event record of a reply's own entity and its sequence.
func (v *View) ReplyState(key toolcall.Key) (*toolcall.ReplyState, uint64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if r := v.replies[key.ReplyKey()]; r != nil {
		return r.state, r.seq
	}
	return nil, 0
}

// ReplyPhase returns the phase of a reply up to Sequence, or "" if it may have been forgotten.
func (v *View) ReplyPhase(reply toolcall.Key) toolcall.ReplyPhase {
	v.mu.RLock()
	defer v.mu.RUnlock()
	switch r := v.replies[reply]; {
	case r != nil && r.state != nil:
		return r.state.Phase
	case (r == nil || r.gaps) && v.closed.mayHave(v, reply):
		return ""
	}
	return toolcall.ReplyOpen
}

// CallsOf returns the calls of a reply that are in memory, in the order in which they
// were proposed.
func (v *View) CallsOf(key toolcall.Key) []*toolcall.Call {
	v.mu.RLock()
	defer v.mu.RUnlock()
	r := v.replies[key.ReplyKey()]
	if r == nil {
		return nil
	}
	out := make([]*toolcall.Call, 0, len(r.calls))
	for _, k := range r.calls {
		out = append(out, v.calls[k])
	}
	return out
}

// HasAllOf reports whether CallsOf returns every call of the reply that the view has
// seen.
func (v *View) HasAllOf(key toolcall.Key) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	r := v.replies[key.ReplyKey()]
	return r != nil && !r.gaps && len(r.calls) > 0
}

// OpenCalls returns the open calls in these phases, or all of them, in no particular order.
func (v *View) OpenCalls(phases ...toolcall.Phase) []*toolcall.Call {
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := make([]*toolcall.Call, 0, v.orders.open)
	for k, g := range v.orders.groups {
		if k.state != message.ToolCallFinished && (len(phases) == 0 || slices.Contains(phases, k.phase)) {
			out = g.proposed.appendTo(out)
		}
	}
	return out
}

// count adds by to the numbers of the reply and the view in which an open call counts.
func (r *replyView) count(v *View, c *toolcall.Call, by int) {
	if c == nil || !c.Open() {
		return
	}
	r.open += by
	if c.Phase() == toolcall.PhaseBlocked {
		v.blocked += by
	}
	if c.ReturnText() != "" {
		v.returned += by
	}
}

// Counts returns the number of open calls, of those that wait for an operator, and of
// those whose tasks workers returned.
func (v *View) Counts() (open, blocked, returned int) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.orders.open, v.blocked, v.returned
}

// EndedBefore returns the calls that ended below a sequence, latest first, and the sequence
// up to which some may be missing. last is the highest sequence at which a call ended. It
// leaves out calls that ended at records which the watch has not delivered yet.
func (v *View) EndedBefore(seq uint64) (calls []Ended, floor, last uint64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, e := range v.recent {
		if c := v.calls[e.key]; c != nil && e.seq > v.floor && e.seq < seq && e.seq <= v.seq {
			calls = append(calls, Ended{c, e.seq})
		}
	}
	slices.SortFunc(calls, func(a, b Ended) int { return cmp.Compare(b.Seq, a.Seq) })
	return calls, v.floor, v.lastEnd
}

// InterruptedReplies returns the replies whose interrupt has not been completed: those
// that have not ended, or still have an open call.
func (v *View) InterruptedReplies() []toolcall.Key {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []toolcall.Key
	for k, r := range v.replies {
		if r.state != nil && (r.state.Phase == toolcall.ReplyInterrupted || r.state.Phase == toolcall.ReplyEnded && r.open > 0) {
			out = append(out, k)
		}
	}
	return out
}

// HasForgotten reports whether finished calls were dropped.
func (v *View) HasForgotten() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.dropped
}

// SessionRule is a suggested rule that a response accepted unchanged, and the standing
// approval through which it can be revoked.
type SessionRule struct {
	message.PermissionRule
	Standing toolcall.StandingID
}

// rememberRules adds the rules of a call, once: a call that was forgotten may be read
// again.
func (s *sessionView) rememberRules(c *toolcall.Call, standing toolcall.StandingID, seq uint64) {
	if _, have := s.from[c.Key]; have {
		return
	}
	if s.from == nil {
		s.from = map[toolcall.Key]struct{}{}
	}
	s.from[c.Key], s.gave = struct{}{}, append(s.gave, seq)
	for _, r := range c.Remember {
		s.rules = append(s.rules, SessionRule{r, standing})
	}
}

// SessionRules returns the remembered rules of a call's session that are not known to be
// revoked. It leaves out rules for the call's tool under another definition.
func (v *View) SessionRules(c *toolcall.Call) []SessionRule {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.sessions[c.SessionKey()]
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.rules), func(r SessionRule) bool {
		sa := v.Book.Get(r.Standing)
		return sa == nil || sa.Revoked != nil || sa.Tool == c.Tool && sa.Definition != c.DefinitionHash()
	})
}

// Rules returns SessionRules in the form that the policy takes.
func (v *View) Rules(c *toolcall.Call) []message.PermissionRule {
	return WithoutStandingApprovals(v.SessionRules(c))
}

// WithoutStandingApprovals returns only the rules, in the form that the policy takes.
func WithoutStandingApprovals(rules []SessionRule) []message.PermissionRule {
	out := make([]message.PermissionRule, len(rules))
	for i, r := range rules {
		out[i] = r.PermissionRule
	}
	return slices.Clip(out)
}
