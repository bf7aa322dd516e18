// Package web is the HTTP side of askance serve: the listener, authentication, and
// the surfaces that it serves. (*Web).surfaces lists them.
package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agent/script"
	"github.com/askance-dev/askance/gateway/agenthook"
	"github.com/askance-dev/askance/gateway/agentscope"
	"github.com/askance-dev/askance/gateway/agui"
	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/gateway/blocks"
	"github.com/askance-dev/askance/gateway/console"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// DefaultAddress is where the gateway listens by default.
const DefaultAddress = "127.0.0.1:8787"

// Off is the address that opens no TCP port.
const Off = "off"

// Config says what to serve. Space is required.
type Config struct {
	// Address to listen at; "" is DefaultAddress, or a free port if it is taken.
	Address string
	// Listener is where to serve instead, as Listen opened it.
	Listener net.Listener
	// Socket is a Unix socket at which to serve in addition; no Path: none.
	Socket Socket
	Space  *gateway.Space
	// Further are other spaces. Tokens name them, and the local user does by the host; see
	// auth.SpaceHost. Webhooks and OIDC serve only Space.
	Further []*gateway.Space
	// User is the name of the local user, if no credentials are set up.
	User string
	// Tokens is a token file; "": there is none.
	Tokens string
	// DefaultTokens is the token file that is used as soon as it exists, if Tokens is empty.
	DefaultTokens string
	// HasLogins reports whether NATS logins exist for the space: if so, HTTP also
	// refuses requests without credentials. Nil means that none exist.
	HasLogins func() bool
	// TokenCommand creates the first token.
	TokenCommand string
	// OIDC is an identity provider; no Issuer: there is none. Serve fills in Space and Redirect.
	OIDC auth.OIDCConfig
	// Session is how long a browser stays logged in; 0: the default.
	Session time.Duration
	// Public is the URL at which browsers reach the gateway; "": that of the listener.
	Public string
	// Origins are the origins of other sites whose pages may use the gateway.
	Origins []string
	// Cert and Key are files for TLS; "" serves without.
	Cert, Key string
	// Insecure permits listening beyond loopback without TLS.
	Insecure bool
	// Agents returns the agents of a space that frontends can talk to; nil: there are none.
	Agents func(*gateway.Space) []agent.Agent
	// AgentID names this process's open turns, see agent.Config; "" is the default.
	AgentID string
	// Webhooks are the destinations of messages about approval requests and outcomes.
	// Outbox is called only if there are any.
	Webhooks []webhook.Destination
	// Outbox opens the outbox with the messages that are not delivered yet.
	Outbox func(context.Context) (Outbox, error)
	// LinkKey authenticates links in messages.
	LinkKey [32]byte
	// LoginKey seals the cookies of logins.
	LoginKey [32]byte
	// Version of askance.
	Version string
	Log     *slog.Logger
	// Served is called for each request; see gateway.Config. It may be nil.
	Served func(method, route string, status int, took time.Duration)
}

// Web is a running gateway. Its methods may be called from several goroutines.
type Web struct {
	cfg      Config
	listener net.Listener // nil with the address Off
	socket   net.Listener // nil without a socket
	auth     *auth.Auth
	tokens   *auth.Tokens // nil without a token file
	gateway  *gateway.Server
	http     *http.Server
	wg       sync.WaitGroup
	failed   chan error
	runners  agent.Runners  // of the spaces; empty without agents
	outbox   Outbox         // nil without webhooks
	links    *webhook.Links // nil without webhooks
}

// Error says which setting of a gateway is invalid or unsafe.
type Error struct{ What string }

func (e *Error) Error() string { return e.What }

// strangers returns an *Error if the gateway would admit strangers, or show passwords
// to the network.
func (c Config) strangers() error {
	if c.Address == Off || onLoopback(c.Address) {
		return nil
	}
	switch {
	case c.Tokens == "" && c.OIDC.Issuer == "":
		return &Error{"--http " + c.Address + " is not a loopback address, and there is no authentication: everyone who reaches it could act as you and approve calls; create tokens with askance token create, name a provider with --oidc-issuer, or listen on 127.0.0.1"}
	case c.Cert == "" && !c.Insecure:
		return &Error{"--http " + c.Address + " is not a loopback address, and without TLS the network sees every token: pass --http-cert and --http-key, or --http-insecure if a proxy in front has TLS"}
	}
	return nil
}

