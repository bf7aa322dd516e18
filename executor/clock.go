package executor

import (
	"log/slog"
	"sync"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// clockTolerance is how far a worker's clock may differ before it is told.
const clockTolerance = time.Second

// clock is what a worker knows of its clock against the engines'. It is measured
// by the time in an engine's reply, which lies between sending and receiving.
type clock struct {
	mu            sync.Mutex // guards all below
	ahead, within time.Duration
	off           bool
}

// measure takes over a reply and logs once per change.
func (k *clock) measure(log *slog.Logger, sent, received, engine time.Time) {
	if engine.IsZero() { // of an engine that does not tell
		return
	}
	within := received.Sub(sent) / 2
	ahead := sent.Add(within).Sub(engine)
	off := ahead.Abs()-within > clockTolerance
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.off
	if was && !off && within > clockTolerance {
		return // on its way for too long to tell that the clocks agree
	}
	k.ahead, k.within, k.off = ahead, within, off
	switch {
	case off && !was:
		log.Warn("this machine's clock differs from the engine's: correct it, or grants are not valid here when they should be", "ahead", ahead.Round(time.Millisecond).String(), "within", within.String())
	case was && !off:
		log.Info("this machine's clock agrees with the engine's again")
	}
}

// on tells an engine of the clock, with a heartbeat.
func (k *clock) on(r toolcall.HeartbeatRequest) toolcall.HeartbeatRequest {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.off {
		r.ClockMS, r.ClockWithinMS = k.ahead.Milliseconds(), k.within.Milliseconds()
	}
	return r
}
