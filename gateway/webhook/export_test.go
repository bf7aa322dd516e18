package webhook

import (
	"context"
	"time"
)

// Pause returns the time until the next attempt, if the receiver requests a pause in its header.
func (w *Webhooks) Pause(attempt int, header string, now time.Time) time.Duration {
	return w.pause(attempt, retryAfter(header, now))
}

// Send makes one attempt to send a notice to a destination.
func (w *Webhooks) Send(ctx context.Context, destination string, n *Notice) error {
	return w.send(ctx, w.byName[destination], n)
}

// Slack exports the encoder of the Slack format to tests.
var Slack = encodeSlack
