package schedule

import (
	"context"
	"time"
)

// Double gives d doubled so many times, at most limit.
func Double(d time.Duration, times int, limit time.Duration) time.Duration {
	for ; times > 0 && d < limit; times-- {
		d *= 2
	}
	return min(d, limit)
}

// Pauses are the pauses between attempts at something that has to succeed: each
// is twice as long as the one before.
type Pauses struct {
	Next time.Duration // the first pause, then the one that follows
	Most time.Duration // no pause is longer
}

// Wait pauses and reports whether to try again: false if ctx ended first.
func (p *Pauses) Wait(ctx context.Context) bool {
	timer := time.NewTimer(p.Next)
	defer timer.Stop()
	p.Next = Double(p.Next, 1, p.Most)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
