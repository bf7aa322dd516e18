package story

import (
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// event record tells each step of a record. s.mu is held.
func (s *Story) record(f *message.EventRecord) {
	at := s.stamp(f.At)
	switch {
	case f.Note != nil && f.Call != nil:
		s.line(at, string(f.Call.Call), s.out.Dim(pad(f.Note.What, wordWidth)+" "), "noted, nothing changed")
	case f.Reply != nil && f.Reply.Phase == message.ReplyInterrupted:
		s.line(at, string(f.Reply.Reply), s.out.Bad(pad("interrupt", wordWidth)+" "), "by "+term.SafeLine(f.By.Name))
	case f.Call != nil:
		for _, step := range f.Path {
			s.step(at, f, step)
		}
	}
}

func (s *Story) step(at string, f *message.EventRecord, step message.Step) {
	c := f.Call
	l := lineOf(s.out, f, toolcall.Cause(step.Cause))
	s.line(at, string(c.Call), l.word, term.Clip(l.rest, max(40, s.out.Width()-indent)))
	if l.more != "" {
		s.more(strings.Repeat(" ", wordWidth+1), s.out.Dim(l.more))
	}
}

// told is what one step says: a word, the line after it, and perhaps a second.
type told struct{ word, rest, more string }

// lineOf words one step of a record.
func lineOf(out *term.Out, f *message.EventRecord, cause toolcall.Cause) told {
	c := f.Call
	word := func(paint func(string) string, w string) string { return paint(pad(w, wordWidth)) + " " }
	by := term.SafeLine(asked.Who(f.By))
	switch cause {
	case toolcall.Propose:
		return told{word: word(out.Bold, "proposed"), rest: term.SafeLine(c.Tool + " " + c.Input)}
	case toolcall.Refuse:
		return told{word: word(out.Bad, "refused"), rest: resultLine(c)}
	case toolcall.Deny:
		return told{word: word(out.Bad, "denied"), rest: decisionText(c)}
	case toolcall.Ask:
		return told{word: word(out.Ask, "asking"), rest: term.SafeLine(c.Request.Text), more: byRule(c) + ", digest " + c.Digest}
	case toolcall.Allow:
		return told{word: word(out.Good, "allowed"), rest: byRule(c)}
	case toolcall.Hide:
		return told{word: word(out.Dim, "waits"), rest: "behind the approval request about " + term.SafeLine(string(c.Behind))}
	case toolcall.Approve:
		return told{word: word(out.Good, "approved"), rest: "by " + by}
	case toolcall.Edit:
		return told{word: word(out.Good, "edited"), rest: "by " + by + ": " + term.SafeLine(c.Input)}
	case toolcall.Reject:
		return told{word: word(out.Bad, "rejected"), rest: "by " + by + feedback(c)}
	case toolcall.Respond:
		return told{word: word(out.Good, "answered"), rest: "by " + by + " instead of the tool"}
	}
	return runLine(out, f, cause, word)
}

// runLine words the steps of an execution.
func runLine(out *term.Out, f *message.EventRecord, cause toolcall.Cause, word func(func(string) string, string) string) told {
	c := f.Call
	switch cause {
	case toolcall.Submit, toolcall.Offer:
		return told{word: word(out.Work, "submitted"), rest: submitted(c)}
	case toolcall.Start:
		return told{word: word(out.Work, "started"), rest: started(c)}
	case toolcall.Lose:
		return told{word: word(out.Bad, "lost"), rest: fmt.Sprintf("attempt %d fell silent, tried again in %s", c.Attempt.Number, c.RetryAt.Sub(f.At).Round(time.Millisecond))}
	case toolcall.Return:
		return told{word: word(out.Bad, "returned"), rest: fmt.Sprintf("owner did not begin attempt %d, tried again in %s", c.Attempt.Number, c.RetryAt.Sub(f.At).Round(time.Millisecond))}
	case toolcall.Suspend:
		return told{word: word(out.Ask, "blocked"), rest: BlockedText(c.Blocked)}
	case toolcall.Result:
		return told{word: word(paintResult(out, c), string(c.Result.State)), rest: took(c, f.At) + resultLine(c)}
	case toolcall.Resolve:
		return told{word: word(out.Good, "resolved"), rest: "by " + term.SafeLine(asked.Who(f.By)) + ": " + resultLine(c)}
	case toolcall.Expire:
		return told{word: word(out.Bad, "expired"), rest: "nobody answered in time"}
	}
	return told{word: word(out.Bad, string(cause)), rest: resultLine(c)} // revoke, interrupt
}

func submitted(c *message.Call) string {
	if c.Placement == message.PlaceExternal {
		return "to whoever reports the result"
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

func started(c *message.Call) string {
	if c.Placement == message.PlaceLocal {
		return "beside the engine"
	}
	return "by worker " + term.SafeLine(c.Attempt.Worker)
}

func took(c *message.Call, at time.Time) string {
	if c.Attempt.StartedAt.IsZero() {
		return ""
	}
	return "after " + at.Sub(c.Attempt.StartedAt).Round(time.Millisecond).String() + ": "
}

func paintResult(out *term.Out, c *message.Call) func(string) string {
	if c.Result.State == message.ToolResultSuccess {
		return out.Good
	}
	return out.Bad
}
