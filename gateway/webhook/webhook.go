// Package webhook tells programs elsewhere of approval requests and outcomes: each
// destination gets them by HTTP POST, signed by the scheme of Standard Webhooks,
// tried again over hours, and kept as dead letters when nothing helped. Messages
// about an approval request carry links by which a person comes to the inbox with the
// decision prepared.
//
//	links, err := webhook.NewLinks(webhook.LinksConfig{…})
//	hooks, err := webhook.New(webhook.Config{Space: space, Outbox: outbox, Destinations: destinations, Links: links})
//	// hooks is a gateway.Background: hand it to gateway.New; hand links to the inbox.
//
// # Guarantees
//
//   - At least once, under an id that stays the same over retries, restarts and
//     several gateways: webhook-id. What is due is kept by the Outbox, never by
//     this process.
//   - What rules redact never leaves. Secrets and addresses of destinations stand
//     in no log, no error and no dead letter.
//   - An approval request that is resolved, or was asked anew, is not sent late.
//   - A link decides nothing by being opened, names nobody, and is used once in
//     the whole space: whoever follows it must be logged in, may answer or not by
//     their own name, and confirms.
//   - Redirections are not followed.
//
// # What it does not do
//
// Order: what was refused once may come after what happened later; seq in the
// message says in which order things happened.
package webhook

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Config says who is told. Space and Outbox are required.
type Config struct {
	Space        *gateway.Space
	Outbox       Outbox
	Destinations []Destination
	// Links makes links to the inbox; nil: messages have none.
	Links *Links
	// Transport carries requests; nil: one of its own.
	Transport http.RoundTripper
	// Pauses between attempts; the last one stands for all that follow. nil:
	// DefaultPauses.
	Pauses []time.Duration
	Log    *slog.Logger
}

// DefaultPauses are those between the attempts: with eight, the last is about
// sixteen hours after the first.
func DefaultPauses() []time.Duration {
	return []time.Duration{5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 8 * time.Hour}
}

// Webhooks delivers in the background of a gateway, and knows what was given up:
// give it to the API, too, which serves that to operators. It may be used from many goroutines.
type Webhooks struct {
	cfg    Config
	byName map[string]*Destination
	client *http.Client
}

var _ gateway.Background = (*Webhooks)(nil)

// New checks the destinations.
func New(cfg Config) (*Webhooks, error) {
	if cfg.Space == nil || cfg.Outbox == nil {
		return nil, errors.New("webhook: a space and an outbox are required")
	}
	if err := Check(cfg.Destinations); err != nil {
		return nil, err
	}
	if len(cfg.Pauses) == 0 {
		cfg.Pauses = DefaultPauses()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	w := &Webhooks{cfg: cfg, byName: map[string]*Destination{}, client: newClient(cfg.Transport)}
	for _, d := range cfg.Destinations {
		d.defaults()
		w.byName[d.Name] = &d
	}
	return w, nil
}

// Run implements gateway.Background.
func (w *Webhooks) Run(ctx context.Context, _ *gateway.Server) {
	var wg sync.WaitGroup
	for name, d := range w.byName {
		wg.Go(func() {
			err := w.cfg.Outbox.Follow(ctx, name, func(ctx context.Context, dl toolcall.Delivery) { w.deliver(ctx, d, dl) })
			if ctx.Err() == nil {
				w.cfg.Log.Error("a webhook's destination is told nothing", "destination", name, "err", err)
			}
		})
	}
	wg.Wait()
}

// self is in whose name it looks whether an approval request is still open.
var self = toolcall.Principal{Role: toolcall.RoleAuditor, Name: "askance-webhooks", Auth: "in-process"}

// current reports whether a notice is still true: an approval request may have been
// resolved or asked anew since.
func (w *Webhooks) current(ctx context.Context, n *Notice) (bool, error) {
	if !n.asks() {
		return true, nil
	}
	shown, err := w.cfg.Space.As(self).Show(ctx, toolcall.ShowRequest{V: 1, Key: n.Call.Key})
	if errors.Is(err, message.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return shown.Call.State == message.ToolCallAsking && shown.Call.Digest == n.Call.Digest, nil
}

// Outbox keeps what each destination is still to be told. bus.Outbox is one.
// Its methods may be called from several goroutines.
type Outbox interface {
	// Follow hands out event records for a destination until ctx ends. f runs in
	// goroutines of its own and resolves each delivery.
	Follow(ctx context.Context, destination string, f func(context.Context, toolcall.Delivery)) error
	// Record reads one event record again.
	Record(ctx context.Context, seq uint64) (toolcall.JournalEntry, error)
	// Bury keeps a delivery that is given up, Dig takes it out, and Letters lists
	// what is buried.
	AddDeadLetter(ctx context.Context, l toolcall.DeadLetter) error
	RemoveDeadLetter(ctx context.Context, destination string, seq uint64) error
	DeadLetters(ctx context.Context) ([]toolcall.DeadLetter, error)
}
