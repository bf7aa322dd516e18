package agent

import (
	"context"
	"slices"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Thread is a session as its reader may see it, built from the session's events.
type Thread struct {
	// Messages are the users' messages and the replies, in the order in which they began. The
	// reply of an open turn is included once it has begun.
	Messages []*message.Msg
	// Turns are the records of the turns that were opened, oldest first.
	Turns []*Record
	// Open is the reply of the open turn; "" if there is none.
	Open message.ReplyID
	// Queue are the turns that begin one after the other once Open has ended.
	Queue []*Record
	// Through is the cursor after the last event that was read.
	Through uint64

	replies map[message.ReplyID]*reply
	said    map[string]*message.Msg // the messages of turns, by id
}

// reply is a reply's message and what else its events tell about it.
type reply struct {
	msg         *message.Msg
	turn        *Record // nil: it was not begun by a Runner
	begun       bool
	ended       bool
	interrupted bool
	blocks      openBlocks
}

// ReadThread reads a whole session. c is the engine for the reader, and redacts what the reader
// may not see.
func ReadThread(ctx context.Context, c engine.Client, session message.SessionID) (*Thread, error) {
	t := NewThread()
	return t, t.read(ctx, c, session)
}

// NewThread makes a thread without events; see [Thread.Add].
func NewThread() *Thread {
	return &Thread{Messages: []*message.Msg{}, replies: map[message.ReplyID]*reply{}, said: map[string]*message.Msg{}}
}

// pageRecords is how many records of the journal are read at once.
const pageRecords = 1000

// EachEvent calls f with every event of a request that the journal has now, and
// returns the cursor after the last page that f accepted.
func EachEvent(ctx context.Context, c engine.Client, r toolcall.EventsRequest, f func(seq uint64, e message.Event) error) (uint64, error) {
	for r.Limit = pageRecords; ; {
		page, err := c.Events(ctx, r)
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx) // the page was cut short
		}
		if err != nil {
			return r.After, err
		}
		for _, e := range page.Events {
			ev, err := message.DecodeEvent(e.Event)
			if err != nil {
				return r.After, message.Errorf(message.CodeInternal, "read session", "the event at %d cannot be read: %w", e.Seq, err)
			}
			if err := f(e.Seq, ev); err != nil {
				return r.After, err
			}
		}
		full := page.Next-r.After >= pageRecords // else the page cannot have been full
		r.After = page.Next
		if len(page.Events) == 0 && !full {
			return r.After, nil
		}
	}
}

// read adds what was written since the last read.
func (t *Thread) read(ctx context.Context, c engine.Client, session message.SessionID) (err error) {
	t.Through, err = EachEvent(ctx, c, toolcall.EventsRequest{Session: session, After: t.Through}, func(_ uint64, e message.Event) error {
		t.Add(e)
		return nil
	})
	return err
}

// Add adds the next event of the session.
func (t *Thread) Add(e message.Event) {
	if rec, ok := ParseRecord(e); ok {
		t.open(rec)
		return
	}
	if rec, ok := parseRecord(e, QueuedEvent); ok {
		t.enqueue(rec)
		return
	}
	if e.ReplyID() == "" {
		return
	}
	r := t.reply(e)
	r.blocks.note(e)
	switch e.(type) {
	case *message.ReplyStart:
		r.begun = true
	case *message.UserInterrupt:
		r.interrupted = true
	case *message.ReplyEnd:
		r.ended = true
		if t.Open == e.ReplyID() {
			t.Open = ""
		}
		t.dequeue(e.ReplyID())
	default:
	}
	_ = message.Append(r.msg, e) // an event that does not fit changes nothing, for every reader
}

// Busy returns the reply that a new turn must wait for: the open one, or the first of the queue;
// "" if there is none.
func (t *Thread) Busy() message.ReplyID {
	if t.Open == "" && len(t.Queue) > 0 {
		return t.Queue[0].Reply
	}
	return t.Open
}

// maxQueue bounds the turns that wait in one session.
const maxQueue = 16

// queued returns the record of a waiting turn, or nil if the turn does not wait.
func (t *Thread) queued(id message.ReplyID) *Record {
	for _, rec := range t.Queue {
		if rec.Reply == id {
			return rec
		}
	}
	return nil
}

// current returns the record of a turn that is open or waits, or nil if it does neither.
func (t *Thread) current(id message.ReplyID) *Record {
	if t.Open == id && id != "" {
		return t.replies[id].turn
	}
	return t.queued(id)
}

// enqueue adds a turn to the queue, unless the record is void.
func (t *Thread) enqueue(rec *Record) {
	if r := t.replies[rec.Reply]; len(t.Queue) >= maxQueue || t.queued(rec.Reply) != nil || r != nil && (r.turn != nil || r.ended) {
		return
	}
	t.Queue = append(t.Queue, rec)
	for _, m := range rec.Messages {
		if t.said[m.ID] == nil {
			t.said[m.ID] = m
		}
	}
}

