// Package story shows people what happens to tool calls: one line for each
// step of the journal, what the model says in between, and whole messages.
//
// A Story is a toolcall.Sink: pass it to a journal's Watch, and it prints
// everything in the order in which it became durable.
package story

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Widths of the columns.
const (
	timeWidth   = 8
	nameWidth   = 14
	wordWidth   = 10
	digestWidth = 20
	indent      = timeWidth + nameWidth + wordWidth + 5
)

// Story prints records as they come. Its methods may be called from several goroutines.
type Story struct {
	out   *term.Out
	start time.Time

	mu      sync.Mutex // guards all below, and the order of what is written
	prompts int        // > 0: a prompt writes to the terminal
	queue   strings.Builder
	text    term.Wrapper // of the text block that is being printed
	words   reveal.Stream
	inText  bool
}

// New returns a Story that prints to out, with times as seconds since start.
func New(out *term.Out, start time.Time) *Story {
	s := &Story{out: out, start: start}
	s.text = term.Wrapper{Out: s.put, Indent: "  ", Width: min(out.Width(), 80)}
	return s
}

// Record implements toolcall.Sink.
func (s *Story) Record(r toolcall.JournalEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Invalid != nil:
		s.line(s.stamp(r.Time), "journal", s.out.Bad(pad("invalid", wordWidth)+" "), term.SafeLine(fmt.Sprintf("record %d: %v", r.Seq, r.Invalid)))
	case r.Event != nil:
		s.event(r.Event)
	case r.Record != nil:
		s.record(r.Record)
	}
}

// CaughtUp implements toolcall.Sink.
func (s *Story) CaughtUp() {}

// Progress prints a line of a worker. It is not part of the journal.
func (s *Story) Progress(c *toolcall.Call, p toolcall.ProgressRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line(s.stamp(time.Now()), string(c.Call), s.out.Dim(pad("progress", wordWidth)+" "), s.out.Dim(term.SafeLine(p.Text)))
}

// Hold holds back all output until release is called, while a prompt uses the same terminal.
func (s *Story) Hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompts++
	var once sync.Once
	return func() {
		once.Do(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.prompts--; s.prompts == 0 {
				text := s.queue.String()
				s.queue.Reset()
				s.put(text)
			}
		})
	}
}

// put writes text, or keeps it for later. s.mu is held. It ignores errors: a terminal
// that has gone away must not stop the work.
func (s *Story) put(text string) {
	if s.prompts > 0 {
		s.queue.WriteString(text)
		return
	}
	_, _ = s.out.Write([]byte(text))
}

func (s *Story) stamp(at time.Time) string {
	return fmt.Sprintf("%*.2fs", timeWidth-1, max(0, at.Sub(s.start).Seconds()))
}

// line writes the four columns. It escapes and pads name; word and rest are already
// painted and safe.
func (s *Story) line(stamp, name, word, rest string) {
	s.endText()
	name = pad(term.Clip(term.SafeLine(name), nameWidth), nameWidth)
	s.put(s.out.Dim(stamp) + "  " + s.out.Name(name) + " " + word + rest + "\n")
}

func (s *Story) more(word, rest string) {
	s.put(strings.Repeat(" ", timeWidth+2+nameWidth+1) + word + rest + "\n")
}

func pad(s string, n int) string {
	if have := utf8.RuneCountInString(s); have < n {
		return s + strings.Repeat(" ", n-have)
	}
	return s
}

func (s *Story) endText() {
	if s.inText {
		s.text.Write(s.words.End())
		s.text.Flush()
		s.put("\n")
		s.inText = false
	}
}

// event prints what a runtime streamed. Tool calls are printed when they are
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
	default: // printed from the event records, or nothing to show
	}
}

func (s *Story) say(text string) {
	s.inText = true
	s.text.Write(s.words.Write(text))
}
