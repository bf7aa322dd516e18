package inbox

import (
	"cmp"
	"strings"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

// summaryOf says in one line what would run. It can contain deceptive characters.
func summaryOf(c *toolcall.Call) string {
	if c.Summary == "" && c.Request != nil { // an engine of an older version
		return strings.ReplaceAll(c.Request.Text, "\n", " / ")
	}
	return cmp.Or(c.Summary, c.Tool)
}

// riskText returns what the tool's annotations warn about.
func riskText(c *toolcall.Call) string {
	return reveal.Line(strings.Join(c.Risk, ", "))
}

// ruleText returns the rule that decided about a call.
func ruleText(c *toolcall.Call) string {
	switch {
	case c.Request != nil:
		return reveal.Line(c.Request.Rule)
	case c.Decision != nil:
		return reveal.Line(c.Decision.Rule)
	}
	return ""
}

// sinceOf returns when the call entered its phase.
func sinceOf(c *toolcall.Call) time.Time {
	if c.Phase() == toolcall.PhaseRunning && !c.Attempt.StartedAt.IsZero() {
		return c.Attempt.StartedAt
	}
	return c.UpdatedAt
}

// blockedWord says in a word or two why a call is blocked.
func blockedWord(c *toolcall.Call) string {
	switch c.Blocked {
	case toolcall.BlockedUnknown:
		return "outcome unknown"
	case toolcall.BlockedDeadLetter:
		return "retries exhausted"
	case toolcall.BlockedNoWorker:
		return "no worker"
	case toolcall.BlockedReturned:
		return "returned too often"
	case toolcall.BlockedClock:
		return "worker clock is off"
	case toolcall.NotBlocked:
	}
	return reveal.Line(string(c.Blocked))
}

// endedText says how a finished call ended, and whether it ended well.
func endedText(c *toolcall.Call) (text string, good bool) {
	text, good = asked.Ended(c)
	return strings.ToLower(text), good
}

// outcomeText says how a finished call ended, when, and on which worker.
func outcomeText(m *model, c *toolcall.Call) string {
	text, good := endedText(c)
	paint := m.out.Bad
	if good {
		paint = m.out.Good
	}
	text = paint(text) + ", " + asked.Span(m.now.Sub(c.UpdatedAt)) + " ago"
	if c.Attempt.Worker != "" {
		text += ", on " + reveal.MarkedName(c.Attempt.Worker)
	}
	return text
}

// phaseText describes the phase of a call that waits for no response.
func phaseText(c *toolcall.Call, now time.Time) []string {
	since := ", " + asked.Span(now.Sub(sinceOf(c))) + " ago"
	switch p := c.Phase(); p {
	case toolcall.PhaseWaiting:
		if c.Behind != "" {
			return []string{"waiting for the approval of " + reveal.MarkedName(string(c.Behind))}
		}
		return []string{"waiting: other calls of the reply come first"}
	case toolcall.PhaseQueued:
		if c.Placement == toolcall.PlaceExternal {
			return []string{"queued" + since + ", its runtime runs it"}
		}
		return []string{"queued" + since + ", waits for a worker"}
	case toolcall.PhaseRunning:
		text := "running"
		if c.Attempt.Worker != "" {
			text += " on " + reveal.MarkedName(c.Attempt.Worker)
		}
		text += ", started" + strings.TrimPrefix(since, ",")
		if at := c.Attempt.Deadline; !at.IsZero() {
			text += ", timeout in " + asked.Until(at, now)
		}
		return []string{text}
	case toolcall.PhaseRetrying:
		return []string{"retrying in " + asked.Until(c.RetryAt, now), reveal.Line(c.ReturnText())}
	case toolcall.PhaseBlocked:
		return []string{"blocked" + since + ": " + story.BlockedDetail(c)}
	case toolcall.PhaseReady, toolcall.PhaseAsking, toolcall.PhaseFinished:
		return []string{string(p) + since}
	}
	return nil
}

// resultText returns what a finished call returned.
func resultText(c *toolcall.Call) []string {
	switch {
	case c.Result != nil:
		return strings.Split(reveal.Text(strings.TrimRight(asked.Output(c.Result.Output), "\n")), "\n")
	case c.Denial != nil:
		return []string{oneLine(c.Denial.Reason)}
	}
	return nil
}
