package agentscope

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/msgv1"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	v1 "github.com/askance-dev/askance/message/v1"
	"github.com/askance-dev/askance/toolcall"
)

// ChatBody is what a frontend says to an agent. Input is a message, a list of messages (the last
// is new), or a response: one of the three events, or an AgentScope 1.x message with decisions.
type ChatBody struct {
	Agent   string            `json:"agent_id"`
	Session message.SessionID `json:"session_id"`
	Input   message.RawJSON   `json:"input"`
}

// ChatReply reports that the request was accepted.
type ChatReply struct {
	Status  string            `json:"status"` // for chat: started, as in AgentScope; otherwise accepted or interrupted
	Session message.SessionID `json:"session_id"`
	Reply   message.ReplyID   `json:"reply_id,omitzero"`
}

const (
	statusStarted  = "started"
	statusAccepted = "accepted"
)

// chat begins a turn, or accepts a response.
func (s *Surface) chat(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	b, err := gateway.ReadBody("agentscope", r)
	if err != nil {
		return err
	}
	var body ChatBody
	if err := strictjson.Unmarshal(b, &body); err != nil {
		return invalid("the body is not as it should be: "+err.Error(), `send {"agent_id": …, "session_id": …, "input": …}`)
	}
	if body.Session == "" {
		return invalid("session_id is empty", "name the session, for example by a UUID")
	}
	switch kind := strictjson.KindOf(body.Input); kind {
	case "object":
		var head struct {
			Type *string `json:"type"`
		}
		if err := strictjson.UnmarshalOpen(body.Input, &head); err != nil {
			return invalid("input: "+err.Error(), "send a message, or one of the three answers")
		}
		if head.Type != nil && !msgv1.IsSent(r) {
			return s.take(w, r, p, body.Session, body.Input, statusStarted)
		}
		return s.say(w, r, p, body, []message.RawJSON{body.Input})
	case "array":
		items, err := strictjson.Items(body.Input)
		if err != nil {
			return invalid("input: "+err.Error(), "send a list of messages")
		}
		msgs := make([]message.RawJSON, len(items))
		for i, m := range items {
			msgs[i] = m.Value
		}
		return s.say(w, r, p, body, msgs)
	case "null":
		return invalid("input is null", "say something: turns that were cut off go on by themselves")
	default:
		return invalid("input is of type "+kind, "send a message, a list of messages, or one of the three answers")
	}
}

// say begins a turn, or accepts the decisions of an AgentScope 1.x message.
func (s *Surface) say(w http.ResponseWriter, r *http.Request, p *gateway.Peer, body ChatBody, raw []message.RawJSON) error {
	if !msgv1.IsSent(r) {
		msgs, err := decodeMsgs(raw)
		if err != nil {
			return err
		}
		return s.start(w, r, p, body, msgs)
	}
	dicts, err := msgv1.Decode("chat", raw)
	if err != nil {
		return err
	}
	decisions, err := msgv1.DecisionsOf(dicts)
	if err != nil {
		return err
	}
	if decisions != nil {
		return s.decide(w, r, p, body.Session, decisions)
	}
	for _, m := range dicts {
		m.Name = p.Name // also in the 1.x form of the history
	}
	msgs, err := msgv1.Convert("chat", dicts)
	if err != nil {
		return err
	}
	return s.start(w, r, p, body, msgs)
}

func decodeMsgs(raw []message.RawJSON) ([]*message.Msg, error) {
	out := make([]*message.Msg, len(raw))
	for i, b := range raw {
		var err error
		if out[i], err = message.DecodeMsg(b); err != nil {
			return nil, &message.Error{
				Code: message.CodeInvalid, Op: "chat", What: fmt.Sprintf("input[%d] is not a message of AgentScope 2.0: %v", i, err),
				Hint: "correct it, or send AgentScope 1.x messages with Content-Type: " + msgv1.Type,
			}
		}
	}
	return out, nil
}

