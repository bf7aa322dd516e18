package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// streams reads and writes the events of sessions.
type streams struct {
	*core
	sessions *sessions
	replies  *replies
}

// streamed are the events that a runtime may stream. askance derives all others from
// event records: a runtime must not be able to write that a person approved, or that a
// tool answered.
var streamed = map[message.EventType]bool{
	message.EventReplyStart: true, message.EventReplyEnd: true,
	message.EventModelCallStart: true, message.EventModelCallEnd: true,
	message.EventTextBlockStart: true, message.EventTextBlockDelta: true, message.EventTextBlockEnd: true,
	message.EventThinkingBlockStart: true, message.EventThinkingBlockDelta: true, message.EventThinkingBlockEnd: true,
	message.EventDataBlockStart: true, message.EventDataBlockDelta: true, message.EventDataBlockEnd: true,
	message.EventHintBlock: true, message.EventToolCallStart: true, message.EventToolCallDelta: true,
	message.EventToolCallEnd: true, message.EventExceedMaxIters: true, message.EventCustom: true,
}

func (st *streams) emitEvents(ctx context.Context, by toolcall.Principal, r toolcall.EmitRequest) (toolcall.EmitReply, error) {
	reply := toolcall.Key{Space: st.space, Session: r.Session, Reply: r.Reply}
	if err := checkReplyKey(reply); err != nil {
		return toolcall.EmitReply{}, err
	}
	if len(r.Events) == 0 || len(r.Events) > store.PageRecords {
		return toolcall.EmitReply{}, &message.Error{Code: message.CodeInvalid, What: fmt.Sprintf("%d events in one request", len(r.Events)), Hint: fmt.Sprintf("send 1 to %d", store.PageRecords)}
	}
	events := make([]message.RawJSON, len(r.Events))
	end := -1
	for i, raw := range r.Events {
		var err error
		var kind message.EventType
		if events[i], kind, err = checkEvent(raw, reply); err != nil {
			return toolcall.EmitReply{}, fmt.Errorf("events[%d]: %w", i, err)
		}
		if kind == message.EventReplyEnd && end < 0 {
			end = i
		}
	}
	if end >= 0 && end < len(events)-1 {
		return toolcall.EmitReply{}, &message.Error{Code: message.CodeInvalid, What: fmt.Sprintf("events[%d] follows the REPLY_END of its reply", end+1), Hint: "send REPLY_END last"}
	}
	if _, err := st.sessions.bindSession(ctx, by, reply.SessionKey()); err != nil {
		return toolcall.EmitReply{}, err
	}
	var seq uint64
	var err error
	before := events
	if end >= 0 {
		before = events[:end]
	}
	if len(before) > 0 {
		seq, err = st.journal.AppendEvent(ctx, by.Name, reply, before)
	}
	if err == nil && end >= 0 {
		seq, err = st.replies.completeReply(ctx, by, reply, events[end])
	}
	return toolcall.EmitReply{Seq: seq}, err
}

// checkEvent checks one event of a runtime and fills in what it leaves out (id, time,
// defaults), so that every reader gets the same event.
func checkEvent(raw message.RawJSON, reply toolcall.Key) (message.RawJSON, message.EventType, error) {
	ev, err := message.DecodeEvent(raw)
	if err != nil {
		return nil, "", &message.Error{Code: message.CodeInvalid, What: "not an AgentScope event", Hint: "stream events of AgentScope 2.0", Err: err}
	}
	if !streamed[ev.Type()] {
		return nil, "", &message.Error{Code: message.CodeForbidden, What: "a runtime cannot stream " + string(ev.Type()), Hint: "askance derives it from the journal"}
	}
	if ev.Type() != message.EventCustom && ev.ReplyID() != reply.Reply {
		return nil, "", &message.Error{Code: message.CodeInvalid, What: "reply_id differs from the request's", Hint: "stream each reply's events in separate requests"}
	}
	if s, named := sessionOf(ev); named && s != reply.Session {
		return nil, "", &message.Error{Code: message.CodeInvalid, What: "session_id differs from the request's", Hint: "stream each session's events in separate requests"}
	}
	full, err := json.Marshal(ev)
	return full, ev.Type(), err
}

