package agentscope

import (
	"cmp"
	"context"
	"net/http"
	"strconv"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// stream sends a session's events.
func (s *Surface) stream(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	session := sessionOf(r)
	c, err := p.Reader()
	if err != nil {
		return err
	}
	from, err := begin(r, c, session)
	if err != nil {
		return err
	}
	me := keyOf(p, session)
	return gateway.Streaming(r.Context(), w, s.cfg.KeepAlive, func(ctx context.Context, out *gateway.Stream) error {
		return p.Feeds.Resume(ctx, p, session, from, nil, func(at gateway.Cursor, e toolcall.SequencedEvent) error {
			ev, err := message.DecodeEvent(e.Event)
			if err != nil {
				return err // the engine accepts no event that cannot be read
			}
			s.shown.sent(me, ev) // first, because a response may arrive before the write returns
			return out.Event(at.String(), "", e.Event)
		})
	})
}

// begin returns where a stream begins: after Last-Event-ID or the parameter after, or else with
// the current turn, as in upstream.
func begin(r *http.Request, c engine.Client, session message.SessionID) (gateway.Cursor, error) {
	q := r.URL.Query()
	for name, v := range q {
		if name != "agent_id" && name != "after" || len(v) > 1 {
			return gateway.Cursor{}, invalid("parameter "+strconv.Quote(name)+" is unknown here, or given twice", "use agent_id and after")
		}
	}
	id := r.Header.Get("Last-Event-ID")
	if id == "" && !q.Has("after") {
		return currentTurn(r.Context(), c, session)
	}
	from, err := gateway.ParseCursor(cmp.Or(id, q.Get("after")))
	if err == nil {
		_, err = c.Events(r.Context(), toolcall.EventsRequest{Session: session, After: from.Seq, Limit: 1}) // a refusal, while the reply can still be an error
	}
	return from, err
}

// currentTurn returns the cursor before the first event of the first reply that has not ended, or
// the session's end if there is none.
func currentTurn(ctx context.Context, c engine.Client, session message.SessionID) (gateway.Cursor, error) {
	begun, ended := map[message.ReplyID]uint64{}, map[message.ReplyID]bool{}
	through, err := agent.EachEvent(ctx, c, toolcall.EventsRequest{Session: session}, func(seq uint64, ev message.Event) error {
		reply := ev.ReplyID()
		if rec, ok := agent.ParseRecord(ev); ok {
			reply = rec.Reply
		}
		if _, ok := ev.(*message.ReplyEnd); ok {
			ended[reply] = true
			delete(begun, reply)
		}
		if _, known := begun[reply]; reply != "" && !known && !ended[reply] {
			begun[reply] = seq - 1
		}
		return nil
	})
	for _, before := range begun {
		through = min(through, before)
	}
	return gateway.Cursor{Seq: through}, err
}
