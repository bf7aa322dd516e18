// Package jsapi has what package bus and its journal share about requests to a NATS
// server: errors of the JetStream API, pauses between attempts, and pulling tasks.
package jsapi

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	// AttemptTimeout limits one request to the server, which is then sent again.
	AttemptTimeout = 2 * time.Second
	// GiveUpAfter limits an operation whose context has no deadline.
	GiveUpAfter = 10 * time.Second
	// FlushTimeout limits a round trip to the server.
	FlushTimeout = 5 * time.Second
	// FirstPause is the pause after the first attempt. It doubles with each attempt, up to MaxPause.
	FirstPause = 20 * time.Millisecond
	// MaxPause limits the pause between attempts.
	MaxPause = time.Second
)

// MaxMessageBytes limits the bytes of a message of the server that is decoded.
const MaxMessageBytes = 64 << 20

// ErrNotSent says that a request was not sent, so nothing was changed.
var ErrNotSent = errors.New("nothing was sent")

// WithDefaultTimeout limits ctx if it has no deadline.
func WithDefaultTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

// RandomPause returns a random duration between half of d and d.
func RandomPause(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}
