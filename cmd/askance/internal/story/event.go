package story

import (
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/message"
)

// event tells what a runtime streamed. Tool calls are told when they are
// proposed, and deltas of other kinds are not for people. s.mu is held.
func (s *Story) event(raw []byte) {
	ev, err := message.DecodeEvent(raw)
	if err != nil {
		s.line(s.stamp(s.start), "journal", s.out.Bad(pad("unreadable", wordWidth)+" "), term.SafeLine(err.Error()))
		return
	}
	switch ev := ev.(type) {
	case *message.ModelCallStart:
		s.endText()
		s.put("\n" + s.out.Who("model "+term.SafeLine(ev.ModelName)) + "\n")
	case *message.TextBlockDelta:
		s.say(ev.Delta)
	case *message.ThinkingBlockDelta:
		s.say(ev.Delta)
	case *message.TextBlockEnd, *message.ThinkingBlockEnd:
		s.endText()
	default: // told from the facts, or nothing to see
	}
}

func (s *Story) say(text string) {
	s.inText = true
	s.text.Write(s.words.Write(text))
}
