package main

import (
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agui"
	"github.com/askance-dev/askance/gateway/api"
)

// surfaces are the ways to talk to the agent and to answer what it asks.
func surfaces(runner *agent.Runner) ([]gateway.Surface, error) {
	chat, err := agui.New(agui.Config{Runners: agent.Runners{space: runner}})
	if err != nil {
		return nil, err
	}
	rest, err := api.New(api.Config{})
	if err != nil {
		return nil, err
	}
	return []gateway.Surface{chat, rest}, nil
}
