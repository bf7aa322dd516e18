package main

import (
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/api"
)

// surfaces are the ways to talk to the agent.
func surfaces(_ *agent.Runner) ([]gateway.Surface, error) {
	rest, err := api.New(api.Config{})
	if err != nil {
		return nil, err
	}
	return []gateway.Surface{rest}, nil
}
