package executor

import (
	"context"
	"math/rand/v2"
	"time"
)

// Waiting between tries: doubled from the first to the last, each wait drawn
// from its upper half so that workers which lost the same engine do not all
// come back in the same instant.
const (
	backoffFirst = 100 * time.Millisecond
	backoffLast  = 10 * time.Second
)

// backoff counts tries. The zero value is ready; it is not safe for concurrent
// use.
type backoff struct{ last time.Duration }

// next is how long to wait now.
func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, backoffFirst), backoffLast)
	return b.last/2 + rand.N(b.last/2+1)
}

// wait waits and reports whether to try again; ctx ends it early.
func (b *backoff) wait(ctx context.Context) bool {
	t := time.NewTimer(b.next())
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
