package agui

import (
	"net/http"
	"net/url"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
)

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
	b, err := strictjson.Marshal(out)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(b, '\n')) // the peer may be gone
	return nil
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
