package toolcall

import (
	"cmp"
	"fmt"
	"time"

	"github.com/askance-dev/askance/message"
)

// applyToAttempt applies the events about running the call. The attempt's number is the
// fence: an event with another number is refused as superseded.
func (m *Machine) applyToAttempt(ev Event) error {
	c := m.call
	switch ev := ev.(type) {
	case Submitted:
		c.Attempt = ev.Attempt
		return m.move(CauseSubmit)
	case Started:
		return m.applyStart(ev)
	case Offered:
		return m.applyOffer(ev)
	case Lost:
		if err := m.checkAttempt(CauseLose, ev.Attempt); err != nil {
			return err
		}
		c.RetryAt = ev.RetryAt
		return m.move(CauseLose)
	case Returned:
		return m.applyReturn(ev)
	case Suspended:
		if err := m.checkAttempt(CauseSuspend, ev.Attempt); err != nil {
			return err
		}
		c.Blocked, c.RetryAt = ev.Blocked, time.Time{}
		if ev.Blocked == BlockedUnknown { // a runtime may report this without having begun the call
			c.Begun = max(c.Begun, 1)
		}
		return m.move(CauseSuspend)
	case Resulted:
		return m.applyResult(ev)
	case Bypassed:
		return m.applyBypass(ev)
	case Resolved:
		return m.applyResolution(ev)
	default:
		return &message.Error{Code: message.CodeInternal, Op: "step", What: "unknown event"}
	}
}

func (m *Machine) checkAttempt(cause Cause, number int) error {
	if m.call.State == finished {
		return stateError(m.call, cause)
	}
	if number != m.call.Attempt.Number {
		return supersededError(m.call, cause, "another attempt has replaced this one")
	}
	return nil
}

// applyStart gives the attempt its owner. The first local start creates attempt 1 itself,
// because there was no offer.
func (m *Machine) applyStart(ev Started) error {
	c := m.call
	if c.State == allowed && c.Attempt.Number == 0 && ev.Attempt == 1 {
		c.Attempt = Attempt{Number: 1, OfferedAt: ev.At}
	}
	if err := m.checkAttempt(CauseStart, ev.Attempt); err != nil {
		return err
	}
	switch {
	case c.Started():
		return supersededError(c, CauseStart, "the attempt has an owner")
	case c.Blocked != NotBlocked:
		return supersededError(c, CauseStart, "the call waits for an operator to resolve it")
	case !c.RetryAt.IsZero():
		return supersededError(c, CauseStart, "the attempt was abandoned")
	case ev.Claim == "" || ev.Worker == "":
		return &message.Error{Code: message.CodeInvalid, Op: "start", What: "worker or claim is empty"}
	}
	c.Attempt.Worker, c.Attempt.Claim, c.Attempt.StartedAt = ev.Worker, ev.Claim, ev.At
	c.Attempt.LeaseMS, c.Attempt.Deadline = ev.LeaseMS, ev.Deadline
	c.Begun++
	return m.move(CauseStart)
}

func (m *Machine) applyOffer(ev Offered) error {
	c := m.call
	switch {
	case ev.Attempt.Number == c.Attempt.Number && c.Started():
		return supersededError(c, CauseOffer, "the attempt has an owner")
	case ev.Attempt.Number == c.Attempt.Number && !c.RetryAt.IsZero():
		return supersededError(c, CauseOffer, "the attempt was abandoned")
	case ev.Attempt.Number != c.Attempt.Number && ev.Attempt.Number != c.Attempt.Number+1:
		return supersededError(c, CauseOffer, "the attempt is not the next one")
	case ev.Attempt.Number == c.Attempt.Number+1 && c.RetryAt.IsZero() && c.Blocked == NotBlocked:
		return supersededError(c, CauseOffer, "the current attempt has not been abandoned")
	}
	if c.Blocked == BlockedReturned { // an operator tries it again
		c.Returned = nil
	}
	c.Attempt, c.RetryAt, c.Blocked = ev.Attempt, time.Time{}, NotBlocked
	return m.move(CauseOffer)
}

// applyReturn removes the owner from an attempt that never began. It applies to a blocked
// call, too, because only the owner knows that nothing happened. A rejected task has no
// owner yet.
func (m *Machine) applyReturn(ev Returned) error {
	c := m.call
	if err := m.checkAttempt(CauseReturn, ev.Attempt); err != nil {
		return err
	}
	switch {
	case ev.Rejected && c.Phase() != PhaseQueued:
		return supersededError(c, CauseReturn, "the task is no longer in the queue")
	case !ev.Rejected && (!c.Started() || ev.Claim != c.Attempt.Claim):
		return supersededError(c, CauseReturn, "the sender does not own the attempt")
	case !ev.Rejected:
		c.Begun--
	}
	c.Returned = &TaskReturn{Worker: ev.Worker, Reason: ev.Reason, At: ev.At, Times: c.TimesReturned() + 1}
	c.Blocked, c.RetryAt = NotBlocked, ev.RetryAt
	c.Attempt.Worker, c.Attempt.Claim, c.Attempt.StartedAt = "", "", time.Time{}
	c.Attempt.LeaseMS, c.Attempt.Deadline = 0, time.Time{}
	return m.move(CauseReturn)
}