// start begins a turn. The messages get the name of the peer.
func (s *Surface) start(w http.ResponseWriter, r *http.Request, p *gateway.Peer, body ChatBody, msgs []*message.Msg) error {
	runner, err := s.cfg.Runners.Of(p.Space.ID)
	if err != nil {
		return err
	}
	if _, err := p.As(toolcall.RoleRuntime); err != nil {
		return err
	}
	by := toolcall.Principal{Role: toolcall.RoleRuntime, Name: p.Name, Auth: p.Auth}
	for _, m := range msgs {
		m.Name = p.Name
	}
	reply, err := runner.Start(r.Context(), by, body.Session, body.Agent, agent.Input{Messages: msgs})
	if err != nil {
		return err
	}
	return gateway.ReplyJSON(w, http.StatusOK, ChatReply{Status: statusStarted, Session: body.Session, Reply: reply})
}

// events accepts a response.
func (s *Surface) events(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	b, err := gateway.ReadBody("agentscope", r)
	if err != nil {
		return err
	}
	return s.take(w, r, p, sessionOf(r), b, statusAccepted)
}

// take carries out a response.
func (s *Surface) take(w http.ResponseWriter, r *http.Request, p *gateway.Peer, session message.SessionID, raw []byte, status string) error {
	ev, err := message.DecodeEvent(raw)
	if err != nil {
		return message.Errorf(message.CodeInvalid, "submit_response", "this is not an event of AgentScope 2.0: %w", err)
	}
	c, err := clientFor(p, ev)
	if err != nil {
		return err
	}
	var digests map[message.CallID]string
	if confirm, ok := ev.(*message.UserConfirmResult); ok {
		if digests, err = s.shown.answered(r.Context(), p, c, session, confirm); err != nil {
			return err
		}
	}
	shown := func(id message.CallID) string { return digests[id] }
	if err := engine.Deliver(r.Context(), c, session, ev, shown); err != nil {
		return err
	}
	return gateway.ReplyJSON(w, http.StatusOK, ChatReply{Status: status, Session: session, Reply: ev.ReplyID()})
}

// decide carries out the decisions of an AgentScope 1.x message.
func (s *Surface) decide(w http.ResponseWriter, r *http.Request, p *gateway.Peer, session message.SessionID, d *v1.Decisions) error {
	c, err := p.As(toolcall.RoleApprover)
	if err != nil {
		return err
	}
	responses, err := d.Responses(p.Space.ID, session)
	if err != nil {
		return err
	}
	if err := engine.DeliverResponses(r.Context(), c, session, message.ReplyID(d.RequestID), responses); err != nil {
		return err
	}
	return gateway.ReplyJSON(w, http.StatusOK, ChatReply{Status: statusStarted, Session: session, Reply: message.ReplyID(d.RequestID)})
}

// clientFor returns the engine in the role that a response needs.
func clientFor(p *gateway.Peer, ev message.Event) (engine.Client, error) {
	switch ev.(type) {
	case *message.UserConfirmResult:
		return p.As(toolcall.RoleApprover)
	case *message.ExternalExecutionResult:
		return p.As(toolcall.RoleRuntime)
	case *message.UserInterrupt:
		return p.Stopper()
	default:
		return nil, &message.Error{Code: message.CodeForbidden, Op: "submit_response", What: "a frontend does not send " + string(ev.Type()), Hint: "send USER_CONFIRM_RESULT, EXTERNAL_EXECUTION_RESULT or USER_INTERRUPT"}
	}
}

// interrupt ends the open turn of a session. If none is open, nothing happens, as in upstream.
func (s *Surface) interrupt(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	session := sessionOf(r)
	c, err := p.Stopper()
	if err != nil {
		return err
	}
	reply, err := agent.Stop(r.Context(), c, session)
	if err != nil {
		return err
	}
	return gateway.ReplyJSON(w, http.StatusAccepted, ChatReply{Status: "interrupted", Session: session, Reply: reply})
}

// maxPeers and maxShown bound the record of what was shown to whom.
const (
	maxPeers = 4096 // peers with a session
	maxShown = 4096 // approval requests of one
)

// shown records which approval requests were sent to each peer in each session. A confirm of
// AgentScope has no digest; it counts as a response to what its sender saw:
//
//   - of the approval requests about the call that were sent on the peer's streams, the last one
//     whose arguments the confirm returns;
//   - if the confirm returns other arguments, it is an edit of the last such request;
//   - a peer to which none was sent (this process is new, or the peer reads elsewhere) may return
//     what the journal's last approval request about the call shows, unchanged. For an edit it
//     must open the stream first.
type shown struct {
	mu    sync.Mutex
	peers map[peerSession]*requests
	order []peerSession // in order of arrival, to remove the oldest
}

