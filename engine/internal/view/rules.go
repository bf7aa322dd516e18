package view

import (
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// SessionRule is a suggested rule that an answer accepted as it is, and the
// lease by which it can be revoked.
type SessionRule struct {
	message.PermissionRule
	Standing toolcall.StandingID
}

// remember takes over the rules of a call, once: a call that was forgotten can
// come back.
func (s *sessionView) remember(c *toolcall.Call, standing toolcall.StandingID) {
	if _, have := s.from[c.Key]; have {
		return
	}
	if s.from == nil {
		s.from = map[toolcall.Key]struct{}{}
	}
	s.from[c.Key] = struct{}{}
	for _, r := range c.Remember {
		s.rules = append(s.rules, SessionRule{r, standing})
	}
}

// SessionRules are the standing approvals of a session that are not known to be
// revoked.
func (v *View) SessionRules(session toolcall.Key) []SessionRule {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.sessions[session]
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.rules), func(r SessionRule) bool {
		l := v.Book.Get(r.Standing)
		return l == nil || l.Revoked != nil
	})
}

// Rules are sessionRules as the policy is asked with them.
func (v *View) Rules(session toolcall.Key) []message.PermissionRule {
	return WithoutStandingApprovals(v.SessionRules(session))
}

// WithoutStandingApprovals are the rules alone, as the policy is asked with them.
func WithoutStandingApprovals(rules []SessionRule) []message.PermissionRule {
	out := make([]message.PermissionRule, len(rules))
	for i, r := range rules {
		out[i] = r.PermissionRule
	}
	return slices.Clip(out)
}
