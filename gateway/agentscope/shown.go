package agentscope

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

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

// sent records that an event was sent to a peer.
func (s *shown) sent(k peerSession, ev message.Event) {
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
