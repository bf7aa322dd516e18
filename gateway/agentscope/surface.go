package agentscope

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Config says what the surface serves.
type Config struct {
	// Runners run the agents. In a space without a runner, sessions can be watched and answered,
	// but no turn can begin.
	Runners agent.Runners
	// KeepAlive is the longest silence on a stream; default 15 s (upstream: 30 s).
	KeepAlive time.Duration
}

// Surface is the gateway's surface. It is safe for concurrent use.
type Surface struct {
	cfg   Config
	shown *shown
}

// New makes the surface.
func New(cfg Config) *Surface {
	cfg.KeepAlive = cmp.Or(max(cfg.KeepAlive, 0), 15*time.Second)
	return &Surface{cfg: cfg, shown: &shown{peers: map[peerSession]*requests{}}}
}

const sessionPath = "/agentscope/sessions/{session_id}"

// Routes implements gateway.Surface.
func (s *Surface) Routes() []gateway.Route {
	people := gateway.Only(toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleOperator)
	post := func(path, doc string, access gateway.Access, f gateway.Handler) gateway.Route {
		return gateway.Route{Method: http.MethodPost, Path: path, Access: access, Doc: doc, Serve: f}
	}
	get := func(path, doc string, stream bool, f gateway.Handler) gateway.Route {
		return gateway.Route{Method: http.MethodGet, Path: path, Access: gateway.Readers, Doc: doc, Stream: stream, Serve: f}
	}
	return []gateway.Route{
		get("/agentscope/agents", "List the agents that accept messages.", false, s.agents),
		post("/agentscope/chat", "Send a message to an agent, or answer what it waits for.", people, s.chat),
		post("/agentscope/chat/{$}", "Send a message to an agent, or answer what it waits for, at the address of AgentScope's client.", people, s.chat),
		get(sessionPath+"/stream", "Follow the events of a session.", true, s.stream),
		get(sessionPath+"/messages", "Read the messages of a session.", false, s.messages),
		post(sessionPath+"/events", "Send the event USER_CONFIRM_RESULT, EXTERNAL_EXECUTION_RESULT or USER_INTERRUPT.", people, s.events),
		post(sessionPath+"/interrupt", "Interrupt the open turn of a session and all its calls.", people, s.interrupt),
	}
}

func invalid(what, hint string) error {
	return &message.Error{Code: message.CodeInvalid, Op: "agentscope", What: what, Hint: hint}
}

func sessionOf(r *http.Request) message.SessionID {
	return message.SessionID(r.PathValue("session_id"))
}

// AgentsReply lists the agents.
type AgentsReply struct {
	Agents []agent.Info `json:"agents"`
}

func (s *Surface) agents(w http.ResponseWriter, _ *http.Request, p *gateway.Peer) error {
	out := AgentsReply{Agents: []agent.Info{}}
	if r, err := s.cfg.Runners.Of(p.Space.ID); err == nil {
		out.Agents = r.Agents()
	}
	return gateway.ReplyJSON(w, http.StatusOK, out)
}

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
	return gateway.Streaming(r.Context(), w, s.cfg.KeepAlive, "", func(ctx context.Context, out *gateway.Stream) error {
		return p.Feeds.Resume(ctx, p, session, from, nil, func(at gateway.Cursor, e toolcall.SequencedEvent) error {
			ev, err := message.DecodeEvent(e.Event)
			if err != nil {
				return err // the engine accepts no event that cannot be read
			}
			s.shown.noteSent(me, ev) // first, because a response may arrive before the write returns
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
