package toolcall

import (
	"cmp"
	"fmt"
	"time"

	"github.com/askance-dev/askance/message"
)

// Timestamp formats a time like AgentScope's blocks and events: ISO 8601 without a zone,
// in UTC.
func Timestamp(t time.Time) string { return message.Timestamp(t.UTC()) }

const interruptedText = "<system-reminder>The tool call has been interrupted by the user.</system-reminder>"

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
	return withReason(fmt.Sprintf("<system-reminder>Approval to run tool %q again was revoked. An earlier attempt started and may have taken effect.", tool), reason)
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
