package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/console/internal/chart"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// Limits of the page Overview.
const (
	shownDue       = 8
	shownQueues    = 8
	shownTools     = 8
	shownDecisions = 12
	shownBlocked   = 6
)

// figures serves the pages that only read: Overview, Insights and the search.
type figures struct{ *Console }

type overviewView struct {
	shell
	Period    period
	Activity  toolcall.ActivityReply
	Calls     chart.Columns
	Spark     []int
	Age, Left chart.Columns
	Due       []dueRow
	Asking    int // open requests
	Urgent    int // those due within fifteen minutes
	Heat      chart.Heat
	Queues    []toolcall.ActivityQueue
	Waiting   int // calls waiting for a worker
	Running   int
	Blocked   int
	Stuck     []busyCall
	Decisions []decisionRow
	Policy    *api.PolicyStatusReply
}

// dueRow is an open request.
type dueRow struct {
	Href, Tool, Agent, Text string
	Ends                    time.Time
	Urgent                  bool
}

// busyCall is a call that needs an operator.
type busyCall struct{ Href, Tool, Text, Why string }

type decisionRow struct {
	toolcall.RecentDecision
	Href, Text, Tone, Who, Did string
}

func (f figures) overview(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	v := overviewView{shell: f.shell(r, p, "overview", "Overview – askance")}
	v.Period = periodOf(r.URL.Query(), pathOverview, "1h", v.Now)
	return f.writeOrFail(w, "overview", v.shell, &v, readPage(r, p, v.read))
}

func (v *overviewView) read(ctx context.Context, c engine.Client) error {
	due, err := c.List(ctx, toolcall.ListRequest{V: 1, Phases: []toolcall.Phase{toolcall.PhaseAsking}, Sort: toolcall.SortDeadline, Limit: shownDue})
	if err != nil {
		return err
	}
	v.addDue(due.Calls)
	blocked, err := c.List(ctx, toolcall.ListRequest{V: 1, Phases: []toolcall.Phase{toolcall.PhaseBlocked}, Limit: shownBlocked})
	if err != nil {
		return err
	}
	for _, call := range blocked.Calls {
		v.Stuck = append(v.Stuck, busyCall{address(call.Key, nil), call.Tool, asked.Title(call), blockedText(call)})
	}
	if v.Activity, err = api.Activity.Call(ctx, c, v.Period.request()); err != nil {
		return err
	}
	v.addOpen(v.Activity.Open)
	v.addActivity()
	if status, err := api.PolicyStatus.Call(ctx, c, struct{}{}); err == nil { // an engine without policy files has none
		v.Policy = &status
	}
	return nil
}

// aboutCall returns a summary without the tool's name in front.
func aboutCall(tool, summary string) string {
	rest, found := strings.CutPrefix(summary, tool)
	if found && (rest == "" || rest[0] == ' ') {
		return strings.TrimSpace(rest)
	}
	return summary
}

// urgencies are the colours of open requests.
var urgencies = []chart.Series{{Name: "late", Label: "due within 15m"}, {Name: "open", Label: "due later"}, {Name: "expired", Label: "no deadline"}}

func (v *overviewView) addOpen(open toolcall.ActivityOpen) {
	v.Asking = open.Requests
	draw := func(id, title, head, before, after string, of []toolcall.ActivityOpenUpTo) chart.Columns {
		c := chart.Columns{ID: id, Title: title, Head: head, Series: urgencies, Height: 64, Wide: true}
		for _, b := range of {
			label := "more"
			if b.UpToMS > 0 {
				label = "< " + asked.Took(time.Duration(b.UpToMS)*time.Millisecond)
			}
			c.Columns = append(c.Columns, chart.Column{Label: label, Long: before + label + after, Values: []int{b.Urgent, b.Later, b.NoDeadline}, Href: pathInbox})
		}
		return c
	}
	v.Age = draw("age", "Open requests by age", "Age", "open for ", "", open.ByAge)
	v.Left = draw("left", "Open requests by time left", "Time left", "", " left", open.ByTimeLeft)
	for _, b := range open.ByTimeLeft {
		v.Urgent += b.Urgent
	}
}

// addDue adds the open requests with the nearest deadlines, in order.
func (v *overviewView) addDue(calls []*toolcall.Call) {
	for _, c := range calls {
		row := dueRow{Href: address(c.Key, nil), Tool: c.Tool, Agent: c.Agent, Text: asked.Title(c)}
		if c.Request != nil {
			row.Ends = c.Request.Requirement.Ends()
		}
		row.Urgent = !row.Ends.IsZero() && row.Ends.Sub(v.Now) < toolcall.Urgent
		v.Due = append(v.Due, row)
	}
}

func (v *overviewView) addActivity() {
	a := &v.Activity
	v.Calls = v.Period.overTime("calls", "Calls by decision of the policy", byPolicy, a.Buckets)
	for _, b := range a.Buckets {
		v.Spark = append(v.Spark, b.Proposed)
	}
	slices.SortStableFunc(a.ByTool, func(a, b toolcall.ActivityTool) int { return cmp.Compare(b.Proposed, a.Proposed) })
	v.Heat = v.Period.heat(a.ByTool, shownTools)
	for _, q := range a.Queues {
		v.Waiting += q.Depth
		v.Running += q.Running
		v.Blocked += q.Blocked
		if q.Placement != toolcall.PlaceLocal || q.Depth+q.Running+q.Retrying+q.Blocked > 0 {
			v.Queues = append(v.Queues, q)
		}
	}
	slices.SortStableFunc(v.Queues, func(a, b toolcall.ActivityQueue) int {
		return cmp.Or(cmp.Compare(b.Blocked, a.Blocked), cmp.Compare(b.Depth, a.Depth), cmp.Compare(b.Running, a.Running))
	})
	v.Queues = v.Queues[:min(len(v.Queues), shownQueues)]
	for _, d := range a.Recent[:min(len(a.Recent), shownDecisions)] {
		v.Decisions = append(v.Decisions, decisionOf(d))
	}
}

var verdictWords = map[toolcall.Verdict][2]string{
	toolcall.VerdictAllow: {"allowed", "work"}, toolcall.VerdictDeny: {"denied", "bad"}, toolcall.VerdictRefuse: {"refused", "bad"},
	toolcall.VerdictApprove: {"approved", "good"}, toolcall.VerdictReject: {"rejected", "bad"}, toolcall.VerdictRespond: {"responded to", "good"},
	toolcall.VerdictExpire: {"expired", "plain"}, toolcall.VerdictAsk: {"asked about", "ask"},
}

func decisionOf(d toolcall.RecentDecision) decisionRow {
	words := verdictWords[d.Verdict]
	row := decisionRow{RecentDecision: d, Href: address(d.Key, nil), Text: cmp.Or(d.Summary, d.Tool), Who: cmp.Or(d.By, "Policy"), Did: words[0], Tone: words[1]}
	if d.Verdict == toolcall.VerdictExpire {
		row.Who = "Time"
	}
	return row
}

// PerMinute is the average number of calls per minute.
func (v *overviewView) PerMinute() string {
	return chart.Number(float64(v.Activity.Total.Proposed) / max(1, v.Period.Until.Sub(v.Period.Since).Minutes()))
}

// Answered is how many requests people have answered.
func (v *overviewView) Answered() int {
	t := v.Activity.Total
	return t.Approved + t.Rejected + t.Responded
}
