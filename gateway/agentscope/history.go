package agentscope

import (
	"net/http"

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

// askedCall is the call that an approval request shows, or that a frontend has to run, and the digest
// of the request.
type askedCall struct {
	call   message.ToolCallBlock
	digest string
}

func (s *Surface) messages(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	c, err := p.Reader()
	if err != nil {
		return err
	}
	t, asked := agent.NewThread(), map[callOf]askedCall{}
	through, err := agent.EachEvent(r.Context(), c, toolcall.EventsRequest{Session: sessionOf(r)}, func(_ uint64, ev message.Event) error {
		t.Add(ev)
		switch e := ev.(type) {
		case *message.RequireUserConfirm:
			for _, b := range e.ToolCalls {
				asked[callOf{e.Reply, b.ID}] = askedCall{b, e.RequestDigest()}
			}
		case *message.RequireExternalExecution:
			for _, b := range e.ToolCalls {
				asked[callOf{e.Reply, b.ID}] = askedCall{call: b}
			}
		default:
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, m := range t.Messages {
		showAsked(m, asked)
	}
	at := Place{t.Open, through}
	if kind := msgv1.WantedBy(r); kind != "" {
		return writeDicts(w, kind, t.Messages, asked, at)
	}
	return gateway.ReplyJSON(w, http.StatusOK, MessagesReply{t.Messages, at})
}

// showAsked gives the blocks of calls that are asking or submitted the name and arguments of their
// approval request, or those that run, so that a decision is about what was shown, and a frontend runs
// what was allowed. A runtime need not propose what it streamed, and an approver can edit it. A runtime
// can also stream several calls with one id; a reader may pair the request with any of them.
func showAsked(m *message.Msg, asked map[callOf]askedCall) {
	for _, b := range message.BlocksOf[*message.ToolCallBlock](m) {
		switch m.ToolCall(b.ID).State {
		case message.ToolCallAsking, message.ToolCallSubmitted:
			if a, ok := asked[callOf{message.ReplyID(m.ID), b.ID}]; ok {
				b.Name, b.Input = a.call.Name, a.call.Input
			}
		default:
		}
	}
}

// writeDicts replies with the history as messages of AgentScope 1.x.
func writeDicts(w http.ResponseWriter, kind string, messages []*message.Msg, asked map[callOf]askedCall, at Place) (err error) {
	out := DictsReply{Place: at}
	out.Messages, out.Lost, err = msgv1.Encode(kind, messages, func(reply message.ReplyID, call message.CallID) string {
		return asked[callOf{reply, call}].digest
	})
	if err != nil {
		return err
	}
	b, err := strictjson.Marshal(out)
	if err != nil {
		return err
	}
	return gateway.Reply(w, http.StatusOK, kind, append(b, '\n'))
}
