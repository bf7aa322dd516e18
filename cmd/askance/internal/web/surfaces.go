package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agent/script"
	"github.com/askance-dev/askance/gateway/agenthook"
	"github.com/askance-dev/askance/gateway/agentscope"
	"github.com/askance-dev/askance/gateway/agui"
	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/blocks"
	"github.com/askance-dev/askance/gateway/console"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

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
		console.New(console.WithLinks(w.links)),
		rest,
		agenthook.New(w.publicOf),
		chat,
		agentscope.New(agentscope.Config{Runners: w.runners}),
		blocks.New(blocks.Config{Runners: w.runners}),
	}, background...), nil
}

// DemoAgent is the name of the agent without a model.
const DemoAgent = "demo"

// Demo returns an agent without a model that can call the engine's tools.
func Demo(tools []engine.Tool) agent.Agent {
	var known []agent.Tool
	for _, t := range tools {
		known = append(known, agent.Tool{Name: t.Name, Description: t.Description, Parameters: t.Schema.JSON()})
	}
	return script.New(DemoAgent, known...)
}

// startAgents starts the agents, and resumes the turns that an earlier process left open.
func (w *Web) startAgents(ctx context.Context) error {
	if w.cfg.Agents == nil {
		return nil
	}
	for _, space := range w.cfg.spaces() {
		cfg := agent.Config{As: space.As, Agents: w.cfg.Agents(space), ID: w.cfg.AgentID, Log: w.cfg.Log}
		for _, t := range space.Tools {
			if t.Placement != toolcall.PlaceExternal { // a frontend may run those
				cfg.Tools = append(cfg.Tools, t.Name)
			}
		}
		r, err := agent.New(cfg)
		if err != nil {
			return err
		}
		w.runners[space.ID] = r
		if err := r.Resume(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stopAgents waits for running agents to stop; their turns stay open.
func (w *Web) stopAgents() {
	for _, r := range w.runners {
		_ = r.Close() // always nil
	}
}

// health returns the routes that say whether the process runs and whether it can
// work. They reveal nothing else to strangers.
func (w *Web) health() gateway.Surface {
	return gateway.Routes{
		{Method: http.MethodGet, Path: "/healthz", Access: gateway.Everybody, Doc: "Check whether the process answers.", Serve: func(rw http.ResponseWriter, _ *http.Request, _ *gateway.Peer) error {
			return ok(rw)
		}},
		{Method: http.MethodGet, Path: "/readyz", Access: gateway.Everybody, Doc: "Check whether the engine works and its journal accepts new calls.", Serve: func(rw http.ResponseWriter, r *http.Request, _ *gateway.Peer) error {
			ctx, cancel := context.WithTimeout(r.Context(), readyWithin)
			defer cancel()
			for _, space := range w.cfg.spaces() {
				err := checkReady(ctx, space)
				if err == nil {
					continue
				}
				if len(w.cfg.Further) > 0 {
					err.What = "space " + string(space.ID) + ": " + err.What
				}
				return err
			}
			return ok(rw)
		}},
	}
}

// checkReady says why a space does not work, or accepts no new calls.
func checkReady(ctx context.Context, space *gateway.Space) *message.Error {
	by := toolcall.Principal{Role: toolcall.RoleAuditor, Name: "askance-ready", Auth: "in-process"}
	_, err := space.As(by).Info(ctx)
	if err == nil && space.Ready != nil {
		err = space.Ready(ctx)
	}
	reason := "the engine does not work at the moment"
	if cause, is := errors.AsType[*message.Error](err); is && cause.Op == "ready" {
		reason = cause.What // names a stream at most
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, message.ErrFull):
		return &message.Error{Code: message.CodeFull, Op: "ready", What: "the journal is full: " + reason, Hint: "free disk space, or raise the limit of the store", Err: err}
	}
	return &message.Error{Code: message.CodeUnavailable, Op: "ready", What: reason, Hint: "try again", Err: err}
}

// readyWithin bounds an answer of /readyz.
const readyWithin = 5 * time.Second

func ok(rw http.ResponseWriter) error {
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.Header().Set("Cache-Control", "no-store")
	_, err := rw.Write([]byte("ok\n"))
	return err
}

// Outbox is what webhooks need of a space's outbox.
type Outbox interface {
	webhook.Outbox
	// UseOnce reports whether a token is used for the first time in the space.
	UseOnce(ctx context.Context, token string, ttl time.Duration) (first bool, err error)
}

func (w *Web) openWebhooks(ctx context.Context) (err error) {
	if len(w.cfg.Webhooks) == 0 {
		return nil
	}
	if w.outbox, err = w.cfg.Outbox(ctx); err != nil {
		return err
	}
	w.links, err = webhook.NewLinks(webhook.LinksConfig{Space: w.cfg.Space.ID, Key: w.cfg.LinkKey, Public: w.public(), UseOnce: w.outbox.UseOnce})
	return err
}

// webhooks returns what delivers to the destinations; nil if there are none.
func (w *Web) webhooks() (*webhook.Webhooks, error) {
	if w.outbox == nil {
		return nil, nil
	}
	hooks, err := webhook.New(webhook.Config{Space: w.cfg.Space, Outbox: w.outbox, Destinations: w.cfg.Webhooks, Links: w.links, Log: w.cfg.Log})
	if err != nil {
		return nil, &Error{"--webhooks: " + err.Error()}
	}
	return hooks, nil
}

// DeadLetters is the number of dead letters, for metrics.
func (w *Web) DeadLetters() float64 {
	if w.outbox == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	all, err := w.outbox.DeadLetters(ctx)
	if err != nil {
		return math.NaN()
	}
	return float64(len(all))
}
