package agui

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

// Limits.
const (
	// MaxBody bounds a request in bytes: it carries the whole conversation.
	MaxBody = 8 << 20
	// MaxMessages, MaxTools and MaxEntries bound the lists of a request.
	MaxMessages = 10_000
	MaxTools    = 256
	MaxEntries  = 1_000
	// MaxWatchers is how many streams may follow one thread at once.
	MaxWatchers = 2048
)

// Config configures a Surface.
type Config struct {
	// Runners run the agents. Required.
	Runners agent.Runners
	// KeepAlive is the interval between comments on an idle stream. Default: 15 seconds.
	KeepAlive time.Duration
	// Grace is how long a run with open approval requests waits for running calls before it
	// ends with these requests. Default: 5 seconds.
	Grace time.Duration
	// Patience is how long a run stays open while it only waits for workers that report nothing.
	// Then it ends with an interrupt that anyone may resolve to check again. Default: 10 minutes.
	Patience time.Duration
	Log      *slog.Logger // nil: none
}

// Surface is the AG-UI endpoint. It is safe for concurrent use.
type Surface struct {
	cfg     Config
	log     *slog.Logger
	threads threads
}

// New makes the endpoint.
func New(cfg Config) (*Surface, error) {
	if cfg.Runners == nil {
		return nil, errors.New("agui: runners are required")
	}
	cfg.KeepAlive = cmp.Or(cfg.KeepAlive, 15*time.Second)
	cfg.Grace = cmp.Or(cfg.Grace, 5*time.Second)
	cfg.Patience = cmp.Or(cfg.Patience, 10*time.Minute)
	return &Surface{cfg: cfg, log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), threads: threads{open: map[threadKey]*load{}}}, nil
}

// Routes implements gateway.Surface.
func (s *Surface) Routes() []gateway.Route {
	talk := gateway.Only(toolcall.RoleRuntime)
	run := func(path, doc string, connect bool) gateway.Route {
		return gateway.Route{
			Method: http.MethodPost, Path: path, Access: talk, Stream: true, MaxBody: MaxBody, Doc: doc,
			Safe: connect,
			Serve: func(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
				return s.serve(w, r, p, connect)
			},
		}
	}
	return []gateway.Route{
		run("/agui", "Run the agent of the space over AG-UI.", false),
		run("/agui/agents/{agent}", "Run the agent of that name over AG-UI.", false),
		run("/agui/connect", "Follow a thread over AG-UI without starting a run.", true),
		{Method: http.MethodGet, Path: "/agui", Access: talk, Doc: "List the agents, and what they can do.", Serve: s.discover},
	}
}

// Discovery is the reply to GET /agui. AG-UI defines the form of capabilities but no way to
// request them; this way is ours.
type Discovery struct {
	ProtocolVersion string       `json:"protocolVersion"`
	Agents          []Discovered `json:"agents"`
}

// Discovered is one agent.
type Discovered struct {
	Name         string       `json:"name"`
	Description  string       `json:"description,omitzero"`
	URL          string       `json:"url"` // where to POST, on this server
	Capabilities Capabilities `json:"capabilities"`
}

// Capabilities are the AG-UI capabilities that an agent here has; the others are not declared.
type Capabilities struct {
	Identity       Identity       `json:"identity"`
	Transport      Transport      `json:"transport"`
	Tools          Tools          `json:"tools"`
	HumanInTheLoop HumanInTheLoop `json:"humanInTheLoop"`
}

// Identity says who the agent is.
type Identity struct {
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
}

// Transport says how events travel.
type Transport struct {
	Streaming bool `json:"streaming"`
}

// Tools says what tools there are, and whether the client may bring some.
type Tools struct {
	Supported      bool   `json:"supported"`
	Items          []Tool `json:"items"`
	ParallelCalls  bool   `json:"parallelCalls"`
	ClientProvided bool   `json:"clientProvided"`
}

// Tool is one tool of the agent.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  message.RawJSON `json:"parameters,omitzero"`
}

// HumanInTheLoop says how people are asked.
type HumanInTheLoop struct {
	Supported        bool `json:"supported"`
	Approvals        bool `json:"approvals"`
	Interrupts       bool `json:"interrupts"`
	ApproveWithEdits bool `json:"approveWithEdits"`
}

func (s *Surface) discover(w http.ResponseWriter, _ *http.Request, p *gateway.Peer) error {
	runner, err := s.cfg.Runners.Of(p.Space.ID)
	if err != nil {
		return err
	}
	out := Discovery{ProtocolVersion: wire.Version, Agents: []Discovered{}}
	for _, a := range runner.Agents() {
		out.Agents = append(out.Agents, describe(a))
	}
	return gateway.ReplyJSON(w, http.StatusOK, out)
}

func describe(a agent.Info) Discovered {
	tools := Tools{Supported: true, Items: []Tool{}, ParallelCalls: true, ClientProvided: true}
	for _, t := range a.Tools {
		tools.Items = append(tools.Items, Tool{t.Name, t.Description, t.Parameters})
	}
	return Discovered{
		Name: a.Name, Description: a.Description, URL: "/agui/agents/" + url.PathEscape(a.Name),
		Capabilities: Capabilities{
			Identity: Identity{a.Name, a.Description}, Transport: Transport{Streaming: true}, Tools: tools,
			HumanInTheLoop: HumanInTheLoop{Supported: true, Approvals: true, Interrupts: true, ApproveWithEdits: true},
		},
	}
}
