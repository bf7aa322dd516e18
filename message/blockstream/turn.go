package blockstream

import (
	"slices"
	"strconv"
	"time"

	"github.com/askance-dev/askance/message"
)

// turn is the turn that is open on the wire.
// Invariant: next is the number of blocks so far; open, if set, is block next-1.
type turn struct {
	reply   message.ReplyID
	started time.Time // zero if unknown
	next    int
	open    *openBlock
	known   map[string]bool // text and thinking blocks that have begun
	calls   map[message.CallID]*call
	order   []message.CallID // of calls, in order of arrival
}

// maxOver bounds how many ended turns are remembered.
const maxOver = 64

// turnWriter writes the frames of the open turn.
type turnWriter struct {
	cfg  Config
	turn *turn
	over []message.ReplyID // the last turns that ended
	out  []Frame
}

func (w *turnWriter) flush() []Frame {
	out := w.out
	w.out = nil
	return out
}

func (w *turnWriter) skip(e message.Event, why string) {
	if w.cfg.OnSkip != nil {
		w.cfg.OnSkip(e, why)
	}
}

// openBlock is the text or thinking block that can still grow. All other blocks are written
// whole.
type openBlock struct {
	name  string // kind and block id
	text  bool
	ended bool // whether its END came; the stop waits until it is known whether it is final
}

// enter makes the event's turn the open one. It returns nil if the event comes too late for
// its turn.
func (m *Mapper) enter(e message.Event) *turn {
	reply := e.ReplyID()
	if m.turn != nil && m.turn.reply == reply {
		return m.turn
	}
	if slices.Contains(m.over, reply) {
		m.skip(e, "its turn is over")
		return nil
	}
	m.endTurn(e.Header().CreatedAt)
	m.begin(reply, e.Header().CreatedAt)
	return m.turn
}

