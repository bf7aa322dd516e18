package story

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// byRule names the rule that decided, or the step of the decision.
func byRule(c *toolcall.Call) string {
	switch d := c.Decision; {
	case d == nil:
		return "undecided"
	case d.Rule != "":
		return "rule " + term.SafeLine(d.Rule)
	default:
		return "no rule, " + term.SafeLine(asked.Source(d.Source))
	}
}

// decisionText returns the text of a decision, with the rule if it does not name it.
func decisionText(c *toolcall.Call) string {
	d := c.Decision
	if d == nil {
		return ""
	}
	text := cmp.Or(d.Message, d.Reason)
	if d.Rule != "" && !strings.Contains(text, d.Rule) {
		text = "rule " + d.Rule + ": " + text
	}
	return term.SafeLine(text)
}

func feedback(c *toolcall.Call) string {
	if n := len(c.Votes); n > 0 && c.Votes[n-1].Feedback != "" {
		return ": " + term.SafeLine(c.Votes[n-1].Feedback)
	}
	return ""
}

func resultLine(c *toolcall.Call) string {
	if c.Result == nil {
		return ""
	}
	return outputLine(c.Result.Output)
}

// outputLine returns an output in one line: its first line, and how many lines it has.
func outputLine(o message.Content) string {
	text := strings.TrimRight(o.String(), "\n")
	first, rest, more := strings.Cut(text, "\n")
	line := term.SafeLine(first)
	if more {
		n := strings.Count(rest, "\n") + 2
		line = fmt.Sprintf("%d lines, %s", n, line)
	}
	blocks := 0
	for _, b := range o.Blocks {
		if b.Type() != message.BlockText {
			blocks++
		}
	}
	if blocks > 0 {
		line = strings.TrimSpace(fmt.Sprintf("%s [%d data blocks]", line, blocks))
	}
	return cmp.Or(line, "(no output)")
}

// BlockedDetail says why a call is blocked: its own reason, if it has one.
func BlockedDetail(c *toolcall.Call) string {
	switch {
	case c.BlockedReason != "":
		return term.SafeLine(c.BlockedReason)
	case c.Blocked == toolcall.BlockedReturned:
		return term.SafeLine(c.ReturnText()) + ": correct the worker, then resolve it"
	}
	return BlockedText(c.Blocked)
}

// BlockedText says why a call waits to be resolved.
func BlockedText(h toolcall.Blocked) string {
	switch h {
	case toolcall.BlockedUnknown:
		return "the worker died after the start, so the outcome is unknown: resolve it"
	case toolcall.BlockedDeadLetter:
		return "every permitted attempt was lost: resolve it"
	case toolcall.BlockedNoWorker:
		return "no worker took it in time: resolve it"
	case toolcall.BlockedReturned:
		return "workers returned its task too often: correct them, then resolve it"
	case toolcall.BlockedClock:
		return "the clock of its worker is off: correct it"
	case toolcall.NotBlocked:
		return ""
	}
	return term.SafeLine(string(h))
}
