package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/e2e/internal/effect"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// verify reads the journal again and compares it with the tool's files and with what was
// acknowledged. Every call must be finished, or, if open is set, may also wait for a person.
func (w *world) verify(open bool) {
	w.t.Helper()
	v := &verifier{w: w, runs: w.marks(effect.RunsFile), effects: w.marks(effect.EffectsFile)}
	v.read()
	w.tally = tally{calls: len(v.records)}
	for key, records := range v.records {
		v.call(key, records, open)
	}
	v.strangers()
	v.acknowledged()
}

// marks reads one of the tool's files, by key.
func (w *world) marks(name string) map[string][]effect.Mark {
	w.t.Helper()
	all, err := effect.Read(filepath.Join(w.effects(), name))
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string][]effect.Mark{}
	for _, m := range all {
		out[m.Key] = append(out[m.Key], m)
	}
	return out
}

// verifier is one reading of everything.
type verifier struct {
	w             *world
	runs, effects map[string][]effect.Mark // by idempotency key
	records       map[toolcall.Key][]toolcall.JournalEntry
	interrupted   map[toolcall.Key]bool // replies
	revoked       map[toolcall.StandingID]bool
}

// reading collects the records of a journal up to its end.
type reading struct {
	records []toolcall.JournalEntry
	done    context.CancelFunc
}

func (r *reading) Record(rec toolcall.JournalEntry) { r.records = append(r.records, rec) }
func (r *reading) CaughtUp()                        { r.done() }

// read reads the whole journal over a new connection.
func (v *verifier) read() {
	v.w.t.Helper()
	nc := v.w.connect("verifier")
	defer nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r := &reading{done: cancel}
	_ = v.w.journal(nc).Watch(ctx, 0, r) // ends when caught up
	if ctx.Err() == context.DeadlineExceeded {
		v.w.t.Fatal("the journal cannot be read to its end")
	}
	v.records, v.interrupted, v.revoked = map[toolcall.Key][]toolcall.JournalEntry{}, map[toolcall.Key]bool{}, map[toolcall.StandingID]bool{}
	for _, rec := range r.records {
		switch {
		case v.w.obs.isForged(rec):
			v.w.t.Errorf("record %d is not authentic: %v", rec.Seq, rec.Invalid)
		case rec.Record != nil && rec.Record.Call != nil:
			v.records[rec.Key] = append(v.records[rec.Key], rec)
		case rec.Record != nil && rec.Record.Reply != nil && rec.Record.Reply.Phase == toolcall.ReplyInterrupted:
			v.interrupted[rec.Key] = true
		case rec.Record != nil && rec.Record.Standing != nil && rec.Record.Standing.Revoked != nil:
			v.revoked[rec.Record.Standing.ID] = true
		}
	}
}

// call checks one call's history against what its tool did.
func (v *verifier) call(key toolcall.Key, records []toolcall.JournalEntry, open bool) {
	t := v.w.t
	t.Helper()
	eventRecords := make([]*toolcall.EventRecord, len(records))
	for i, r := range records {
		eventRecords[i] = r.Record
	}
	c, err := toolcall.Replay(eventRecords)
	if err != nil {
		t.Errorf("%s: the state machine could not have written the history: %v\n%s", key, err, v.w.stored(records))
		return
	}
	starts := v.starts(key, records)
	runs, effects := v.runs[key.IdempotencyKey()], v.effects[key.IdempotencyKey()]
	v.w.tally.effects += len(effects)
	v.w.tally.attempts += len(starts)
	if slices.ContainsFunc(eventRecords, func(rec *toolcall.EventRecord) bool { return rec.Call.Blocked == toolcall.BlockedUnknown }) {
		v.w.tally.unknown++
		if !local(c.Tool) {
			v.w.tally.unknownRemote++
		}
		// One whose standing approval was revoked must not begin again.
		isRevoked := func(id toolcall.StandingID) bool { return v.revoked[id] }
		if idempotent(c.Tool) && !slices.ContainsFunc(c.Decision.StandingApprovals(), isRevoked) {
			t.Errorf("%s: an idempotent call was blocked as unknown", describe(c))
		}
	}
	v.bound(eventRecords)
	v.onlyAllowed(c, runs, starts)
	v.onlyAllowed(c, effects, starts)
	v.onceEach(c, runs)
	if len(effects) > 1 {
		t.Errorf("%s: the effect happened %d times: %v", describe(c), len(effects), effects)
	}
	if !idempotent(c.Tool) && len(runs) > 1 && !v.runAgain(eventRecords) {
		t.Errorf("%s: a tool that is not idempotent ran %d times: %v", describe(c), len(runs), runs)
	}
	v.ended(c, len(effects), open)
}