// onLoopback reports whether only this machine reaches an address. A name other
// than localhost can mean any address.
func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err != nil || host == "" || bus.OnLoopback(host) // Listen refuses an invalid address; an empty host means loopback
}

// Serve starts a gateway. The caller must close it.
func Serve(ctx context.Context, cfg Config) (*Web, error) {
	if err := cfg.strangers(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	w := &Web{cfg: cfg, failed: make(chan error, 2), runners: agent.Runners{}}
	var err error
	if w.listener = cfg.Listener; w.listener == nil && cfg.Address != Off {
		if w.listener, err = Listen(ctx, cfg); err != nil {
			return nil, err
		}
	}
	if w.socket = cfg.Socket.Listener; w.socket == nil && cfg.Socket.Path != "" {
		if w.socket, err = ListenSocket(ctx, cfg); err != nil {
			w.closeListeners()
			return nil, err
		}
	}
	if w.gateway, err = w.open(ctx); err != nil {
		w.stopAgents()
		w.closeListeners()
		return nil, err
	}
	w.http = gateway.HTTP(w.gateway, cfg.Log)
	w.http.ConnContext = auth.ConnContext
	for _, l := range []net.Listener{w.listener, w.socket} {
		if l != nil {
			w.wg.Go(func() { w.serve(l) })
		}
	}
	return w, nil
}

func (w *Web) serve(l net.Listener) {
	if err := w.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		w.failed <- fmt.Errorf("the gateway cannot continue: %w", err)
	}
}

func (w *Web) closeListeners() {
	for _, l := range []net.Listener{w.listener, w.socket} {
		if l != nil {
			_ = l.Close() // nothing was served
		}
	}
}

// open creates the gateway and the parts that it needs.
func (w *Web) open(ctx context.Context) (*gateway.Server, error) {
	var err error
	if w.auth, err = w.authenticator(); err != nil {
		return nil, err
	}
	if err := w.startAgents(ctx); err != nil {
		return nil, err
	}
	if err := w.openWebhooks(ctx); err != nil {
		return nil, err
	}
	surfaces, err := w.surfaces()
	if err != nil {
		return nil, err
	}
	return gateway.New(gateway.Config{
		Spaces: w.cfg.spaces(), Auth: w.auth, Login: auth.LoginPath, Origins: w.cfg.Origins,
		Surfaces: surfaces, Log: w.cfg.Log, Served: w.cfg.Served,
	})
}

func (c Config) spaces() []*gateway.Space {
	return append([]*gateway.Space{c.Space}, c.Further...)
}

// furtherIDs returns the ids of the spaces except the first.
func (c Config) furtherIDs() (out []toolcall.SpaceID) {
	for _, s := range c.Further {
		out = append(out, s.ID)
	}
	return out
}

// URL returns where the gateway listens; "" with the address Off.
func (w *Web) URL() string {
	if w.listener == nil {
		return ""
	}
	scheme := "http://"
	if w.cfg.Cert != "" {
		scheme = "https://"
	}
	return scheme + w.listener.Addr().String()
}

// Failed delivers an error when the gateway cannot continue.
func (w *Web) Failed() <-chan error { return w.failed }

const drain = 5 * time.Second

// Close ends streams, waits a while for requests to end, and stops. It may be called once.
func (w *Web) Close() error {
	w.gateway.Close()
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	err := w.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = w.http.Close()
	}
	w.wg.Wait()
	w.stopAgents()
	return err
}

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
	public := w.publicOf(w.cfg.Space.ID)
	if public == "" {
		return nil // messages have no links
	}
	w.links, err = webhook.NewLinks(webhook.LinksConfig{Space: w.cfg.Space.ID, Key: w.cfg.LinkKey, Public: public, UseOnce: w.outbox.UseOnce})
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
