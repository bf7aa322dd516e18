package webhook

import "time"

// Pause is the time until the attempt after this one, where the receiver asks
// for a pause by its header.
func (w *Webhooks) Pause(attempt int, header string, now time.Time) time.Duration {
	return w.pause(attempt, retryAfter(header, now))
}

// Slack is for tests of the format.
var Slack = encodeSlack