// stored returns what the server has stored of records, for a failure.
func (w *world) stored(records []toolcall.JournalEntry) string {
	w.t.Helper()
	var b strings.Builder
	js, err := jetstream.New(w.conn)
	if err != nil {
		return err.Error()
	}
	for _, r := range records {
		m, err := js.Stream(context.Background(), bus.StreamName(space))
		if err != nil {
			return err.Error()
		}
		raw, err := m.GetMsg(context.Background(), r.Seq)
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "%d at %s by %s: %v\n", r.Seq, r.Time.Format(time.StampMicro), r.Record.By.Name, raw.Header)
		for _, s := range r.Record.Path {
			fmt.Fprintf(&b, "   %s", s.Cause)
		}
		fmt.Fprintf(&b, "   attempt %d of %s\n", r.Record.Call.Attempt.Number, r.Record.Call.Attempt.Worker)
	}
	return b.String()
}

// start is when an attempt was allowed to run.
type start struct {
	at     time.Time // when the journal stored it
	worker string
}

// starts returns the start of every attempt. It checks that each attempt was started at most once,
// and none before an allow.
func (v *verifier) starts(key toolcall.Key, records []toolcall.JournalEntry) map[int]start {
	v.w.t.Helper()
	out, allowed := map[int]start{}, false
	for _, r := range records {
		for _, s := range r.Record.Path {
			c := r.Record.Call
			switch toolcall.Cause(s.Cause) {
			case toolcall.CauseAllow, toolcall.CauseApprove:
				allowed = true
			case toolcall.CauseStart:
				if _, twice := out[c.Attempt.Number]; twice {
					v.w.t.Errorf("%s: attempt %d was started twice", key, c.Attempt.Number)
				}
				if !allowed {
					v.w.t.Errorf("%s: attempt %d was started before an allow", key, c.Attempt.Number)
				}
				out[c.Attempt.Number] = start{r.Time, c.Attempt.Worker}
			}
		}
	}
	return out
}

// onlyAllowed checks that the tool ran only in attempts whose start was already durable, with
// exactly the bytes that were decided on.
func (v *verifier) onlyAllowed(c *toolcall.Call, marks []effect.Mark, starts map[int]start) {
	v.w.t.Helper()
	for _, m := range marks {
		s, ok := starts[m.Attempt]
		switch {
		case !ok:
			v.w.t.Errorf("%s: the tool ran attempt %d, which no owner was allowed to start", describe(c), m.Attempt)
		case m.At.Before(s.at):
			v.w.t.Errorf("%s: the tool ran %s before its start was stored", describe(c), s.at.Sub(m.At))
		case c.Input != c.Request.Input:
			v.w.t.Errorf("%s: the call's input is not the one that was decided on", describe(c))
		}
		if err := m.Received(c.Request.Input); err != nil {
			v.w.t.Errorf("%s: the tool ran attempt %d with an input that was not decided on: %v", describe(c), m.Attempt, err)
		}
	}
}

// onceEach checks that no attempt ran twice.
func (v *verifier) onceEach(c *toolcall.Call, runs []effect.Mark) {
	v.w.t.Helper()
	seen := map[int]bool{}
	for _, m := range runs {
		if seen[m.Attempt] {
			v.w.t.Errorf("%s: attempt %d ran twice", describe(c), m.Attempt)
		}
		seen[m.Attempt] = true
	}
}

// bound checks that what ran is, byte for byte, what was decided on: each answer names the open
// approval request, and each start has a grant for its approval request.
func (v *verifier) bound(records []*toolcall.EventRecord) {
	t := v.w.t
	t.Helper()
	keys := toolcall.NewKeySet(v.w.keys.Public())
	for i, rec := range records {
		c := rec.Call
		if c.Request != nil {
			if digest, err := c.Request.Digest(); err != nil || digest != c.Digest {
				t.Errorf("%s: the call's digest is not that of its approval request", describe(c))
			}
		}
		if took(rec, toolcall.CauseApprove) && (len(c.Votes) == 0 || c.Votes[len(c.Votes)-1].Digest != records[i-1].Call.Digest) {
			t.Errorf("%s: the call was approved by an answer to another approval request", describe(c))
		}
		if took(rec, toolcall.CauseStart) && c.Placement == toolcall.PlaceRemote {
			if err := c.Attempt.Grant.VerifyQueue(keys, *c.Request, toolcall.Queue{Tool: c.Tool}, c.Attempt.Number, granted(c.Attempt)); err != nil {
				t.Errorf("%s: the call was started without a valid grant: %v", describe(c), err)
			}
		}
	}
}

