package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// maxBusy is how many calls of each kind the page Workers lists.
const maxBusy = 100

type workersView struct {
	shell
	Queues  []queueRow
	Workers []workerRow
	Blocked []busyRow
	Running []busyRow
	Depth   int
	Busy    int
	Held    int

	Connected int  // workers
	More      bool // more running or blocked calls than are listed
}

type queueRow struct {
	toolcall.ActivityQueue
	Share   int    // of the longest queue, in percent
	Problem string // what an operator should look at
}

// Listens reports whether a worker is waiting for tasks of the queue.
func (q queueRow) Listens() bool { return q.Listening != nil && *q.Listening > 0 }

type workerRow struct {
	Name    string
	Tools   []string
	Running int
	Heard   time.Time
	Silent  bool
	Clock   string // how its clock differs, if it does
	Engine  bool   // runs local calls
}

// busyRow is a call that runs or is blocked.
type busyRow struct {
	Href, Tool, Text string
	Worker           string
	Since            time.Time
	Attempt          int
	Why              string
}

func (in *Console) workers(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	v := workersView{shell: in.shell(r, p, "workers", "Workers – askance")}
	err := readPage(r, p, v.read)
	return in.writeOrFail(w, "workers", v.shell, v, err)
}

func (v *workersView) read(ctx context.Context, c engine.Client) error {
	activity, err := api.Activity.Call(ctx, c, toolcall.ActivityRequest{V: 1, Since: v.Now.Add(-time.Minute).UTC(), Recent: 1})
	if err != nil {
		return err
	}
	v.addQueues(activity.Queues)
	for _, phase := range []toolcall.Phase{toolcall.PhaseBlocked, toolcall.PhaseRunning} {
		page, err := c.List(ctx, toolcall.ListRequest{V: 1, Phases: []toolcall.Phase{phase}, Limit: maxBusy})
		if err != nil {
			return err
		}
		v.More = v.More || page.Next != 0
		for _, call := range page.Calls {
			row := busyRow{Href: address(call.Key, nil), Tool: call.Tool, Text: call.Summary, Worker: call.Attempt.Worker, Since: call.UpdatedAt, Attempt: call.Attempt.Number}
			external := call.Placement == toolcall.PlaceExternal
			if external { // its runtime is not a worker
				row.Worker = ""
			}
			if phase == toolcall.PhaseBlocked {
				row.Why = blockedText(call)
				v.Blocked = append(v.Blocked, row)
			} else if !external {
				v.Running = append(v.Running, row)
			}
		}
	}
	return nil
}

// addQueues adds the queues, those with problems first, and their workers by name.
func (v *workersView) addQueues(queues []toolcall.ActivityQueue) {
	longest := 1
	for _, q := range queues {
		longest = max(longest, q.Depth)
	}
	workers := map[string]*workerRow{}
	for _, q := range queues {
		row := queueRow{ActivityQueue: q, Share: q.Depth * 100 / longest}
		v.Depth, v.Busy, v.Held = v.Depth+q.Depth, v.Busy+q.Running, v.Held+q.Blocked
		for _, k := range q.Workers {
			w := workers[k.Name]
			if w == nil {
				w = &workerRow{Name: k.Name, Silent: true, Engine: q.Placement == toolcall.PlaceLocal}
				workers[k.Name] = w
			}
			w.Tools = append(w.Tools, q.Tool)
			w.Running += k.Running
			w.Silent = w.Silent && !k.IsConnected(v.Now)
			if k.LastHeard.After(w.Heard) {
				w.Heard = k.LastHeard
			}
			if k.ClockAheadMS != 0 {
				w.Clock = clockText(k)
			}
		}
		switch {
		case q.Placement == toolcall.PlaceRemote && q.Depth > 0 && !q.HasWorker(v.Now):
			row.Problem = "no worker is connected: start one for this tool"
		case q.Blocked > 0:
			row.Problem = asked.Count(q.Blocked, "blocked call") + ": an operator must resolve it"
			if q.Blocked > 1 {
				row.Problem = asked.Count(q.Blocked, "blocked call") + ": an operator must resolve them"
			}
		}
		v.Queues = append(v.Queues, row)
	}
	slices.SortStableFunc(v.Queues, func(a, b queueRow) int {
		return cmp.Or(rank(b.Problem != "")-rank(a.Problem != ""), cmp.Compare(b.Depth, a.Depth), cmp.Compare(b.Running, a.Running), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Route, b.Route))
	})
	for _, w := range workers {
		if !w.Silent {
			v.Connected++
		}
		slices.Sort(w.Tools)
		w.Tools = slices.Compact(w.Tools)
		v.Workers = append(v.Workers, *w)
	}
	slices.SortFunc(v.Workers, func(a, b workerRow) int {
		return cmp.Or(rank(a.Silent)-rank(b.Silent), cmp.Compare(b.Running, a.Running), cmp.Compare(a.Name, b.Name))
	})
}

func rank(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// clockText says how a worker's clock differs.
func clockText(k toolcall.ActivityWorker) string {
	d := time.Duration(k.ClockAheadMS) * time.Millisecond
	if d < 0 {
		return asked.Span(-d) + " behind"
	}
	return asked.Span(d) + " ahead"
}
