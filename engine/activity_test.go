package engine_test

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/toolcall"
)

// activity checks that an engine counts what all engines did, and that one that starts
// later counts the same from the journal.
func activity(w *world) {
	e := w.engine()
	e.finished(e.propose(call("local", echo, `{}`))[0].Key)
	e.propose(call("denied", rm, `{}`))
	e.propose(call("unknown", "no such tool", `{}`))
	ann, bob := e.ask("approved", pay, `{"amount":500}`), e.ask("rejected", pay, `{"amount":600}`)
	_, err := e.ann().SubmitResponse(w.Context(), approve(ann))
	w.must(err)
	e.finished(ann.Key)
	_, err = e.bob().SubmitResponse(w.Context(), reject(bob))
	w.must(err)
	e.ask("open", pay, `{"amount":700}`)
	e.submit("queued", remote)
	running := e.submit("running", remote)
	e.start(running, "w1", "x")
	e.submit("other", remote)

	read := func(r *replica) toolcall.ActivityReply {
		w.Helper()
		var out toolcall.ActivityReply
		w.until("every record has arrived", func() bool {
			var err error
			out, err = r.as(toolcall.RoleAuditor, "eve").Activity(w.Context(), toolcall.ActivityRequest{})
			w.must(err)
			return out.Total.Proposed == 9 && out.Total.Started == 3 && out.Total.Rejected == 1
		})
		// Remove what depends on the time of the request: its time and the empty buckets at the end.
		out.At = time.Time{}
		for n := len(out.Buckets); n > 0 && out.Buckets[n-1].ActivityCounts == (toolcall.ActivityCounts{}); n-- {
			out.Buckets = out.Buckets[:n-1]
		}
		return out
	}
	first := read(e)
	want := toolcall.ActivityCounts{Proposed: 9, Allowed: 4, Asked: 3, Denied: 1, Refused: 1, Approved: 1, Rejected: 1, Started: 3, Succeeded: 2}
	if diff := cmp.Diff(want, first.Total); diff != "" {
		w.Error(diff)
	}
	var verdicts []toolcall.Verdict
	for _, d := range first.Recent {
		verdicts = append(verdicts, d.Verdict)
	}
	if diff := cmp.Diff([]toolcall.Verdict{"allow", "allow", "allow", "reject", "approve", "refuse", "deny", "allow"}, verdicts); diff != "" {
		w.Error(diff)
	}
	if d := first.Recent[3]; d.By != "bob" || d.Key != bob.Key || d.Tool != pay {
		w.Errorf("the rejection is listed as %+v", d)
	}
	var queue toolcall.ActivityQueue
	for _, q := range first.Queues {
		if q.Tool == remote {
			queue = q
		}
	}
	if queue.Placement != toolcall.PlaceRemote || queue.Depth != 2 || queue.Oldest.IsZero() || queue.Running != 1 || len(queue.Workers) != 1 {
		w.Fatalf("the queue is %+v", queue)
	}
	if x := queue.Workers[0]; x.Name != "w1" || x.Running != 1 || x.Calls[0] != running.Key || x.LastHeard.IsZero() {
		w.Errorf("the worker is %+v", x)
	}
	if diff := cmp.Diff(first, read(w.engine())); diff != "" {
		w.Errorf("an engine that starts later counts (-first +later):\n%s", diff)
	}
	if _, err := e.bot().Activity(w.Context(), toolcall.ActivityRequest{}); err == nil {
		w.Error("a runtime can read the activity of the space")
	}
}
