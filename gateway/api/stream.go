package api

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
	operation "github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// keepAlive is the longest pause on a stream.
const keepAlive = 15 * time.Second

// watchOp is an operation that only HTTP has.
func watchOp() *op {
	return &op{
		HTTP: operation.HTTP{ID: "watchCalls", Method: http.MethodGet, Path: "/v1/calls/stream", Tag: "calls", Stream: true,
			Params: []operation.Param{
				{Name: "session_id", Type: "string", Doc: "Only calls of this session."},
				{Name: "tool_name", Type: "string", Doc: "Only calls of this tool."},
			},
			Summary: "Watch calls",
			Doc:     "Sends server-sent events: first one named call for each open call, then ready, then call for each change and progress for each progress line (which can come before the change that it follows). When the stream breaks, or ends with behind, connect again: it begins again with the open calls."},
		roles: asOverseer, out: reflect.TypeFor[ChangeEvent](), serve: watch,
	}
}

func streamEvents(a *ask) error {
	session, reply := message.SessionID(a.r.PathValue("session_id")), message.ReplyID(a.q.text("reply_id"))
	from := gateway.Cursor{Seq: a.q.number("after")}
	if id := a.r.Header.Get("Last-Event-ID"); id != "" {
		var err error
		if from, err = gateway.ParseCursor(id); err != nil {
			return err
		}
	}
	if _, err := a.c.Events(a.ctx(), toolcall.EventsRequest{Session: session, After: from.Seq, Limit: 1}); err != nil {
		return err // a refusal, while the reply can still be an error
	}
	p := a.actingPeer()
	return gateway.Streaming(a.ctx(), a.w, keepAlive, "", func(ctx context.Context, s *gateway.Stream) error {
		return p.Feeds.Resume(ctx, p, session, from, nil, func(at gateway.Cursor, ev toolcall.SequencedEvent) error {
			if reply != "" && !ofReply(ev.Event, reply) {
				return nil
			}
			return s.Event(at.String(), "", ev.Event)
		})
	})
}

// actingPeer is the peer with only the role in which it acts.
func (a *ask) actingPeer() *gateway.Peer {
	p := *a.p
	p.Roles = []toolcall.Role{a.by}
	return &p
}

func ofReply(raw message.RawJSON, reply message.ReplyID) bool {
	ev, err := message.DecodeEvent(raw)
	return err == nil && ev.ReplyID() == reply
}

// watch streams the changes of the space's calls.
func watch(a *ask) error {
	session, tool := message.SessionID(a.q.text("session_id")), a.q.text("tool_name")
	wanted := func(c *toolcall.Call) bool {
		return (session == "" || c.Session == session) && (tool == "" || c.Tool == tool)
	}
	return gateway.Streaming(a.ctx(), a.w, keepAlive, "", func(ctx context.Context, s *gateway.Stream) error {
		known := map[toolcall.Key]uint64{} // of open calls: the last sequence sent
		last := uint64(0)                  // the last sequence in the list
		send := func(e ChangeEvent) error {
			if !wanted(e.Call) || e.Seq <= known[e.Call.Key] {
				return nil
			}
			if known != nil {
				known[e.Call.Key] = e.Seq
			}
			if !e.Call.Open() {
				delete(known, e.Call.Key)
			}
			if w, ok := e.Call.Waiting(time.Now()); ok {
				e.Wait = &w
			}
			return s.JSON("call", e)
		}
		open := func(e ChangeEvent) error {
			last = max(last, e.Seq)
			return send(e)
		}
		err := a.p.Feeds.Changes(ctx, func() error { return sendOpen(ctx, a, s, session, open) }, func(c gateway.Change) error {
			if c.Seq > last && tool == "" {
				known = nil // from now on all changes are newer than the list
			}
			switch {
			case c.Call != nil:
				return send(ChangeEvent{Seq: c.Seq, Kind: c.Kind, By: c.By, At: c.At, Call: c.Call})
			case session != "" && c.Progress.Session != session, tool != "" && known[c.Progress.Key] == 0:
				return nil
			}
			return s.JSON("progress", c.Progress)
		})
		if errors.Is(err, gateway.ErrBehind) {
			return s.Event("", "behind", []byte("{}"))
		}
		return err
	})
}

// sendOpen sends the open calls, and then the event ready.
func sendOpen(ctx context.Context, a *ask, s *gateway.Stream, session message.SessionID, send func(ChangeEvent) error) error {
	r := toolcall.ListRequest{Session: session}
	for {
		page, err := a.c.List(ctx, r)
		if err != nil {
			return err
		}
		for _, c := range page.Calls {
			if err := send(ChangeEvent{Seq: c.Seq, Kind: c.Cause, At: c.UpdatedAt, Call: c}); err != nil {
				return err
			}
		}
		if r.After = page.Next; page.Next == 0 {
			return s.Event("", "ready", []byte("{}"))
		}
	}
}
