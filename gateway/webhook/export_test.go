package webhook

import "time"

// Pause returns the time until the next attempt, if the receiver requests a pause in its header.
func (w *Webhooks) Pause(attempt int, header string, now time.Time) time.Duration {
	return w.pause(attempt, retryAfter(header, now))
}

// Slack exports the encoder of the Slack format to tests.
var Slack = encodeSlack