// sessionOf returns the session that an event names, if it names one.
func sessionOf(ev message.Event) (message.SessionID, bool) {
	switch ev := ev.(type) {
	case *message.ReplyStart:
		return ev.Session, true
	case *message.ReplyEnd:
		return ev.Session, true
	default:
		return "", false
	}
}

// readEvents reads a session's events in journal order: those that were streamed, and those
// derived from event records. It can hold the request until there is news.
func (st *streams) readEvents(ctx context.Context, p *Port, r toolcall.EventsRequest) (toolcall.EventsReply, error) {
	session := toolcall.Key{Space: st.space, Session: r.Session}
	if r.Session == "" {
		return toolcall.EventsReply{}, &message.Error{Code: message.CodeInvalid, What: "session_id is empty", Hint: "name the session"}
	}
	if r.Limit <= 0 || r.Limit > store.PageRecords {
		r.Limit = store.PageRecords
	}
	if err := st.checkCursor(ctx, session, r.After); err != nil {
		return toolcall.EventsReply{}, err
	}
	out := toolcall.EventsReply{Events: []toolcall.SequencedEvent{}, Next: r.After}
	err := st.holdRequest(ctx, session, min(maxHold, time.Duration(r.WaitMS)*time.Millisecond), func() (bool, error) {
		for {
			records, next, err := st.journal.Read(ctx, session, out.Next, r.Limit)
			if err != nil {
				return false, err
			}
			out.Next = next
			for _, rec := range records {
				if err := st.appendEvents(ctx, p, &out, rec, r.Reply); err != nil {
					return false, err
				}
			}
			if len(out.Events) > 0 || len(records) < r.Limit || r.WaitMS <= 0 {
				return len(out.Events) > 0 || r.WaitMS <= 0, nil
			}
		}
	})
	if ctx.Err() != nil {
		err = nil // the caller has gone; what was read is still correct
	}
	return out, err
}

// checkCursor refuses a cursor beyond the journal's end: it would give no event before the journal
// has reached it. On a cluster, it looks again after a while, because the server that was read can be
// behind the one that sent the event.
func (st *streams) checkCursor(ctx context.Context, session toolcall.Key, after uint64) error {
	beyond, err := st.isBeyond(ctx, session, after)
	if lag := st.cfg.lag(); beyond && lag > 0 {
		select {
		case <-ctx.Done():
			return givenUpError(context.Cause(ctx))
		case <-time.After(lag):
			beyond, err = st.isBeyond(ctx, session, after)
		}
	}
	if beyond {
		err = &message.Error{Code: message.CodeInvalid, What: fmt.Sprintf("the cursor %d is beyond the end of the journal", after), Hint: "send the id of the last event that you received from this server, or none to read from the beginning"}
	}
	return err
}

// isBeyond asks the journal where it ends if the view, which can lag behind it, ends before a cursor.
func (st *streams) isBeyond(ctx context.Context, session toolcall.Key, after uint64) (bool, error) {
	if after <= st.view.Sequence() {
		return false, nil
	}
	_, end, err := st.journal.Read(ctx, session, after-1, 1)
	return err == nil && end < after, err
}

func (st *streams) appendEvents(ctx context.Context, p *Port, out *toolcall.EventsReply, rec toolcall.JournalEntry, reply message.ReplyID) error {
	if reply != "" && rec.Key.Reply != reply {
		return nil
	}
	if rec.Event != nil {
		for _, raw := range st.eventsFor(ctx, p, rec) {
			out.Events = append(out.Events, toolcall.SequencedEvent{Seq: rec.Seq, Event: raw})
		}
		return nil
	}
	if rec.Record == nil {
		return nil
	}
	record, events := rec.Record, []message.Event(nil)
	if !p.seesAll() {
		events, record = st.wholeInput(ctx, record), record.Redacted()
	}
	for _, ev := range append(events, toolcall.Events(record)...) {
		raw, err := json.Marshal(ev)
		if err != nil {
			return fmt.Errorf("encode an event of record %d: %w", rec.Seq, err)
		}
		out.Events = append(out.Events, toolcall.SequencedEvent{Seq: rec.Seq, Event: raw})
	}
	return nil
}

