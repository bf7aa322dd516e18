package asked

import (
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var stepWords = map[toolcall.Cause][2]string{
	toolcall.CausePropose: {"proposed", ""}, toolcall.CauseRefuse: {"refused", "bad"}, toolcall.CauseDeny: {"denied by the policy", "bad"},
	toolcall.CauseAsk: {"approval requested", "ask"}, toolcall.CauseAllow: {"allowed by the policy", "good"}, toolcall.CauseHide: {"waiting for another approval", ""},
	toolcall.CauseApprove: {"approved", "good"}, toolcall.CauseVote: {"approved, more approvals needed", "good"}, toolcall.CauseSkip: {"skipped", ""},
	toolcall.CauseDelegate: {"delegated", ""}, toolcall.CauseEscalate: {"escalated", "ask"}, toolcall.CauseEdit: {"edited", "ask"},
	toolcall.CauseReject: {"rejected", "bad"}, toolcall.CauseRespond: {"responded with a result", "good"}, toolcall.CauseExpire: {"expired", "bad"},
	toolcall.CauseSubmit: {"queued", "work"}, toolcall.CauseStart: {"started", "work"}, toolcall.CauseOffer: {"offered again", "work"},
	toolcall.CauseLose: {"worker lost", "bad"}, toolcall.CauseReturn: {"returned before it started", "bad"}, toolcall.CauseSuspend: {"blocked: needs an operator", "bad"}, toolcall.CauseResult: {"result", "good"},
	toolcall.CauseResolve: {"resolved", "good"}, toolcall.CauseRevoke: {"revoked", "bad"}, toolcall.CauseInterrupt: {"interrupted", "bad"}, toolcall.CauseBypass: {"ran without a decision", "bad"},
}

// Step names a step of a call, with a tone: ask, work, good, bad or none.
func Step(cause string) (word, tone string) {
	c := toolcall.Cause(cause)
	if w, ok := stepWords[c]; ok {
		return w[0], w[1]
	}
	return string(c), ""
}

// Ended says in a word how a finished call ended, and whether that is a success.
func Ended(c *toolcall.Call) (word string, good bool) {
	switch toolcall.Cause(c.Cause) {
	case toolcall.CauseReject:
		return "Rejected", false
	case toolcall.CauseExpire:
		return "Expired", false
	case toolcall.CauseInterrupt:
		return "Interrupted", false
	case toolcall.CauseBypass:
		return "Ran without a decision", false
	case toolcall.CauseDeny:
		return "Denied", false
	case toolcall.CauseRefuse:
		return "Refused", false
	case toolcall.CauseRevoke:
		return "Revoked", false
	case toolcall.CauseRespond:
		return "Responded", true
	}
	if c.Result != nil && c.Result.State != message.ToolResultSuccess {
		return "Failed", false
	}
	return "Done", true
}

// WasAsked reports whether people were asked about the call.
func WasAsked(c *toolcall.Call) bool {
	return c.Request != nil && (len(c.Votes) > 0 || c.State == message.ToolCallAsking ||
		toolcall.Cause(c.Cause) == toolcall.CauseExpire || c.Decision != nil && c.Decision.Behavior == message.BehaviorAsk)
}
