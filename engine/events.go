package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// streamed are the events that a runtime may stream. All others are derived
// from event records by askance itself: a runtime must not be able to write that
// somebody approved, or that a tool answered.
var streamed = map[message.EventType]bool{
	message.EventReplyStart: true, message.EventReplyEnd: true,
	message.EventModelCallStart: true, message.EventModelCallEnd: true,
	message.EventTextBlockStart: true, message.EventTextBlockDelta: true, message.EventTextBlockEnd: true,
	message.EventThinkingBlockStart: true, message.EventThinkingBlockDelta: true, message.EventThinkingBlockEnd: true,
	message.EventDataBlockStart: true, message.EventDataBlockDelta: true, message.EventDataBlockEnd: true,
	message.EventHintBlock: true, message.EventToolCallStart: true, message.EventToolCallDelta: true,
	message.EventToolCallEnd: true, message.EventExceedMaxIters: true, message.EventCustom: true,
}

func (e *Engine) emit(ctx context.Context, by message.Principal, r message.EmitRequest) (message.EmitReply, error) {
	reply := message.Key{Space: e.space, Session: r.Session, Reply: r.Reply}
	if err := validReply(reply); err != nil {
		return message.EmitReply{}, opError("emit", err)
	}
	if len(r.Events) == 0 || len(r.Events) > store.PageRecords {
		return message.EmitReply{}, &message.Error{Code: message.CodeInvalid, Op: "emit", What: fmt.Sprintf("%d events in one request", len(r.Events)), Hint: fmt.Sprintf("send 1 to %d", store.PageRecords)}
	}
	events := make([]message.RawJSON, len(r.Events))
	for i, raw := range r.Events {
		var err error
		if events[i], err = streamable(raw, reply); err != nil {
			return message.EmitReply{}, opError("emit", fmt.Errorf("events[%d]: %w", i, err))
		}
	}
	if err := e.bindSession(ctx, by, reply.SessionKey()); err != nil {
		return message.EmitReply{}, opError("emit", err)
	}
	seq, err := e.journal.AppendEvent(ctx, by.Name, reply, events)
	if err != nil {
		return message.EmitReply{}, opError("emit", err)
	}
	return message.EmitReply{Seq: seq}, nil
}

// streamable checks one event of a runtime and completes it: what it leaves
// out (id, time, defaults) is fixed here, so that every reader gets the same
// event.
func streamable(raw message.RawJSON, reply message.Key) (message.RawJSON, error) {
	ev, err := message.DecodeEvent(raw)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, What: "not an AgentScope event", Hint: "stream events of AgentScope 2.0", Err: err}
	}
	if !streamed[ev.Type()] {
		return nil, &message.Error{Code: message.CodeForbidden, What: "a runtime does not stream " + string(ev.Type()), Hint: "askance derives it from the journal"}
	}
	if ev.Type() != message.EventCustom && ev.ReplyID() != reply.Reply {
		return nil, &message.Error{Code: message.CodeInvalid, What: "reply_id is not that of the request", Hint: "stream each reply's events by themselves"}
	}
	if s, named := sessionOf(ev); named && s != reply.Session {
		return nil, &message.Error{Code: message.CodeInvalid, What: "session_id is not that of the request", Hint: "stream each session's events by themselves"}
	}
	return json.Marshal(ev)
}

// sessionOf is the session that an event names, if it names one.
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

// events reads a session's events: the streamed ones and those that the event records
// stand for, in journal order. It can hold the request until there is news.
func (e *Engine) events(ctx context.Context, p *Port, r message.EventsRequest) (message.EventsReply, error) {
	session := message.Key{Space: e.space, Session: r.Session}
	if r.Session == "" {
		return message.EventsReply{}, &message.Error{Code: message.CodeInvalid, Op: "events", What: "session_id is empty", Hint: "name the session"}
	}
	if r.Limit <= 0 || r.Limit > store.PageRecords {
		r.Limit = store.PageRecords
	}
	timer := time.NewTimer(min(maxHold, time.Duration(r.WaitMS)*time.Millisecond))
	defer timer.Stop()
	out := message.EventsReply{Events: []message.SequencedEvent{}, Next: r.After}
	var moved <-chan struct{} // asked for only if there is nothing to give
	leave := func() {}
	defer func() { leave() }()
	for {
		records, next, err := e.journal.Read(ctx, session, out.Next, r.Limit)
		if err != nil {
			return out, opError("events", err)
		}
		out.Next = next
		for _, rec := range records {
			if err := e.appendEvents(ctx, p, &out, rec, r.Reply); err != nil {
				return out, opError("events", err)
			}
		}
		if len(out.Events) > 0 || r.WaitMS <= 0 {
			return out, nil
		}
		if len(records) == r.Limit {
			continue // only event records without events so far
		}
		if moved == nil {
			moved, leave = e.view.Watch(session)
			continue
		}
		resume := capacity.Rest(ctx)
		select {
		case <-moved:
			moved = nil
			if err := resume(); err != nil {
				return out, gaveUp("events", err)
			}
		case <-timer.C:
			return out, nil
		case <-ctx.Done():
			return out, nil
		case <-e.store.Following().Done():
			return out, e.blindError("events")
		}
	}
}

func (e *Engine) appendEvents(ctx context.Context, p *Port, out *message.EventsReply, rec message.JournalEntry, reply message.ReplyID) error {
	if reply != "" && rec.Key.Reply != reply {
		return nil
	}
	if rec.Event != nil {
		for _, raw := range e.streamedFor(ctx, p, rec) {
			out.Events = append(out.Events, message.SequencedEvent{Seq: rec.Seq, Event: raw})
		}
		return nil
	}
	if rec.Record == nil {
		return nil
	}
	f := rec.Record
	if !p.seesAll() {
		f = f.Redacted()
	}
	for _, ev := range toolcall.Events(f) {
		raw, err := json.Marshal(ev)
		if err != nil {
			return fmt.Errorf("encode an event of record %d: %w", rec.Seq, err)
		}
		out.Events = append(out.Events, message.SequencedEvent{Seq: rec.Seq, Event: raw})
	}
	return nil
}