// applyResult accepts the result of the current attempt from its owner, even while the
// call is blocked, because the owner knows the outcome.
func (m *Machine) applyResult(ev Resulted) error {
	c := m.call
	if err := m.checkAttempt(CauseResult, ev.Attempt); err != nil {
		return err
	}
	if c.Placement != PlaceExternal && (!c.Started() || ev.Claim != c.Attempt.Claim) {
		return supersededError(c, CauseResult, "the sender does not own the attempt")
	}
	return m.end(CauseResult, ev.Result, ev.Digest)
}

// applyBypass ends a call that ran although nothing here allowed it.
func (m *Machine) applyBypass(ev Bypassed) error {
	c := m.call
	if c.Placement != PlaceExternal {
		return &message.Error{Code: message.CodeState, Op: string(CauseBypass), Call: ErrorCall(c), What: "the call is not external", Hint: "only the runtime's own calls can run without a decision"}
	}
	return m.end(CauseBypass, ev.Result, ev.Digest)
}

// end moves to finished, sets the result and clears fields that only an open call has. digest is
// that of a result from outside.
func (m *Machine) end(cause Cause, r message.ToolResultBlock, digest string) error {
	if err := m.move(cause); err != nil {
		return err
	}
	m.call.Result, m.call.ResultDigest = &r, digest
	m.call.Behind, m.call.Blocked, m.call.RetryAt = "", NotBlocked, time.Time{}
	return nil
}

// CanResolve reports whether an operator may state the outcome: the call is blocked, or its
// runtime runs it, which may never report a result.
func (c *Call) CanResolve() bool {
	return c.Blocked != NotBlocked || c.Placement == PlaceExternal && c.State == message.ToolCallSubmitted
}

func (m *Machine) applyResolution(ev Resolved) error {
	c := m.call
	if err := m.checkAttempt(CauseResolve, ev.Attempt); err != nil {
		return err
	}
	if !c.CanResolve() {
		return &message.Error{Code: message.CodeState, Op: "resolve", Call: ErrorCall(c),
			What: "the call is neither blocked nor run by its runtime", Hint: "only such calls can be resolved: list blocked ones with --blocked"}
	}
	return m.end(CauseResolve, ev.Result, "")
}

// Timestamp formats a time like AgentScope's blocks and events: ISO 8601 without a zone,
// in UTC.
func Timestamp(t time.Time) string { return message.Timestamp(t.UTC()) }

// interruptedText is AgentScope's text for the model, and says more after an attempt whose outcome
// is unknown.
func interruptedText(c *Call) string {
	text := "<system-reminder>The tool call has been interrupted by the user."
	if c.Blocked == BlockedUnknown || c.Begun > 0 && !c.Started() {
		text += " The tool may have run before that, so it may have taken effect."
	}
	return text + "</system-reminder>"
}

func deniedText(tool string, d Decision) string {
	if d.Message != "" {
		return d.Message
	}
	return fmt.Sprintf("<system-reminder>The execution of tool %q is denied: %s%s</system-reminder>", tool, d.Reason, d.Denial.Text())
}

func rejectedText(c *Call, v Vote) string {
	text := fmt.Sprintf("<system-reminder>The execution of tool %q is denied by the user %s.", c.Tool, v.By.Name)
	if v.Feedback != "" {
		text += " They say: " + v.Feedback
	}
	return text + c.hint() + "</system-reminder>"
}

const expiredReason = "no approver responded in time"

func expiredText(c *Call) string {
	return fmt.Sprintf("<system-reminder>The execution of tool %q is denied: %s.%s</system-reminder>", c.Tool, expiredReason, c.hint())
}

func revokedText(c *Call, ev Revoked) string {
	text := fmt.Sprintf("<system-reminder>Approval to run tool %q was revoked before it started.", c.Tool)
	if ev.Denied != nil { // its message already has the hints
		return withReason(text, cmp.Or(ev.Denied.Message, ev.Denied.Reason))
	}
	return withReason(text, ev.Reason+c.hint())
}

func revokedAgainText(tool, reason string) string {
	return withReason(fmt.Sprintf("<system-reminder>Approval to run tool %q was revoked. The tool may have run before that, so it may have taken effect.", tool), reason)
}

func withReason(text, reason string) string {
	if reason != "" {
		text += " Reason: " + reason
	}
	return text + "</system-reminder>"
}

// TextResult returns a result with one text for call c.
func TextResult(c *Call, state message.ToolResultState, text string, at time.Time) message.ToolResultBlock {
	stamp := Timestamp(at)
	return message.ToolResultBlock{
		ID: c.Call, Name: c.Tool, Output: message.Content{Text: text}, State: state,
		Metadata: map[string]any{}, CreatedAt: stamp, FinishedAt: &stamp,
	}
}
