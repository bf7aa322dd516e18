package agentscope

import (
	"net/http"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/msgv1"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// MessagesReply is the history of a session.
type MessagesReply struct {
	Messages []*message.Msg `json:"messages"`
	Place
}

// DictsReply is the history as messages of AgentScope 1.x.
type DictsReply struct {
	Messages []message.RawJSON `json:"messages"`
	Place
	// Lost is what AgentScope 1.x cannot represent.
	Lost []msgv1.Loss `json:"lost,omitzero"`
}

// Place says where a history ends.
type Place struct {
	// Open is the reply that is not complete yet; it is the last message, if it
	// has begun.
	Open message.ReplyID `json:"open_reply_id,omitzero"`
	// Next is where a stream continues: stream?after=NEXT has what is not in the messages.
	Next uint64 `json:"next"`
}

func (s *Surface) messages(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	c, err := p.Reader()
	if err != nil {
		return err
	}
	kind := msgv1.WantedBy(r)
	if kind == "" {
		t, err := agent.ReadThread(r.Context(), c, sessionOf(r))
		if err != nil {
			return err
		}
		return answer(w, http.StatusOK, MessagesReply{t.Messages, Place{t.Open, t.Through}})
	}
	return s.dicts(w, r, c, kind)
}

// dicts replies with the history as messages of AgentScope 1.x. A call that is asking has the
// arguments and the digest of its approval request, so that a decision is about what was shown.
func (s *Surface) dicts(w http.ResponseWriter, r *http.Request, c engine.Client, kind string) error {
	t, asked := agent.NewThread(), map[callOf]*message.RequireUserConfirm{}
	through, err := agent.EachEvent(r.Context(), c, toolcall.EventsRequest{Session: sessionOf(r)}, func(_ uint64, ev message.Event) error {
		t.Add(ev)
		if ask, ok := ev.(*message.RequireUserConfirm); ok {
			for _, b := range ask.ToolCalls {
				asked[callOf{ask.Reply, b.ID}] = ask
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, m := range t.Messages {
		for _, call := range message.BlocksOf[*message.ToolCallBlock](m) {
			ask := asked[callOf{message.ReplyID(m.ID), call.ID}]
			if call.State != message.ToolCallAsking || ask == nil {
				continue
			}
			for _, b := range ask.ToolCalls {
				if b.ID == call.ID {
					call.Input = b.Input
				}
			}
		}
	}
	out := DictsReply{Place: Place{t.Open, through}}
	out.Messages, out.Lost, err = msgv1.Encode(kind, t.Messages, func(reply message.ReplyID, call message.CallID) string {
		if ask := asked[callOf{reply, call}]; ask != nil {
			return ask.RequestDigest()
		}
		return ""
	})
	if err != nil {
		return err
	}
	b, err := strictjson.Marshal(out)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, kind, b)
}
