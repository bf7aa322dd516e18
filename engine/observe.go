package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Written is an event record that this engine has written.
type Written struct {
	Record *toolcall.EventRecord // shared: read only
	// AskedAt is when the approval request that was open before was made, or zero if there
	// was none or this engine does not know.
	AskedAt time.Time
	Took    time.Duration // until the journal confirmed the record
}

// WithObserver calls f with each event record that this engine writes, once it is
// durable. f must not block. There may be several observers.
func WithObserver(f func(Written)) Option {
	return func(c *config) error { c.observers = append(c.observers, f); return nil }
}

// WithNewTrace sets the trace of proposed calls to which their runtime gave none.
func WithNewTrace(f func(toolcall.Key) toolcall.Trace) Option {
	return func(c *config) error { c.newTrace = f; return nil }
}

// observeWrite reports a record to the log and the observers.
func (c *core) observeWrite(rec *toolcall.EventRecord, askedAt time.Time, took time.Duration) {
	w := Written{Record: rec, AskedAt: askedAt, Took: took}
	c.logDecision(w)
	for _, tell := range c.cfg.observers {
		tell(w)
	}
}

// logDecision logs one line for each decision, without anything that rules hide.
func (c *core) logDecision(w Written) {
	rec := w.Record
	verdict := string(rec.Verdict())
	if verdict == "" && rec.Call != nil && rec.Note == nil && rec.Call.Cause == string(toolcall.CauseVote) {
		verdict = string(toolcall.CauseVote)
	}
	if verdict == "" || !c.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	call := rec.Call
	began := w.AskedAt
	if began.IsZero() {
		began = call.ProposedAt
	}
	at := []any{
		"call", call.Key.String(), "tool", call.Tool, "verdict", verdict,
		"by", rec.By.Name, "role", string(rec.By.Role), "auth", rec.By.Auth,
		"duration_ms", max(0, time.Since(began).Milliseconds()), "attempt", call.Attempt.Number,
	}
	if d := call.Decision; d != nil {
		at = append(at, "rule", d.Rule, "policy", d.Bundle)
		if d.Standing != "" {
			at = append(at, "standing_approval", string(d.Standing))
		}
	}
	if call.Agent != "" {
		at = append(at, "agent", call.Agent)
	}
	if id := call.Trace.ID(); id != "" {
		at = append(at, "trace_id", id)
	}
	if call.State == message.ToolCallAsking && verdict == string(toolcall.CauseVote) {
		at = append(at, "missing", c.missingApprovals(call))
	}
	seen := call.Redacted()
	summary, _ := c.summarizeCall(call, seen)
	c.log.Info("decision", append(at, "summary", summary)...)
}

// missingApprovals returns how many more approvals an open request needs.
func (c *core) missingApprovals(call *toolcall.Call) (n int) {
	tally, _ := c.currentKeys().Tally(call, time.Now())
	for _, p := range tally.Parts {
		n += p.Missing
	}
	return n
}
