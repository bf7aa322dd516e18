package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/toolcall"
)

// A call whose grant is not valid at a worker because of the worker's clock is shown as
// blocked, with the reason, until it starts. The journal does not change.
func TestClockThatKeepsACallFromStarting(t *testing.T) {
	for _, tc := range []struct {
		name  string
		ahead time.Duration
		says  string // "": the grant is valid there
	}{
		{"behind", -4 * time.Minute, "worker w's clock is 4m0s behind this engine; the grant is not valid there yet. Correct the clock."},
		{"ahead", 90 * time.Minute, "worker w's clock is 1h30m0s ahead of this engine; the grant is already expired there. Correct the clock."},
		{"a little behind", -2 * time.Second, ""},
		{"right", 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inHours(t, remoteTool, allow, nil, func(h *hours) {
				h.propose()
				beat := toolcall.HeartbeatRequest{Key: key, Attempt: 1, Claim: "x", ClockMS: tc.ahead.Milliseconds(), ClockWithinMS: 3}
				r, err := h.as(toolcall.RoleWorker, "w").Heartbeat(h.Context(), beat)
				if err != nil || !r.At.Equal(time.Now()) {
					h.Errorf("heartbeat = %+v, %v; want the engine's clock in it", r, err)
				}
				c := h.after(30 * time.Second)
				if c.BlockedReason != tc.says || (c.Blocked == toolcall.BlockedClock) != (tc.says != "") {
					h.Errorf("shown as blocked %q: %q, want %q", c.Blocked, c.BlockedReason, tc.says)
				}
				olga := h.as(toolcall.RoleOperator, "olga")
				held, err := olga.List(h.Context(), toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseBlocked}})
				if err != nil || (len(held.Calls) == 1) != (tc.says != "") {
					h.Errorf("%d blocked calls are listed, %v", len(held.Calls), err)
				}
				info, err := olga.Info(h.Context())
				if err != nil || (info.Blocked == 1) != (tc.says != "") || (len(info.Clocks) == 1) != (tc.ahead != 0) {
					h.Errorf("info = %+v, %v", info, err)
				}
				if tc.ahead != 0 && (info.Clocks[0].Who != "worker w" || info.Clocks[0].AheadMS != tc.ahead.Milliseconds() || info.Clocks[0].WithinMS != 3) {
					h.Errorf("info has the clock %+v", info.Clocks[0])
				}
				if show, err := olga.Show(h.Context(), toolcall.ShowRequest{Key: key}); err != nil || show.Call.Records != 2 {
					h.Errorf("the journal has %d event records of the call, %v; want the proposal and its task", show.Call.Records, err)
				}

				h.start(1) // another worker, or this one with its clock corrected
				h.beat()
				if c := h.after(0); c.Blocked != toolcall.NotBlocked || c.BlockedReason != "" {
					h.Errorf("after the start the call is blocked as %q: %q", c.Blocked, c.BlockedReason)
				}
				if info, err := olga.Info(h.Context()); err != nil || len(info.Clocks) != 0 {
					h.Errorf("after the clock was corrected: %+v, %v", info.Clocks, err)
				}
			})
		})
	}
}

// A clock that is not reported again for a long time is forgotten: the worker may be gone.
func TestClockReportEnds(t *testing.T) {
	inHours(t, remoteTool, allow, nil, func(h *hours) {
		h.propose()
		beat := toolcall.HeartbeatRequest{Key: key, Attempt: 1, Claim: "x", ClockMS: -time.Hour.Milliseconds()}
		if _, err := h.as(toolcall.RoleWorker, "w").Heartbeat(h.Context(), beat); err != nil {
			h.Fatal(err)
		}
		if c := h.after(time.Minute); c.Blocked != toolcall.BlockedClock || !strings.Contains(c.BlockedReason, "1h0m0s behind") {
			h.Errorf("blocked as %q: %q", c.Blocked, c.BlockedReason)
		}
		if c := h.after(time.Hour); c.Blocked != toolcall.NotBlocked {
			h.Errorf("an hour later the call is blocked as %q: %q", c.Blocked, c.BlockedReason)
		}
	})
}

