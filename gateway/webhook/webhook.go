// Package webhook sends approval requests and outcomes to other programs by HTTP
// POST, signed as Standard Webhooks, retried for hours, and stored as dead letters
// after the last attempt. A message about an approval request has links that open the
// inbox with the decision prepared.
//
//	links, err := webhook.NewLinks(webhook.LinksConfig{…})
//	hooks, err := webhook.New(webhook.Config{Space: space, Outbox: outbox, Destinations: destinations, Links: links})
//	// hooks is a gateway.Background: pass it to gateway.New, and links to the inbox.
//
// # Guarantees
//
//   - At least once, with an id (webhook-id) that retries, restarts and several
//     gateways keep. The Outbox stores pending messages, never this process.
//   - Redacted values are never sent. No log, error or dead letter has a secret or
//     address of a destination.
//   - An approval request that was decided or has changed is not sent late.
//   - Opening a link decides nothing. A link names no person and is used once in the
//     whole space: the person who follows it logs in, must be an approver, and
//     confirms.
//   - Redirections are not followed.
//
// # What it does not do
//
// It does not keep the order: a retried message may come after a later one. seq in
// the message gives the order.
package webhook

import (
	"cmp"
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

// Config configures Webhooks. Space and Outbox are required.
type Config struct {
	Space        *gateway.Space
	Outbox       Outbox
	Destinations []Destination
	Links        *Links            // to the inbox; nil: messages have none
	Transport    http.RoundTripper // nil: a new one
	Pauses       []time.Duration   // between attempts; the last one repeats; nil: defaultPauses
	Log          *slog.Logger
}

// defaultPauses are the pauses between attempts: the eighth attempt is about sixteen
// hours after the first.
var defaultPauses = []time.Duration{5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 8 * time.Hour}

// Webhooks delivers in the background of a gateway and has the dead letters, which the
// API serves to operators. It is safe for concurrent use.
type Webhooks struct {
	cfg    Config
	byName map[string]*Destination
	// clients has one for each destination: a receiver that does not answer holds no connections that
	// another one at the same host needs.
	clients map[string]*http.Client
}

var _ gateway.Background = (*Webhooks)(nil)

// New checks the configuration.
func New(cfg Config) (*Webhooks, error) {
	if cfg.Space == nil || cfg.Outbox == nil {
		return nil, errors.New("webhook: the space or the outbox is missing: set Config.Space and Config.Outbox")
	}
	if err := Check(cfg.Destinations); err != nil {
		return nil, err
	}
	if len(cfg.Pauses) == 0 {
		cfg.Pauses = defaultPauses
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	w := &Webhooks{cfg: cfg, byName: map[string]*Destination{}, clients: map[string]*http.Client{}}
	for _, d := range cfg.Destinations {
		d.setDefaults()
		w.byName[d.Name], w.clients[d.Name] = &d, newClient(cfg.Transport)
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
				w.cfg.Log.Error("a webhook destination gets no messages", "destination", name, "err", err)
			}
		})
	}
	wg.Wait()
}

// self is the principal that checks whether an approval request is still open.
var self = toolcall.Principal{Role: toolcall.RoleAuditor, Name: "askance-webhooks", Auth: "in-process"}

// isCurrent reports whether a notice is still true: its approval request may have been
// decided or changed since. stored is when the server stored its record: the clock of the engine
// that wrote it may be wrong.
func (w *Webhooks) isCurrent(ctx context.Context, n *Notice, stored time.Time) (bool, error) {
	if !n.isRequest() {
		return true, nil
	}
	shown, err := w.cfg.Space.As(self).Show(ctx, toolcall.ShowRequest{V: 1, Key: n.Call.Key})
	isOlder := errors.Is(err, message.ErrNotFound) || err == nil && shown.Call.Seq < n.Seq
	switch {
	case isOlder && time.Since(stored) < toolcall.ReadLag:
		return false, errBehind
	case isOlder:
		return false, nil
	case err != nil:
		return false, err
	}
	return shown.Call.State == message.ToolCallAsking && shown.Call.Digest == n.Call.Digest, nil
}

var errBehind = errors.New("the state of the call is older than its record")

// Outbox stores the pending messages of each destination, as journal.Outbox does. It is
// safe for concurrent use.
type Outbox interface {
	// Follow calls f, in separate goroutines, with event records for a destination
	// until ctx ends. f resolves each delivery.
	Follow(ctx context.Context, destination string, f func(context.Context, toolcall.Delivery)) error
	// Record reads one event record again.
	Record(ctx context.Context, seq uint64) (toolcall.JournalEntry, error)
	AddDeadLetter(ctx context.Context, l toolcall.DeadLetter) error
	RemoveDeadLetter(ctx context.Context, destination string, seq uint64) error
	DeadLetters(ctx context.Context) ([]toolcall.DeadLetter, error)
}
