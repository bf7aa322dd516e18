package web

import (
	"context"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agent/script"
	"github.com/askance-dev/askance/message"
)

// DemoAgent is the name of the agent without a model.
const DemoAgent = "demo"

// Demo is an agent without a model that tells of the engine's tools.
func Demo(tools []engine.Tool) agent.Agent {
	var known []agent.Tool
	for _, t := range tools {
		known = append(known, agent.Tool{Name: t.Name, Description: t.Description, Parameters: t.Schema.JSON()})
	}
	return script.New(DemoAgent, known...)
}

// startAgents begins to run the agents, and goes on with what an earlier
// process left open.
func (w *Web) startAgents(ctx context.Context) error {
	if len(w.cfg.Agents) == 0 {
		return nil
	}
	cfg := agent.Config{As: w.cfg.Space.As, Agents: w.cfg.Agents, ID: w.cfg.AgentID, Log: w.cfg.Log}
	for _, t := range w.cfg.Space.Tools {
		if t.Placement != message.PlaceExternal { // a frontend may run those
			cfg.Tools = append(cfg.Tools, t.Name)
		}
	}
	r, err := agent.New(cfg)
	if err != nil {
		return err
	}
	w.runners = agent.Runners{w.cfg.Space.ID: r}
	return r.Resume(ctx)
}

// stopAgents waits for running agents to stop; their turns stay open.
func (w *Web) stopAgents() {
	for _, r := range w.runners {
		_ = r.Close() // always nil
	}
}