// An engine also hears the heartbeats that are refused, because every engine hears all of them. A
// worker of another queue cannot make a call look blocked, or its queue look served.
func TestHeartbeatOfAnotherQueue(t *testing.T) {
	inHours(t, remoteTool, allow, nil, func(h *hours) {
		own := h.propose().Queue()
		beat := toolcall.HeartbeatRequest{Key: key, Attempt: 1, Claim: "x", ClockMS: time.Hour.Milliseconds() * 24}
		for _, foreign := range []toolcall.Queue{{}, {Tool: "other"}, {Tool: own.Tool, Route: "other"}} {
			h.eng.ObserveHeartbeat("mallory", foreign, beat)
		}
		if c := h.after(0); c.Blocked != toolcall.NotBlocked {
			h.Errorf("blocked as %q: %q", c.Blocked, c.BlockedReason)
		}
		did, err := h.as(toolcall.RoleAuditor, "eve").Activity(h.Context(), toolcall.ActivityRequest{})
		if err != nil || len(did.Queues) != 1 || len(did.Queues[0].Workers) != 0 {
			h.Errorf("the queues are %+v, %v", did.Queues, err)
		}
		h.eng.ObserveHeartbeat("w", own, beat)
		if c := h.after(0); c.Blocked != toolcall.BlockedClock {
			h.Errorf("a worker of the queue is not heard: %q", c.Blocked)
		}
		beat.ClockMS = 0
		h.eng.ObserveHeartbeat("w", own, beat)
		if info, err := h.as(toolcall.RoleOperator, "olga").Info(h.Context()); err != nil || len(info.Clocks) != 0 {
			h.Errorf("a clock that was corrected is still reported: %+v, %v", info.Clocks, err)
		}
	})
}

// Another engine, whose clock was ahead by hours, offered a call or will retry it. This engine
// does not wait for hours.
func TestStepTimedByAClockThatWasAhead(t *testing.T) {
	for _, retry := range []bool{false, true} {
		inWires(t, 2, func(w *wired) {
			w.propose(0, bareCall("a", remote))
			w.pass(0)
			last, err := w.journal.Last(w.Context(), callKey("a"))
			if err != nil {
				w.Fatal(err)
			}
			ahead := func(at *time.Time) { *at = at.Add(5 * time.Hour) }
			rec := *last.Record
			rec.ID, rec.Call = "ahead", rec.Call.Clone()
			g := *rec.Call.Attempt.Grant
			rec.Call.Attempt.Grant = &g
			ahead(&g.NotBefore)
			ahead(&g.Expires)
			ahead(&rec.Call.Attempt.OfferUntil)
			if retry {
				rec.Call.RetryAt = g.NotBefore
			}
			if _, err := w.journal.Append(w.Context(), &rec, last.Seq); err != nil {
				w.Fatal(err)
			}
			w.pass(3 * wiredGrace)
			if g := w.now("a").Attempt.Grant; g == nil || g.NotBefore.After(time.Now()) {
				w.Errorf("retry %t: the grant is %+v", retry, g)
			}
		})
	}
}

// A worker compares its clock before it asks to start a task, also on a cluster.
func TestClockOfAWorkerThatHasNotStarted(t *testing.T) {
	inWires(t, 1, func(w *wired) {
		w.propose(0, bareCall("a", remote))
		w.pass(0)
		r, err := w.as(0, toolcall.RoleWorker, "w").Heartbeat(w.Context(), toolcall.HeartbeatRequest{Key: callKey("a"), Claim: "x"})
		if err != nil || !r.At.Equal(time.Now()) {
			w.Errorf("heartbeat = %+v, %v", r, err)
		}
	}, engine.WithLag(func() time.Duration { return time.Second }))
}
