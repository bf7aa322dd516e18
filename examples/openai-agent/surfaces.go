package main

import (
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agentscope"
	"github.com/askance-dev/askance/gateway/agui"
	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/blocks"
	"github.com/askance-dev/askance/gateway/console"
)

// surfaces returns the surfaces for talking to the agent and for responding to its requests.
func surfaces(runner *agent.Runner) ([]gateway.Surface, error) {
	runners := agent.Runners{space: runner}
	chat, err := agui.New(agui.Config{Runners: runners})
	if err != nil {
		return nil, err
	}
	rest, err := api.New(api.Config{})
	if err != nil {
		return nil, err
	}
	return []gateway.Surface{console.New(), chat, agentscope.New(agentscope.Config{Runners: runners}), blocks.New(blocks.Config{Runners: runners}), rest}, nil
}
