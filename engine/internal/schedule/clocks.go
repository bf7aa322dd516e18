package schedule

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Clocks records which clocks differ from this engine's, and which calls cannot start
// because of that or of an unknown key. It is for people and decides nothing.
type Clocks struct {
	mu      sync.Mutex // guards all below
	log     *slog.Logger
	off     map[string]toolcall.ClockReading // by who
	blocked map[toolcall.Key]blocked
}

// blocked is why a call cannot start.
type blocked struct {
	kind    toolcall.Blocked
	attempt int
	why     string
	until   time.Time // forgotten then unless reported again
}

const (
	// reportEvery is longer than a worker takes to receive a task again that it returned
	// because of its clock.
	reportEvery = time.Minute
	// maxClocks bounds what workers can make an engine remember.
	maxClocks = 1024
)

// NewClocks returns a Clocks without differences that logs what it learns.
func NewClocks(log *slog.Logger) *Clocks {
	return &Clocks{log: log, off: map[string]toolcall.ClockReading{}, blocked: map[toolcall.Key]blocked{}}
}

// noteReading records a reading and logs it once per change. AheadMS 0 means that the clock
// is right.
func (k *Clocks) noteReading(r toolcall.ClockReading) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old, was := k.off[r.Who]
	switch {
	case r.AheadMS == 0 && !was || !was && len(k.off) >= maxClocks:
	case r.AheadMS == 0:
		delete(k.off, r.Who)
		k.log.Warn("a clock agrees with this engine's again", "who", r.Who)
	default:
		k.off[r.Who] = r
		if !was || (old.AheadMS > 0) != (r.AheadMS > 0) {
			k.log.Warn("a clock differs from this engine's: correct it, because grants and deadlines depend on it", "who", r.Who, "clock", clockText(r.AheadMS))
		}
	}
}

// BlockByKey records that a call cannot start because this engine does not know the key of an
// approval, unless the key may only be new.
func (k *Clocks) BlockByKey(c *toolcall.Call, why error) {
	if now, n := time.Now(), len(c.Votes); n > 0 && !now.Before(c.Votes[n-1].At.Add(toolcall.KeyLag)) {
		k.blockCall(c.Key, blocked{kind: toolcall.BlockedKey, attempt: c.Attempt.Number, why: message.AsError("", why).What + ". " + keyHint, until: now.Add(2 * reportEvery)})
	}
}

const keyHint = "Add the key to the directory of every engine, or revoke the call."

// blockCall records that a call cannot start.
func (k *Clocks) blockCall(key toolcall.Key, b blocked) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for key, b := range k.blocked {
		if !now.Before(b.until) {
			delete(k.blocked, key)
		}
	}
	if _, was := k.blocked[key]; was || len(k.blocked) < maxClocks {
		k.blocked[key] = b
	}
}

// Mark returns a call as people see it: blocked, with the reason, while its worker's clock or an
// unknown key prevents it from starting.
func (k *Clocks) Mark(c *toolcall.Call) *toolcall.Call {
	phase := c.Phase()
	if phase != toolcall.PhaseQueued && phase != toolcall.PhaseReady && phase != toolcall.PhaseRetrying {
		return c
	}
	k.mu.Lock()
	b, found := k.blocked[c.Key]
	k.mu.Unlock()
	if !found || b.kind == toolcall.BlockedClock && phase != toolcall.PhaseQueued || b.attempt != c.Attempt.Number || !time.Now().Before(b.until) {
		return c
	}
	c = c.Clone()
	c.Blocked, c.BlockedReason = b.kind, b.why
	return c
}

// ReportedCalls are the calls that could not start.
func (k *Clocks) ReportedCalls() []toolcall.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.blocked))
}

// Readings returns the clocks that differ, sorted by name.
func (k *Clocks) Readings() []toolcall.ClockReading {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]toolcall.ClockReading, 0, len(k.off))
	for _, r := range k.off {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b toolcall.ClockReading) int { return strings.Compare(a.Who, b.Who) })
	return out
}

// clockText describes how a clock differs from the engine's.
func clockText(aheadMS int64) string {
	d := time.Duration(aheadMS) * time.Millisecond
	if d < 0 {
		return d.Abs().Round(time.Second).String() + " behind"
	}
	return d.Round(time.Second).String() + " ahead"
}

// Hear records the clock difference that a worker measured, and the call that it prevents
// from starting: c is the call of the heartbeat, or nil if unknown.
func (k *Clocks) Hear(worker string, r toolcall.HeartbeatRequest, c *toolcall.Call) {
	now := time.Now()
	k.noteReading(toolcall.ClockReading{Who: "worker " + worker, AheadMS: r.ClockMS, WithinMS: r.ClockWithinMS, At: now.UTC()})
	if r.ClockMS == 0 || c == nil || c.Phase() != toolcall.PhaseQueued || c.Attempt.Number != r.Attempt || c.Attempt.Grant == nil {
		return
	}
	there, g, valid := now.Add(time.Duration(r.ClockMS)*time.Millisecond), c.Attempt.Grant, "not valid there yet"
	switch {
	case now.Before(g.NotBefore) || !now.Before(g.Expires):
		return // it is not valid here either
	case !there.Before(g.Expires):
		valid = "already expired there"
	case !there.Before(g.NotBefore):
		return
	}
	why := fmt.Sprintf("worker %s's clock is %s this engine; the grant is %s. Correct the clock.", worker, clockAgainst(r.ClockMS), valid)
	k.blockCall(c.Key, blocked{kind: toolcall.BlockedClock, attempt: r.Attempt, why: why, until: slices.MaxFunc([]time.Time{now, c.Attempt.OfferUntil}, time.Time.Compare).Add(reportEvery)})
}

func clockAgainst(aheadMS int64) string {
	if aheadMS > 0 {
		return clockText(aheadMS) + " of"
	}
	return clockText(aheadMS)
}

// storeTolerance is how much the journal's clock may differ before that is reported.
const storeTolerance = 2 * time.Second

// CompareJournal compares this engine's clock with the journal's, using an event record of
// this engine: the journal stored it between its writing, at, and now.
func (k *Clocks) CompareJournal(at, stored, now time.Time) {
	r := toolcall.ClockReading{Who: "journal", At: now.UTC(), WithinMS: now.Sub(at).Milliseconds()}
	switch {
	case stored.IsZero():
		return
	case at.Sub(stored) > storeTolerance:
		r.AheadMS = -at.Sub(stored).Milliseconds()
	case stored.Sub(now) > storeTolerance:
		r.AheadMS = stored.Sub(now).Milliseconds()
	case now.Sub(at) > storeTolerance: // took too long to prove that the clocks agree
		return
	}
	k.noteReading(r)
}
