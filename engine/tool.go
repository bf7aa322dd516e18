package engine

import (
	"fmt"
	"time"

	"github.com/askance-dev/askance/engine/internal/schedule"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// Tool is what the engine knows of a tool. The zero values of the durations
// mean the defaults named at each.
type Tool struct {
	permission.Tool // name, schema, annotations and the tool's own check

	Description string
	Placement   toolcall.Placement // default local
	// ConcurrencySafe tools of one proposal run independently; the others run
	// serially, as AgentScope does it.
	ConcurrencySafe bool

	Lease        time.Duration // an owner silent for so long counts as dead; default 10 s, at least MinLease
	Timeout      time.Duration // longest run of one attempt; 0: none
	OfferTimeout time.Duration // an unstarted item is offered again after this; default 10 min
	QueueTimeout time.Duration // unstarted for so long, the call is handed to a person; 0: waits for ever
	MaxAttempts  int           // of an idempotent tool, then it is a dead letter; default 3
	Backoff      time.Duration // before attempt 2; doubles with each further one; default 1 s
}

// Defaults of Tool.
const (
	DefaultLease        = 10 * time.Second
	DefaultOfferTimeout = 10 * time.Minute
	DefaultMaxAttempts  = 3
	DefaultBackoff      = time.Second

	// MinLease is the shortest lease: an engine notices its own pauses from 200 ms
	// on, and the owner beats four times in a lease.
	MinLease = toolcall.MinLease

	maxOfferTimeout = 6 * time.Hour
	maxBackoff      = 5 * time.Minute
)

// CheckLease refuses a lease that heartbeats cannot keep. Zero is the default.
func CheckLease(lease time.Duration) error {
	if lease > 0 && lease < MinLease {
		return fmt.Errorf("the lease %s is too short for heartbeats to keep it; use %s or more", lease, MinLease)
	}
	return nil
}

func (t Tool) withDefaults() Tool {
	if t.Placement == "" {
		t.Placement = toolcall.PlaceLocal
	}
	if t.Lease <= 0 {
		t.Lease = DefaultLease
	}
	if t.OfferTimeout <= 0 {
		t.OfferTimeout = DefaultOfferTimeout
	}
	if t.MaxAttempts <= 0 {
		t.MaxAttempts = DefaultMaxAttempts
	}
	if t.Backoff <= 0 {
		t.Backoff = DefaultBackoff
	}
	return t
}

// offerFor grows with each fruitless offer, so that a call that waits for days
// writes few event records.
func (t Tool) offerFor(offers int) time.Duration {
	return schedule.Double(t.OfferTimeout, offers, max(t.OfferTimeout, maxOfferTimeout))
}

// backoff is the pause before the attempt after number n.
func (t Tool) backoff(n int) time.Duration {
	return schedule.Double(t.Backoff, n-1, max(t.Backoff, maxBackoff))
}

// heartbeat is how often an owner is asked to give a sign of life: three may
// be lost before the lease is.
func heartbeat(lease time.Duration) time.Duration { return max(lease/4, time.Millisecond) }