type peerSession struct {
	space      toolcall.SpaceID
	name, auth string
	session    message.SessionID
}

type requests struct {
	byCall map[callOf][]request
	count  int
}

type callOf struct {
	reply message.ReplyID
	call  message.CallID
}

// request is an approval request that was shown. Its input is hashed, because inputs may be long.
type request struct {
	digest string
	input  [sha256.Size]byte
}

func asRequest(digest, input string) request {
	return request{digest, sha256.Sum256([]byte(input))}
}

func keyOf(p *gateway.Peer, session message.SessionID) peerSession {
	return peerSession{p.Space.ID, p.Name, p.Auth, session}
}

// noteSent records that an event was sent to a peer.
func (s *shown) noteSent(k peerSession, ev message.Event) {
	ask, ok := ev.(*message.RequireUserConfirm)
	if !ok || ask.RequestDigest() == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.peers[k]
	if q == nil {
		if len(s.order) == maxPeers {
			delete(s.peers, s.order[0])
			s.order = s.order[1:]
		}
		q = &requests{byCall: map[callOf][]request{}}
		s.peers[k], s.order = q, append(s.order, k)
	}
	for _, c := range ask.ToolCalls {
		if q.count == maxShown { // the peer must look again
			q.byCall, q.count = map[callOf][]request{}, 0
		}
		id := callOf{ask.Reply, c.ID}
		q.byCall[id], q.count = append(q.byCall[id], asRequest(ask.RequestDigest(), c.Input)), q.count+1
	}
}

// digest returns the digest of the approval request that a confirm answers, or false if the peer
// must open the stream first.
func (s *shown) digest(k peerSession, reply message.ReplyID, c message.ToolCallBlock) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.peers[k]
	if q == nil {
		return "", false
	}
	return pick(q.byCall[callOf{reply, c.ID}], c.Input, true)
}

// pick chooses among the approval requests about one call, in the order in which they
// were asked.
func pick(asked []request, input string, edits bool) (string, bool) {
	sum := sha256.Sum256([]byte(input))
	for _, q := range slices.Backward(asked) {
		if q.input == sum {
			return q.digest, true
		}
	}
	if !edits || len(asked) == 0 {
		return "", false
	}
	return asked[len(asked)-1].digest, true
}

// answered returns the digests for a confirm's calls.
func (s *shown) answered(ctx context.Context, p *gateway.Peer, c engine.Client, session message.SessionID, ev *message.UserConfirmResult) (map[message.CallID]string, error) {
	out := make(map[message.CallID]string, len(ev.ConfirmResults))
	var asked map[message.CallID][]request // according to the journal
	for _, r := range ev.ConfirmResults {
		d, ok := s.digest(keyOf(p, session), ev.Reply, r.ToolCall)
		if !ok {
			if asked == nil {
				var err error
				if asked, err = askedOf(ctx, c, session, ev.Reply); err != nil {
					return nil, err
				}
			}
			last := asked[r.ToolCall.ID]
			last = last[max(0, len(last)-1):]
			if d, ok = pick(last, r.ToolCall.Input, false); !ok && len(last) > 0 {
				return nil, &message.Error{Code: message.CodeConflict, Op: "confirm", What: "the arguments returned for call " + string(r.ToolCall.ID) + " are not those of its approval request, and this server has not shown it to you", Hint: "open the session's stream, look at the approval request, and confirm again"}
			}
		}
		out[r.ToolCall.ID] = d
	}
	return out, nil
}

// askedOf reads from the journal what was asked about the calls of a reply.
func askedOf(ctx context.Context, c engine.Client, session message.SessionID, reply message.ReplyID) (map[message.CallID][]request, error) {
	out := map[message.CallID][]request{}
	_, err := agent.EachEvent(ctx, c, toolcall.EventsRequest{Session: session, Reply: reply}, func(_ uint64, ev message.Event) error {
		if ask, ok := ev.(*message.RequireUserConfirm); ok {
			for _, b := range ask.ToolCalls {
				out[b.ID] = append(out[b.ID], asRequest(ask.RequestDigest(), b.Input))
			}
		}
		return nil
	})
	return out, err
}
