package web

import (
	"context"
	"time"

	"github.com/askance-dev/askance/gateway/webhook"
)

// Outbox is what webhooks need of a space's outbox.
type Outbox interface {
	webhook.Outbox
	// UseOnce reports whether a token is used for the first time in the space.
	UseOnce(ctx context.Context, token string, ttl time.Duration) (first bool, err error)
}

// openWebhooks opens what destinations need, if there are any.
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

// webhooks delivers to the destinations; nil if there are none.
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
