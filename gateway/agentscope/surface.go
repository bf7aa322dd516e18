package agentscope

import (
	"net/http"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/internal/strictjson"
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
	if cfg.KeepAlive <= 0 {
		cfg.KeepAlive = 15 * time.Second
	}
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

// answer writes JSON.
func answer(w http.ResponseWriter, status int, v any) error {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return err
	}
	return write(w, status, "application/json", b)
}

func write(w http.ResponseWriter, status int, kind string, b []byte) error {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the peer may be gone
	return nil
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
	return answer(w, http.StatusOK, out)
}
