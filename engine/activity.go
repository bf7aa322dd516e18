package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/toolcall"
)

// maxWorkerCalls bounds the calls listed for one worker.
const maxWorkerCalls = 20

func (q *reader) reportActivity(ctx context.Context, r toolcall.ActivityRequest) (toolcall.ActivityReply, error) {
	now := baseNow().At
	out, err := q.activity.Report(r, now)
	if err != nil {
		return out, err
	}
	out.Open = view.CountOpen(q.view, now)
	out.Queues = q.describeQueues(now)
	q.addListening(ctx, out.Queues)
	return out, nil
}

// addListening adds to each remote queue how many requests for tasks are waiting, if the
// journal has queues.
func (q *reader) addListening(ctx context.Context, queues []toolcall.ActivityQueue) {
	tasks, ok := q.journal.(TaskQueue)
	if !ok {
		return
	}
	var remote []toolcall.Queue
	for _, a := range queues {
		if a.Placement == toolcall.PlaceRemote {
			remote = append(remote, toolcall.Queue{Tool: a.Tool, Route: a.Route})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	counts, err := tasks.CountListening(ctx, remote)
	if err != nil || len(remote) == 0 {
		return // not worth an error: the other figures are known
	}
	for i := range queues {
		if a := &queues[i]; a.Placement == toolcall.PlaceRemote {
			n := counts[toolcall.Queue{Tool: a.Tool, Route: a.Route}]
			a.Listening = &n
		}
	}
}

// queues holds the figures of each queue.
type queues map[toolcall.Queue]*toolcall.ActivityQueue

func (qs queues) queueOf(q toolcall.Queue, p toolcall.Placement) *toolcall.ActivityQueue {
	if qs[q] == nil {
		qs[q] = &toolcall.ActivityQueue{Tool: q.Tool, Route: q.Route, Placement: p, Workers: []toolcall.ActivityWorker{}}
	}
	return qs[q]
}

func workerOf(q *toolcall.ActivityQueue, name string) *toolcall.ActivityWorker {
	i := slices.IndexFunc(q.Workers, func(w toolcall.ActivityWorker) bool { return w.Name == name })
	if i < 0 {
		i = len(q.Workers)
		q.Workers = append(q.Workers, toolcall.ActivityWorker{Name: name, Calls: []toolcall.Key{}})
	}
	return &q.Workers[i]
}

// describeQueues reports what allowed calls wait for, and who runs them.
func (q *reader) describeQueues(now time.Time) []toolcall.ActivityQueue {
	all := queues{}
	for name, t := range q.tools {
		if t.Placement != toolcall.PlaceExternal {
			all.queueOf(toolcall.Queue{Tool: name}, t.Placement)
		}
	}
	for _, c := range q.view.OpenCalls(toolcall.PhaseQueued, toolcall.PhaseReady, toolcall.PhaseRunning, toolcall.PhaseRetrying, toolcall.PhaseBlocked) {
		all.count(q.clocks.Mark(c))
	}
	q.activity.Workers.Each(now, func(name string, queue toolcall.Queue, last time.Time) {
		w := workerOf(all.queueOf(queue, q.toolNamed(queue.Tool).Placement), name)
		w.LastHeard = last
	})
	clocks := map[string]toolcall.ClockReading{}
	for _, r := range q.clocks.Readings() {
		clocks[r.Who] = r
	}
	out := make([]toolcall.ActivityQueue, 0, len(all))
	for _, a := range all {
		for i := range a.Workers {
			r := clocks["worker "+a.Workers[i].Name]
			a.Workers[i].ClockAheadMS, a.Workers[i].ClockWithinMS = r.AheadMS, r.WithinMS
		}
		slices.SortFunc(a.Workers, func(x, y toolcall.ActivityWorker) int { return cmp.Compare(x.Name, y.Name) })
		out = append(out, *a)
	}
	slices.SortFunc(out, func(x, y toolcall.ActivityQueue) int {
		return cmp.Or(cmp.Compare(x.Tool, y.Tool), cmp.Compare(x.Route, y.Route))
	})
	return out
}

// count adds an open call to its queue.
func (qs queues) count(c *toolcall.Call) {
	if c.Placement == toolcall.PlaceExternal {
		return
	}
	q := qs.queueOf(c.Queue(), c.Placement)
	switch c.Phase() {
	case toolcall.PhaseRunning:
		q.Running++
		w := workerOf(q, c.Attempt.Worker)
		w.Running++
		if len(w.Calls) < maxWorkerCalls {
			w.Calls = append(w.Calls, c.Key)
		}
	case toolcall.PhaseRetrying:
		q.Retrying++
	case toolcall.PhaseBlocked:
		q.Blocked++
	default:
		q.Depth++
		if at := c.Attempt.OfferedAt; !at.IsZero() && (q.Oldest.IsZero() || at.Before(q.Oldest)) {
			q.Oldest = at
		}
	}
}
