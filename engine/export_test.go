package engine

import "github.com/askance-dev/askance/message"

// Remembered gives the rules that answers of a session left behind.
func (e *Engine) Remembered(s message.SessionID) []message.PermissionRule {
	return e.view.rules(message.Key{Space: e.space, Session: s})
}
