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
	// AskedAt is when the request for approval was made that was open before; zero:
	// none was, or this engine does not know.
	AskedAt time.Time
	Took    time.Duration // until the journal had confirmed it
}

// WithObserver tells f of each event record that this engine writes, after it is
// durable. f must not block. There may be several.
func WithObserver(f func(Written)) Option {
	return func(c *config) error { c.observers = append(c.observers, f); return nil }
}

// WithNewTrace gives a proposed call a position in a trace if its runtime gave none.
func WithNewTrace(f func(toolcall.Key) toolcall.Trace) Option {
	return func(c *config) error { c.newTrace = f; return nil }
}

// observeWrite returns what tells the log and the observers of a record.
func (c *core) observeWrite(f *toolcall.EventRecord) (written func()) {
	w := Written{Record: f}
	if f.Call != nil {
		w.AskedAt = c.activity.AskedAt(f.Call)
	}
	began := time.Now()
	return func() {
		w.Took = time.Since(began)
		c.logDecision(w)
		for _, tell := range c.cfg.observers {
			tell(w)
		}
	}
}

// logDecision writes one line for each decision, with nothing that rules hide.
func (c *core) logDecision(w Written) {
	f := w.Record
	verdict := string(f.Verdict())
	if verdict == "" && f.Call != nil && f.Note == nil && f.Call.Cause == string(toolcall.CauseVote) {
		verdict = string(toolcall.CauseVote)
	}
	if verdict == "" || !c.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	call := f.Call
	began := w.AskedAt
	if began.IsZero() {
		began = call.ProposedAt
	}
	at := []any{
		"call", call.Key.String(), "tool", call.Tool, "verdict", verdict,
		"by", f.By.Name, "role", string(f.By.Role), "auth", f.By.Auth,
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
		at = append(at, "missing", missingApprovals(call))
	}
	seen := call.Redacted()
	summary, _ := c.summarizeCall(call, seen)
	c.log.Info("decision", append(at, "summary", summary)...)
}

// missingApprovals is how many more approvals an open request needs.
func missingApprovals(c *toolcall.Call) (n int) {
	for _, p := range c.Tally().Parts {
		n += p.Missing
	}
	return n
}
