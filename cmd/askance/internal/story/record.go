package story

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func (s *Story) record(rec *toolcall.EventRecord) {
	at := s.stamp(rec.At)
	switch {
	case rec.Note != nil && rec.Call != nil:
		s.line(at, string(rec.Call.Call), s.out.Dim(pad(rec.Note.What, wordWidth)+" "), "noted, nothing changed")
	case rec.End != nil:
		s.event(rec.End)
	case rec.Reply != nil && rec.Reply.Phase == toolcall.ReplyInterrupted:
		s.line(at, string(rec.Reply.Reply), s.out.Bad(pad("interrupt", wordWidth)+" "), "by "+term.SafeLine(rec.By.Name))
	case rec.Call != nil:
		s.steps(at, rec)
	}
}

// steps prints the path of a record. The line of a decision also says what follows from
// it in the same record.
func (s *Story) steps(at string, rec *toolcall.EventRecord) {
	lines := make([]told, 0, len(rec.Path))
	for i, step := range rec.Path {
		l := lineOf(s.out, rec, toolcall.Cause(step.Cause))
		if i > 0 && l.after != "" {
			lines[len(lines)-1].rest += ", " + l.after
			continue
		}
		lines = append(lines, l)
	}
	for _, l := range lines {
		s.line(at, string(rec.Call.Call), l.word, term.Clip(l.rest, max(40, s.out.Width()-indent)))
		if l.more != "" {
			s.more(strings.Repeat(" ", wordWidth+1), s.out.Dim(l.more))
		}
	}
}

// told is the text of one step: a word, the rest of its line, and perhaps a second line;
// after is what it adds to the line of the step before.
type told struct{ word, rest, more, after string }

func lineOf(out *term.Out, rec *toolcall.EventRecord, cause toolcall.Cause) told {
	c := rec.Call
	word := func(paint func(string) string, w string) string { return paint(pad(w, wordWidth)) + " " }
	by := term.SafeLine(asked.Who(rec.By))
	switch cause {
	case toolcall.CausePropose:
		return told{word: word(out.Bold, "proposed"), rest: term.SafeLine(c.Tool + " " + c.Input)}
	case toolcall.CauseRefuse:
		return told{word: word(out.Bad, "refused"), rest: resultLine(c)}
	case toolcall.CauseDeny:
		return told{word: word(out.Bad, "denied"), rest: decisionText(c)}
	case toolcall.CauseAsk:
		return told{word: word(out.Ask, "asking"), rest: term.SafeLine(strings.ReplaceAll(c.Request.Text, "\n", " / ")), more: byRule(c) + ", digest " + term.Clip(c.Digest, digestWidth)}
	case toolcall.CauseAllow:
		return told{word: word(out.Good, "allowed"), rest: byRule(c)}
	case toolcall.CauseHide:
		return told{word: word(out.Dim, "waits"), rest: "for the approval of " + term.SafeLine(string(c.Behind))}
	case toolcall.CauseApprove:
		return told{word: word(out.Good, "approved"), rest: "by " + by}
	case toolcall.CauseEdit:
		return told{word: word(out.Good, "edited"), rest: "by " + by + ": " + term.SafeLine(c.Input)}
	case toolcall.CauseReject:
		return told{word: word(out.Bad, "rejected"), rest: "by " + by + feedback(c)}
	case toolcall.CauseRespond:
		return told{word: word(out.Good, "responded"), rest: "by " + by + " instead of the tool"}
	}
	return runLine(out, rec, cause, word)
}

func runLine(out *term.Out, rec *toolcall.EventRecord, cause toolcall.Cause, word func(func(string) string, string) string) told {
	c := rec.Call
	switch cause {
	case toolcall.CauseSubmit, toolcall.CauseOffer:
		return told{word: word(out.Work, "submitted"), rest: submitText(c), after: queueText(c)}
	case toolcall.CauseStart:
		return told{word: word(out.Work, "started"), rest: startText(c), after: "runs " + startText(c)}
	case toolcall.CauseLose:
		return told{word: word(out.Bad, "lost"), rest: fmt.Sprintf("attempt %d lost its worker, retry in %s", c.Attempt.Number, asked.Took(c.RetryAt.Sub(rec.At)))}
	case toolcall.CauseReturn:
		return told{word: word(out.Bad, "returned"), rest: fmt.Sprintf("attempt %d, %s", c.Attempt.Number, returnText(rec))}
	case toolcall.CauseSuspend:
		return told{word: word(out.Ask, "blocked"), rest: BlockedDetail(c)}
	case toolcall.CauseResult:
		return told{word: word(stateColour(out, c.Result.State), string(c.Result.State)), rest: tookText(c, rec.At) + resultLine(c)}
	case toolcall.CauseResolve:
		return told{word: word(out.Good, "resolved"), rest: "by " + term.SafeLine(asked.Who(rec.By)) + ": " + resultLine(c)}
	case toolcall.CauseBypass:
		return told{word: word(out.Bad, "ran"), rest: "without a decision: " + resultLine(c)}
	case toolcall.CauseExpire:
		return told{word: word(out.Bad, "expired"), rest: "no approver responded in time"}
	}
	return told{word: word(out.Bad, string(cause)), rest: resultLine(c)} // revoke, interrupt
}

// returnText says who did not start an attempt and why, and what follows.
func returnText(rec *toolcall.EventRecord) string {
	c, next := rec.Call, "an operator must resolve it"
	if !c.RetryAt.IsZero() {
		next = "retry in " + asked.Took(c.RetryAt.Sub(rec.At))
	}
	if r := c.Returned; r != nil {
		return term.SafeLine(fmt.Sprintf("worker %s did not start it, %s: %s", r.Worker, next, r.Reason))
	}
	return "its worker did not start it, " + next
}