// granted returns a time at which the engine may have checked that the grant is valid: before the
// start, but on a loaded machine not right before it.
func granted(a toolcall.Attempt) time.Time {
	if late := a.StartedAt.Sub(a.Grant.Expires); late >= 0 && late < slack {
		return a.Grant.Expires.Add(-1)
	}
	return a.StartedAt
}

// runAgain reports whether an operator let the call run again.
func (v *verifier) runAgain(records []*toolcall.EventRecord) bool {
	return slices.ContainsFunc(records, func(rec *toolcall.EventRecord) bool {
		return rec.By.Role == toolcall.RoleOperator && took(rec, toolcall.CauseOffer)
	})
}

// took reports whether the record has a step with the cause.
func took(rec *toolcall.EventRecord, cause toolcall.Cause) bool {
	return slices.ContainsFunc(rec.Path, func(s toolcall.Step) bool { return s.Cause == string(cause) })
}

// ended checks that the end of the call agrees with what its tool did.
func (v *verifier) ended(c *toolcall.Call, effects int, open bool) {
	t := v.w.t
	t.Helper()
	want := 0
	switch {
	case c.Cause == string(toolcall.CauseRevoke) && c.Result.State == message.ToolResultInterrupted:
		return // an earlier attempt may have had its effect
	case c.Cause == string(toolcall.CauseInterrupt), !c.Open() && c.Result.State == message.ToolResultInterrupted && v.interrupted[c.ReplyKey()]:
		return // the interrupt may come before or after the effect
	case c.Open():
		if !open {
			t.Errorf("%s: the call has not ended", describe(c))
		} else if !v.waits(c) {
			t.Errorf("%s: the call neither ended nor waits for a person", describe(c))
		}
		return
	case c.Cause == string(toolcall.CauseResult) && c.Result.State != message.ToolResultSuccess:
		t.Errorf("%s: the tool failed: %s %s", describe(c), c.Result.State, c.Result.Output.Text)
		return
	case c.Cause == string(toolcall.CauseResult), c.Cause == string(toolcall.CauseResolve) && c.Result.State == message.ToolResultSuccess:
		want = 1
	}
	if effects != want {
		t.Errorf("%s with %s: the effect happened %d times, want %d", describe(c), c.Result.State, effects, want)
	}
}

// waits reports whether an open call waits for a person, itself or behind a call of its reply that
// does.
func (v *verifier) waits(c *toolcall.Call) bool {
	if waitsItself(c) {
		return true
	}
	if c.State != message.ToolCallPending {
		return false
	}
	for key, records := range v.records {
		if key.ReplyKey() == c.ReplyKey() && waitsItself(records[len(records)-1].Record.Call) {
			return true
		}
	}
	return false
}

func waitsItself(c *toolcall.Call) bool {
	return c.Open() && (c.State == message.ToolCallAsking || c.Blocked != toolcall.NotBlocked)
}

// strangers checks that the tool did nothing for calls that do not exist.
func (v *verifier) strangers() {
	v.w.t.Helper()
	known := map[string]bool{}
	for key := range v.records {
		known[key.IdempotencyKey()] = true
	}
	for _, marks := range []map[string][]effect.Mark{v.runs, v.effects} {
		for key := range marks {
			if !known[key] {
				v.w.t.Errorf("the tool ran with the key %s, which no call in the journal has", key)
			}
		}
	}
}

// acknowledged checks that every state that a request returned is an event record in the journal.
func (v *verifier) acknowledged() {
	v.w.t.Helper()
	v.w.mu.Lock()
	acked := v.w.acked
	v.w.mu.Unlock()
	v.w.tally.acked = len(acked)
	for _, a := range acked {
		ok := slices.ContainsFunc(v.records[a.call.Key], func(r toolcall.JournalEntry) bool {
			c := r.Record.Call
			return r.Seq == a.call.Seq && c.State == a.call.State && c.Cause == a.call.Cause && c.Records == a.call.Records
		})
		if !ok {
			v.w.t.Errorf("%s was acknowledged as %s, event record %d at %d, but the journal does not have it", a.op, describe(a.call), a.call.Records, a.call.Seq)
		}
	}
}