// begin opens a turn. at is AgentScope's time, or "".
func (m *Mapper) begin(reply message.ReplyID, at string) {
	started, ok := m.time(at)
	start := &MessageStart{Session: m.cfg.Session, DisplayMode: m.cfg.DisplayMode}
	if ok {
		start.Timestamp = float64(started.UnixMicro()) / 1e6
	}
	m.over = slices.DeleteFunc(m.over, func(r message.ReplyID) bool { return r == reply })
	m.turn = &turn{reply: reply, started: started, known: map[string]bool{}, calls: map[message.CallID]*call{}}
	m.emit(start)
	if len(m.files) > 0 {
		m.block(&FileProcessing{Status: "processing", Files: m.files}, &FileDelta{Status: "completed", Message: "Received " + plural(len(m.files), "file")})
		m.files = nil
	}
	// Clients forget every block at message_start, including the cards of open approval
	// requests.
	for _, r := range m.requests.asked {
		if r.open {
			m.show(r)
		}
	}
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// time parses AgentScope's times, which have no zone, and times with a zone.
func (w *turnWriter) time(at string) (time.Time, bool) {
	for _, layout := range []string{"2006-01-02T15:04:05.999999999", time.RFC3339Nano} {
		if t, err := time.ParseInLocation(layout, at, w.cfg.Location); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// endTurn closes the open turn, if there is one.
func (w *turnWriter) endTurn(at string) {
	if w.turn == nil {
		return
	}
	w.showRemainingCalls()
	w.stop(false)
	w.emit(&MessageDelta{StopReason: StopEndTurn})
	stop := &MessageStop{}
	if end, ok := w.time(at); ok && !w.turn.started.IsZero() && end.After(w.turn.started) {
		stop.DurationMS = end.Sub(w.turn.started).Milliseconds()
	}
	w.emit(stop)
	w.noteOver(w.turn.reply)
	w.turn = nil
}

func (w *turnWriter) noteOver(reply message.ReplyID) {
	w.over = append(w.over, reply)
	if len(w.over) > maxOver {
		w.over = w.over[1:]
	}
}

func (w *turnWriter) emit(f Frame) {
	f.Head().MessageID = w.turn.reply
	w.out = append(w.out, f)
}

// start opens the next block, after closing the open one.
func (w *turnWriter) start(b ContentBlock) {
	w.stop(false)
	w.emit(&BlockStart{Index: w.turn.next, Block: b})
	w.turn.next++
}

// block sends a whole block.
func (w *turnWriter) block(b ContentBlock, deltas ...Delta) {
	w.start(b)
	i := w.turn.next - 1
	for _, d := range deltas {
		w.emit(&BlockDelta{Index: i, Delta: d})
	}
	w.emit(&BlockStop{Index: i})
}

// stop closes the open text or thinking block, if there is one.
func (w *turnWriter) stop(final bool) {
	if t := w.turn; t != nil && t.open != nil {
		w.emit(&BlockStop{Index: t.next - 1, Final: final && t.open.text && t.open.ended})
		t.open = nil
	}
}

// release closes a text block that has ended, as soon as an event shows that it is not the
// last answer of the turn.
func (w *turnWriter) release(e message.Event) {
	if w.turn == nil || w.turn.open == nil || !w.turn.open.ended {
		return
	}
	switch e.(type) {
	case *message.ModelCallEnd, *message.ReplyEnd, *message.ExceedMaxIters, *message.UserInterrupt, *message.Custom, *message.UnknownEvent:
	default:
		w.stop(false)
	}
}

// replyEnd closes the reply's turn; a terminal block shows how it ended.
func (m *Mapper) replyEnd(e *message.ReplyEnd) {
	if m.turn == nil || m.turn.reply != e.Reply {
		m.skip(e, "its turn is not open")
		return
	}
	m.showRemainingCalls()
	m.stop(e.FinishedReason != message.FinishedInterrupted && e.FinishedReason != message.FinishedError)
	switch e.FinishedReason {
	case message.FinishedInterrupted:
		m.block(&Text{}, &TextDelta{Text: m.cfg.Stopped, Extras: &Extras{Subtype: SubtypeUserStopped}})
	case message.FinishedError:
		m.block(&Text{}, &TextDelta{Text: m.cfg.Failed, Extras: failure(e.Error)})
	}
	m.endTurn(e.CreatedAt)
}

// thinking maps the events of thinking blocks, which chat mode does not show.
func (m *Mapper) thinking(e message.Event) {
	if m.cfg.DisplayMode != ModeAgent {
		m.skip(e, "chat mode does not show thinking")
		return
	}
	switch e := e.(type) {
	case *message.ThinkingBlockStart:
		m.noteBlock(e, "thinking "+e.BlockID)
	case *message.ThinkingBlockDelta:
		m.grow(e, "thinking "+e.BlockID, e.Delta, &Thinking{}, &ThinkingDelta{Thinking: e.Delta})
	case *message.ThinkingBlockEnd:
		m.endBlock("thinking " + e.BlockID)
	default: // handled elsewhere
	}
}

// noteBlock records that a block has begun. It is sent with its first text.
func (m *Mapper) noteBlock(e message.Event, name string) {
	if t := m.enter(e); t != nil {
		t.known[name] = true
	}
}

// grow sends a delta of the named block and makes it the open one; if another block came
// between, it starts a new block. An empty text is not sent.
func (m *Mapper) grow(e message.Event, name, text string, b ContentBlock, d Delta) {
	t := m.enter(e)
	switch {
	case t == nil:
		return
	case !t.known[name]:
		m.skip(e, "the turn has no such block")
		return
	case text == "":
		return
	}
	if t.open == nil || t.open.name != name {
		m.start(b)
		t.open = &openBlock{name: name, text: BlockTypeOf(b) == BlockText}
	}
	m.emit(&BlockDelta{Index: t.next - 1, Delta: d})
}

// endBlock records the end of the named block. Thinking stops at once; text waits until it is
// known whether it is the last answer.
func (w *turnWriter) endBlock(name string) {
	if w.turn == nil || w.turn.open == nil || w.turn.open.name != name {
		return
	}
	w.turn.open.ended = true
	if !w.turn.open.text {
		w.stop(false)
	}
}