func submitText(c *toolcall.Call) string {
	if c.Placement == toolcall.PlaceExternal {
		return "to the runtime that reports the result"
	}
	text := "to the workers of " + term.SafeLine(c.Tool)
	if c.Attempt.Grant != nil {
		text += ", with a signed grant"
	}
	if c.Attempt.Number > 1 {
		text += fmt.Sprintf(", attempt %d", c.Attempt.Number)
	}
	return text
}

func queueText(c *toolcall.Call) string {
	switch {
	case c.Placement == toolcall.PlaceExternal:
		return "submitted " + submitText(c)
	case c.Attempt.Grant == nil:
		return "queued"
	}
	return "queued with a signed grant"
}

func startText(c *toolcall.Call) string {
	switch c.Placement {
	case toolcall.PlaceLocal:
		return "in the engine's process"
	case toolcall.PlaceExternal:
		return "by runtime " + term.SafeLine(c.Attempt.Worker)
	}
	return "by worker " + term.SafeLine(c.Attempt.Worker)
}

func tookText(c *toolcall.Call, at time.Time) string {
	if c.Attempt.StartedAt.IsZero() {
		return ""
	}
	return "after " + asked.Took(at.Sub(c.Attempt.StartedAt)) + ": "
}

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

// BlockedDetail says why a call is blocked and what to do.
func BlockedDetail(c *toolcall.Call) string {
	why := term.SafeLine(asked.WhyBlocked(c))
	switch c.Blocked {
	case toolcall.NotBlocked, toolcall.BlockedClock, toolcall.BlockedKey: // its reason has a hint
		return why
	case toolcall.BlockedReturned:
		return why + ": correct the worker, then resolve it"
	default:
		return why + ": resolve it"
	}
}

// kindWidth fits the longest block type, tool_result.
const kindWidth = 12

// Message writes a whole message, one block after the other. edited has the
// arguments of calls that a person edited, because a message keeps the model's.
func Message(out *term.Out, m *message.Msg, edited map[message.CallID]string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s from %s\n", m.Role, out.Bold(term.SafeLine(m.ID)), out.Who(term.SafeLine(m.Name)))
	for _, block := range m.Content {
		b.WriteString(blockText(out, block))
		if call, ok := block.(*message.ToolCallBlock); ok {
			b.WriteString(editedText(out, call, edited))
		}
	}
	if m.Usage != nil {
		fmt.Fprintf(&b, "  %s %d tokens in, %d out\n", out.Dim(pad("usage", kindWidth)), m.Usage.InputTokens, m.Usage.OutputTokens)
	}
	if m.FinishedReason != nil {
		fmt.Fprintf(&b, "  %s %s\n", out.Dim(pad("finished", kindWidth)), term.SafeLine(string(*m.FinishedReason)))
	}
	if m.Error != nil {
		fmt.Fprintf(&b, "  %s %s: %s\n", out.Bad(pad("error", kindWidth)), term.SafeLine(string(m.Error.Type)), term.SafeLine(m.Error.Message))
	}
	_, err := out.Write([]byte(b.String()))
	return err
}

func editedText(out *term.Out, call *message.ToolCallBlock, edited map[message.CallID]string) string {
	input, ok := edited[call.ID]
	if !ok {
		return ""
	}
	width := max(40, min(out.Width(), 120)-kindWidth-3) - nameWidth - 11
	return strings.Repeat(" ", kindWidth+nameWidth+4) + out.Ask(pad("edited", 9)) + " " + term.Clip(term.SafeLine(call.Name+" "+input), width) + "\n"
}

func blockText(out *term.Out, block message.Block) string {
	kind := "  " + out.Dim(pad(string(block.Type()), kindWidth)) + " "
	width := max(40, min(out.Width(), 120)-kindWidth-3)
	line := func(s string) string { return kind + term.Clip(s, width) + "\n" }
	switch b := block.(type) {
	case *message.TextBlock:
		return kind + wrapText(term.Safe(b.Text), width) + "\n"
	case *message.ThinkingBlock:
		return kind + wrapText(term.Safe(b.Thinking), width) + "\n"
	case *message.HintBlock:
		return line(outputLine(b.Hint))
	case *message.DataBlock:
		return line("data " + term.SafeLine(b.ID))
	case *message.ToolCallBlock:
		name := term.SafeLine(string(b.ID))
		return kind + out.Name(pad(name, nameWidth)) + " " + term.Clip(fmt.Sprintf("%-9s %s", b.State, term.SafeLine(b.Name+" "+b.Input)), width-nameWidth-1) + "\n"
	case *message.ToolResultBlock:
		name := term.SafeLine(string(b.ID))
		return kind + out.Name(pad(name, nameWidth)) + " " + stateColour(out, b.State)(pad(string(b.State), 9)) + " " + term.Clip(outputLine(b.Output), width-nameWidth-11) + "\n"
	case *message.UnknownBlock:
		return line("a block of an unknown type")
	}
	return line(term.SafeLine(string(block.Type())))
}

func stateColour(out *term.Out, s message.ToolResultState) func(string) string {
	if s == message.ToolResultSuccess {
		return out.Good
	}
	return out.Bad
}

func wrapText(text string, width int) string {
	var b strings.Builder
	w := term.Wrapper{Out: func(s string) { b.WriteString(s) }, Width: min(width, 80)}
	w.Write(text)
	w.Flush()
	return strings.TrimLeft(term.Indent(b.String(), strings.Repeat(" ", kindWidth+3)), " ")
}
