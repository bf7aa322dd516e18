package asked

import (
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var stepWords = map[toolcall.Cause][2]string{
	toolcall.Propose: {"proposed", ""}, toolcall.Refuse: {"refused", "bad"}, toolcall.Deny: {"denied by the policy", "bad"},
	toolcall.Ask: {"approval requested", "ask"}, toolcall.Allow: {"allowed by the policy", "good"}, toolcall.Hide: {"waiting for another approval", ""},
	toolcall.Approve: {"approved", "good"}, toolcall.Vote: {"approved, more approvals needed", "good"}, toolcall.Skip: {"skipped", ""},
	toolcall.Delegate: {"delegated", ""}, toolcall.Escalate: {"escalated", "ask"}, toolcall.Edit: {"edited", "ask"},
	toolcall.Reject: {"rejected", "bad"}, toolcall.Respond: {"responded with a result", "good"}, toolcall.Expire: {"expired", "bad"},
	toolcall.Submit: {"queued", "work"}, toolcall.Start: {"started", "work"}, toolcall.Offer: {"offered again", "work"},
	toolcall.Lose: {"worker lost", "bad"}, toolcall.Return: {"returned before it started", "bad"}, toolcall.Suspend: {"blocked: needs an operator", "bad"}, toolcall.Result: {"result", "good"},
	toolcall.Resolve: {"resolved", "good"}, toolcall.Revoke: {"revoked", "bad"}, toolcall.Interrupt: {"interrupted", "bad"},
}

// Step words an arrow of a call, with a tone: ask, work, good, bad or none.
func Step(cause string) (word, tone string) {
	c := toolcall.Cause(cause)
	if w, ok := stepWords[c]; ok {
		return w[0], w[1]
	}
	return string(c), ""
}

// Ended says in a word how a finished call ended, and whether that is what was
// wanted.
func Ended(c *message.Call) (word string, good bool) {
	switch toolcall.Cause(c.Cause) {
	case toolcall.Reject:
		return "Rejected", false
	case toolcall.Expire:
		return "Expired", false
	case toolcall.Interrupt:
		return "Interrupted", false
	case toolcall.Deny:
		return "Denied", false
	case toolcall.Refuse:
		return "Refused", false
	case toolcall.Revoke:
		return "Revoked", false
	case toolcall.Respond:
		return "Responded", true
	}
	if c.Result != nil && c.Result.State != message.ToolResultSuccess {
		return "Failed", false
	}
	return "Done", true
}

// WasAsked reports whether people were asked about the call.
func WasAsked(c *message.Call) bool {
	return c.Request != nil && (len(c.Votes) > 0 || c.State == message.ToolCallAsking ||
		toolcall.Cause(c.Cause) == toolcall.Expire || c.Decision != nil && c.Decision.Behavior == message.BehaviorAsk)
}

// Fate is what became of an approval request.
type Fate string

// What can become of an approval request.
const (
	FateOpen      Fate = "open"
	FateApproved  Fate = "approved"
	FateEdited    Fate = "edited"   // approved with other arguments
	FateResponded Fate = "answered" // instead of the tool
	FateRejected  Fate = "rejected" // by a person, or by the policy after an answer
	FateExpired   Fate = "expired"  // or interrupted
)

// FateOf is what became of the call's approval request.
func FateOf(c *message.Call) Fate {
	if c.State == message.ToolCallAsking {
		return FateOpen
	}
	switch toolcall.Cause(c.Cause) {
	case toolcall.Reject, toolcall.Deny:
		return FateRejected
	case toolcall.Respond:
		return FateResponded
	case toolcall.Expire:
		return FateExpired
	case toolcall.Interrupt:
		if !c.Tally().Agreed {
			return FateExpired
		}
	}
	if slices.ContainsFunc(c.Votes, func(v message.Vote) bool { return v.Edited }) {
		return FateEdited
	}
	return FateApproved
}
