package engine

import (
	"slices"

	"github.com/askance-dev/askance/message"
)

// sessionRule is a suggested rule that an answer accepted as it is, and the
// lease by which it can be revoked.
type sessionRule struct {
	message.PermissionRule
	lease message.LeaseID
}

// remember takes over the rules of a call, once: a call that was forgotten can
// come back.
func (s *sessionView) remember(c *message.Call, lease message.LeaseID) {
	if _, have := s.from[c.Key]; have {
		return
	}
	if s.from == nil {
		s.from = map[message.Key]struct{}{}
	}
	s.from[c.Key] = struct{}{}
	for _, r := range c.Remember {
		s.rules = append(s.rules, sessionRule{r, lease})
	}
}

// sessionRules are the remembered rules of a session that are not known to be
// revoked.
func (v *view) sessionRules(session message.Key) []sessionRule {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.sessions[session]
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.rules), func(r sessionRule) bool {
		l := v.book.get(r.lease)
		return l == nil || l.Revoked != nil
	})
}

// rules are sessionRules as the policy is asked with them.
func (v *view) rules(session message.Key) []message.PermissionRule {
	return bare(v.sessionRules(session))
}

func bare(rules []sessionRule) []message.PermissionRule {
	out := make([]message.PermissionRule, len(rules))
	for i, r := range rules {
		out[i] = r.PermissionRule
	}
	return slices.Clip(out)
}