// dequeue removes a turn from the queue.
func (t *Thread) dequeue(id message.ReplyID) {
	rec := t.queued(id)
	if rec == nil {
		return
	}
	t.Queue = slices.DeleteFunc(t.Queue, func(o *Record) bool { return o == rec })
	for _, m := range rec.Messages {
		if t.said[m.ID] == m {
			delete(t.said, m.ID)
		}
	}
}

// open opens a turn, unless the record is void because a turn is open, another one is next in the
// queue, or the reply already has a turn or has ended.
func (t *Thread) open(rec *Record) {
	r := t.replies[rec.Reply]
	if busy := t.Busy(); t.Open != "" || busy != "" && busy != rec.Reply || r != nil && (r.turn != nil || r.ended) {
		return
	}
	t.dequeue(rec.Reply)
	t.Open = rec.Reply
	t.Turns = append(t.Turns, rec)
	for _, m := range rec.Messages {
		if t.said[m.ID] == nil {
			t.said[m.ID] = m
			t.Messages = append(t.Messages, m)
		}
	}
	if r != nil {
		r.turn = rec
		return
	}
	t.replies[rec.Reply] = &reply{turn: rec}
}

// reply returns the reply of an event, and begins its message if necessary.
func (t *Thread) reply(e message.Event) *reply {
	r := t.replies[e.ReplyID()]
	if r == nil {
		r = &reply{}
		t.replies[e.ReplyID()] = r
	}
	if r.msg == nil {
		r.msg = newReply(e, r.turn)
		t.Messages = append(t.Messages, r.msg)
	}
	return r
}

// newReply returns the empty message of a reply that begins with e.
func newReply(e message.Event, turn *Record) *message.Msg {
	m := &message.Msg{
		Role: message.RoleAssistant, ID: string(e.ReplyID()), CreatedAt: e.Header().CreatedAt,
		Content: []message.Block{}, Metadata: map[string]any{},
	}
	if turn != nil {
		m.Name = turn.Agent
	}
	if s, ok := e.(*message.ReplyStart); ok {
		m.Name, m.Role = s.Name, s.Role
	}
	return m
}

// openBlocks are the parts of a reply that have begun and not ended.
type openBlocks struct {
	parts []part
	model bool // a call to the model is under way
}

// part is a block that has begun.
type part struct {
	kind message.EventType // of the event that began it
	id   string
}

// note records an event of the reply.
func (o *openBlocks) note(e message.Event) {
	switch e := e.(type) {
	case *message.ModelCallStart:
		o.model = true
	case *message.ModelCallEnd:
		o.model = false
	case *message.TextBlockStart:
		o.begin(e.Type(), e.BlockID)
	case *message.ThinkingBlockStart:
		o.begin(e.Type(), e.BlockID)
	case *message.DataBlockStart:
		o.begin(e.Type(), e.BlockID)
	case *message.ToolCallStart:
		o.begin(e.Type(), string(e.ToolCallID))
	case *message.TextBlockEnd:
		o.end(message.EventTextBlockStart, e.BlockID)
	case *message.ThinkingBlockEnd:
		o.end(message.EventThinkingBlockStart, e.BlockID)
	case *message.DataBlockEnd:
		o.end(message.EventDataBlockStart, e.BlockID)
	case *message.ToolCallEnd:
		o.end(message.EventToolCallStart, string(e.ToolCallID))
	default:
	}
}

func (o *openBlocks) begin(kind message.EventType, id string) {
	if p := (part{kind, id}); !slices.Contains(o.parts, p) {
		o.parts = append(o.parts, p)
	}
}

func (o *openBlocks) end(kind message.EventType, id string) {
	o.parts = slices.DeleteFunc(o.parts, func(p part) bool { return p == part{kind, id} })
}

// calls returns the tool calls without an end.
func (o *openBlocks) calls() []message.CallID {
	var out []message.CallID
	for _, p := range o.parts {
		if p.kind == message.EventToolCallStart {
			out = append(out, message.CallID(p.id))
		}
	}
	return out
}

func (o *openBlocks) closeEvents(reply message.ReplyID) []message.Event {
	var out []message.Event
	for _, p := range o.parts {
		h := message.NewHeader(reply)
		switch p.kind {
		case message.EventTextBlockStart:
			out = append(out, &message.TextBlockEnd{EventHeader: h, BlockID: p.id})
		case message.EventThinkingBlockStart:
			out = append(out, &message.ThinkingBlockEnd{EventHeader: h, BlockID: p.id})
		case message.EventDataBlockStart:
			out = append(out, &message.DataBlockEnd{EventHeader: h, BlockID: p.id})
		case message.EventToolCallStart:
			out = append(out, &message.ToolCallEnd{EventHeader: h, ToolCallID: message.CallID(p.id)})
		}
	}
	if o.model {
		out = append(out, &message.ModelCallEnd{EventHeader: message.NewHeader(reply), FinishedReason: message.ModelInterrupted})
	}
	return out
}
