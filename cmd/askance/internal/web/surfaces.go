package web

import (
	"fmt"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agentscope"
	"github.com/askance-dev/askance/gateway/agui"
	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/blocks"
	"github.com/askance-dev/askance/gateway/inbox"
)

// surfaces is everything that askance serve serves over HTTP.
func (w *Web) surfaces() ([]gateway.Surface, error) {
	about := api.Config{Version: w.cfg.Version}
	var background []gateway.Surface
	hooks, err := w.webhooks()
	if err != nil {
		return nil, err
	}
	if hooks != nil { // no nil pointer in an interface
		about.Webhooks, background = hooks, append(background, hooks)
	}
	rest, err := api.New(about)
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	chat, err := agui.New(agui.Config{Runners: w.runners, Log: w.cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("agui: %w", err)
	}
	return append([]gateway.Surface{
		w.health(),
		w.auth,
		inbox.New(inbox.WithLinks(w.links)),
		rest,
		chat,
		agentscope.New(agentscope.Config{Runners: w.runners}),
		blocks.New(blocks.Config{Runners: w.runners}),
	}, background...), nil
}
