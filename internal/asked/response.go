package asked

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Verb names the button that sends a response.
func Verb(resp toolcall.Response) string {
	if resp.Kind == toolcall.ResponseApprove && resp.Input != nil {
		return "Approve as edited"
	}
	return cmp.Or(verbs[resp.Kind], string(resp.Kind))
}

var verbs = map[toolcall.ResponseKind]string{
	toolcall.ResponseApprove: "Approve", toolcall.ResponseReject: "Reject", toolcall.ResponseRespond: "Respond",
	toolcall.ResponseSkip: "Skip", toolcall.ResponseDelegate: "Delegate",
}

// Refusal is the engine's error text, without the operation.
func Refusal(err error) string {
	me, ok := errors.AsType[*message.Error](err)
	if !ok {
		return err.Error()
	}
	if c := toolcall.CallOf(me); c != nil && c.State != message.ToolCallAsking {
		return "too late, it was " + Verdict(c, "")
	}
	text := me.What
	if me.Hint != "" {
		text += " (" + me.Hint + ")"
	}
	return text
}

// Stated is what an operator can state about a call.
type Stated struct {
	Outcome toolcall.Outcome
	Text    string
}

// Outcomes returns what an operator can state about a call, the usual first.
func Outcomes(c *toolcall.Call) []Stated {
	out := []Stated{
		{toolcall.OutcomeHappened, "It happened: enter its result"},
		{toolcall.OutcomeDidNot, "It did not happen: end the call with an error"},
		{toolcall.OutcomeRunAgain, "Run it again, as a new attempt"},
	}
	if c.Placement == toolcall.PlaceExternal { // only its runtime can run it
		return out[:2]
	}
	return out
}

// WhyBlocked says why a call waits for an operator, or nothing if it does not.
func WhyBlocked(c *toolcall.Call) string {
	switch c.Blocked {
	case toolcall.NotBlocked:
		return ""
	case toolcall.BlockedUnknown:
		if c.Placement == toolcall.PlaceExternal {
			return "its runtime does not know whether it ran"
		}
		return "its worker reported no result in time, so the outcome is unknown"
	case toolcall.BlockedDeadLetter:
		return "every permitted attempt was lost"
	case toolcall.BlockedNoWorker:
		return "no worker took it in time"
	case toolcall.BlockedReturned:
		return c.ReturnText()
	case toolcall.BlockedClock, toolcall.BlockedKey:
		return c.BlockedReason
	}
	return string(c.Blocked)
}

// Resolved describes a call after an operator resolved it.
func Resolved(c *toolcall.Call) string { return "Resolved: the call is " + string(c.Phase()) + "." }

// IsUnsure reports whether a response may count although its sender got an error.
func IsUnsure(err error) bool {
	me, ok := errors.AsType[*message.Error](err)
	return err != nil && (!ok || me.Code == message.CodeUnknownOutcome || me.Code == message.CodeInternal)
}

// Unsure says what to do about a response that may count.
const Unsure = "outcome unknown: it may count. Open the request to see, or send it again, which does no harm"

// Outcome describes a call after a response.
func Outcome(resp toolcall.Response, c *toolcall.Call) string {
	if c == nil {
		return "sent"
	}
	v, ok := LastVote(c)
	text := Verb(resp)
	if ok {
		text = Said(v)
	}
	switch {
	case c.State != message.ToolCallAsking:
		if c.Result != nil && c.Result.State != message.ToolResultSuccess && v.Kind == toolcall.ResponseApprove {
			return fmt.Sprintf("%s, but %s (%s)", text, c.Result.State, c.Cause)
		}
		if len(c.StandingApprovals) > 0 && c.Open() {
			return fmt.Sprintf("%s, the call is %s, and a standing approval allows later calls", text, c.Phase())
		}
		return fmt.Sprintf("%s, the call is %s", text, c.Phase())
	case c.Digest != resp.Digest:
		return "edited: it needs another approval, because " + c.Request.Reason
	}
	missing := 0
	for _, p := range c.Tally().Parts {
		missing += p.Missing
	}
	return fmt.Sprintf("%s, %s needed", text, Count(missing, "more approval"))
}

// Forged says why the digest does not match what is shown, or "" if it does.
func Forged(c *toolcall.Call, digest string) string {
	own, err := c.Request.Digest()
	if err == nil && own == digest {
		return ""
	}
	return "The digest of the engine does not match the approval request that it sent. Do not respond to it; tell the operator of the engine."
}

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
	cause := toolcall.Cause(c.Cause)
	if word, ok := endWords[cause]; ok {
		return word, cause == toolcall.CauseRespond
	}
	if c.Result != nil && c.Result.State != message.ToolResultSuccess {
		return "Failed", false
	}
	return "Done", true
}

var endWords = map[toolcall.Cause]string{
	toolcall.CauseReject: "Rejected", toolcall.CauseExpire: "Expired", toolcall.CauseInterrupt: "Interrupted", toolcall.CauseBypass: "Ran without a decision",
	toolcall.CauseDeny: "Denied", toolcall.CauseRefuse: "Refused", toolcall.CauseRevoke: "Revoked", toolcall.CauseRespond: "Responded",
}

// WasAsked reports whether people were asked about the call.
func WasAsked(c *toolcall.Call) bool {
	return c.Request != nil && (len(c.Votes) > 0 || c.State == message.ToolCallAsking ||
		toolcall.Cause(c.Cause) == toolcall.CauseExpire || c.Decision != nil && c.Decision.Behavior == message.BehaviorAsk)
}