// eventsFor returns a streamed event as the principal may see it. A call's arguments are
// streamed in pieces that cannot be redacted one by one: the pieces are emptied, and wholeInput
// follows when the call is on record, so a live reader gets what a later one gets.
func (st *streams) eventsFor(ctx context.Context, p *Port, rec toolcall.JournalEntry) []message.RawJSON {
	whole := []message.RawJSON{rec.Event}
	if p.seesAll() || !bytes.Contains(rec.Event, []byte("TOOL_CALL_")) && !message.IsOwnEvent(rec.Event) {
		return whole
	}
	ev, err := message.DecodeEvent(rec.Event)
	if err != nil {
		return nil
	}
	switch ev := ev.(type) {
	case *message.Custom: // what a frontend sends next to its messages is for its agent
		if _, is := ev.Value["input"]; !is || !ev.Own() {
			return whole
		}
		delete(ev.Value, "input")
		return encodeEvent(ev)
	case *message.ToolCallStart:
		c := st.hiddenCall(ctx, rec.Key, ev.ToolCallID)
		if c == nil || c.First == 0 || c.First > rec.Seq {
			return whole
		}
		h := ev.EventHeader
		h.ID += wholeInputID
		return append(whole, encodeEvent(&message.ToolCallDelta{EventHeader: h, ToolCallID: ev.ToolCallID, Delta: c.Redacted().Input})...)
	case *message.ToolCallDelta:
		if st.hiddenCall(ctx, rec.Key, ev.ToolCallID) == nil {
			return whole
		}
		ev.Delta = ""
		return encodeEvent(ev)
	default:
		return whole
	}
}

func encodeEvent(ev message.Event) []message.RawJSON {
	raw, err := json.Marshal(ev)
	if err != nil {
		return nil
	}
	return []message.RawJSON{raw}
}

// wholeInputID ends the ids of events with the arguments of a call instead of its streamed pieces.
const wholeInputID = "-input"

// HidesPieces reports whether an event has the arguments of a call's record, because the reader may not
// see those that the model streamed.
func HidesPieces(ev *message.ToolCallDelta) bool { return strings.HasSuffix(ev.ID, wholeInputID) }

// wholeInput returns the arguments that a call's first record adds for people who get its streamed
// pieces empty.
func (st *streams) wholeInput(ctx context.Context, rec *toolcall.EventRecord) []message.Event {
	if rec.Call == nil || len(rec.Path) == 0 || rec.Path[0].Cause != string(toolcall.CausePropose) {
		return nil
	}
	c := st.hiddenCall(ctx, rec.Call.Key, rec.Call.Call)
	if c == nil {
		return nil
	}
	input := rec.Call.Redacted().Input
	if (c.Hides() || c.First == 0) && !rec.Call.Hides() { // a later decision hides what this record does not, or may
		input = ""
	}
	h := message.EventHeader{ID: rec.ID + wholeInputID, CreatedAt: toolcall.Timestamp(rec.At), Metadata: map[string]any{}, Reply: rec.Call.Reply}
	return []message.Event{&message.ToolCallDelta{EventHeader: h, ToolCallID: rec.Call.Call, Delta: input}}
}

// hiddenCall returns the call whose streamed arguments must be redacted, or nil if they may be
// shown: none may while the policy hides anything. An empty call stands for one that cannot be read,
// or is not on record yet.
func (st *streams) hiddenCall(ctx context.Context, key toolcall.Key, id message.CallID) *toolcall.Call {
	key.Call = id
	c, err := st.store.Call(ctx, key)
	redacts := st.policy.Redacts()
	switch {
	case c == nil && (redacts || !errors.Is(err, message.ErrNotFound)):
		return &toolcall.Call{Key: key}
	case c == nil || !redacts && !c.Hides():
		return nil
	}
	return c
}
