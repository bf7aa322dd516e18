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

// Bounds of the page Overview.
const (
	shownDue       = 8
	shownQueues    = 8
	shownTools     = 8
	shownDecisions = 12
	shownBlocked   = 6
)

// figures are the pages that only read: Overview, Insights and the search.
type figures struct{ *Console }

// overviewView is the page Overview.
type overviewView struct {
	shell
	Period    period
	Activity  toolcall.ActivityReply
	Calls     chart.Columns
	Spark     []int
	Age, Left chart.Columns
	Due       []dueRow
	Asking    int // open requests that were read
	Urgent    int // of those: due within fifteen minutes
	Heat      chart.Heat
	Queues    []toolcall.ActivityQueue
	Waiting   int // calls that wait for a worker
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

// decisionRow is a decision.
type decisionRow struct {
	toolcall.RecentDecision
	Href, Text, Tone, Who, Did string
}

func (in figures) overview(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	v := overviewView{shell: in.shell(r, p, "overview", "Overview – askance")}
	v.Period = periodOf(r.URL.Query(), pathOverview, "1h", v.Now)
	c, err := p.Reader()
	if err != nil {
		return err
	}
	if err := v.read(r.Context(), c); err != nil {
		return in.fail(w, v.shell, err)
	}
	return in.write(w, http.StatusOK, "overview", &v)
}

func (v *overviewView) read(ctx context.Context, c engine.Client) error {
	open, err := engine.ListAll(ctx, c, toolcall.ListRequest{V: 1, Phases: []toolcall.Phase{toolcall.PhaseAsking}}, maxListed)
	if err != nil {
		return err
	}
	v.addOpen(open)
	blocked, err := c.List(ctx, toolcall.ListRequest{V: 1, Phases: []toolcall.Phase{toolcall.PhaseBlocked}, Limit: shownBlocked})
	if err != nil {
		return err
	}
	for _, call := range blocked.Calls {
		v.Stuck = append(v.Stuck, busyCall{address(call.Key, nil), call.Tool, summaryOf(call), blockedText(call)})
	}
	if v.Activity, err = api.Activity.Call(ctx, c, v.Period.request()); err != nil {
		return err
	}
	v.addActivity()
	if status, err := api.PolicyStatus.Call(ctx, c, struct{}{}); err == nil { // an engine without policy files has none
		v.Policy = &status
	}
	return nil
}

// summaryOf is one line about a call.
func summaryOf(c *toolcall.Call) string {
	if c.Request != nil {
		return cmp.Or(c.Summary, c.Request.Text)
	}
	return cmp.Or(c.Summary, c.Input)
}

// aboutCall is a summary without the name of the tool, which stands before it.
func aboutCall(tool, summary string) string {
	rest, found := strings.CutPrefix(summary, tool)
	if found && (rest == "" || rest[0] == ' ') {
		return strings.TrimSpace(rest)
	}
	return summary
}

// classes are the columns of the charts of open requests.
var classes = []struct {
	label string
	below time.Duration
}{{"1m", time.Minute}, {"5m", 5 * time.Minute}, {"15m", 15 * time.Minute}, {"1h", time.Hour}, {"4h", 4 * time.Hour}, {"1d", 24 * time.Hour}, {"more", 1 << 62}}

// urgent is how close to its deadline a request is urgent.
const urgent = 15 * time.Minute

// urgencies are the colours of open requests.
var urgencies = []chart.Series{{Name: "late", Label: "due within 15m"}, {Name: "open", Label: "due later"}, {Name: "expired", Label: "no deadline"}}

// addOpen adds the open requests by age and by deadline, and those due first.
func (v *overviewView) addOpen(open []*toolcall.Call) {
	v.Asking = len(open)
	v.Age = chart.Columns{ID: "age", Title: "Open requests by age", Head: "Age", Series: urgencies, Height: 64, Wide: true}
	v.Left = chart.Columns{ID: "left", Title: "Open requests by time left", Head: "Time left", Series: urgencies, Height: 64, Wide: true}
	for _, of := range classes {
		label := "< " + of.label
		if of.below == 1<<62 {
			label = "more"
		}
		v.Age.Columns = append(v.Age.Columns, chart.Column{Label: label, Long: "open for " + label, Values: make([]int, 3), Href: pathInbox})
		v.Left.Columns = append(v.Left.Columns, chart.Column{Label: label, Long: label + " left", Values: make([]int, 3), Href: pathInbox})
	}
	class := func(d time.Duration) int {
		for i, of := range classes {
			if d < of.below {
				return i
			}
		}
		return len(classes) - 1
	}
	for _, c := range open {
		row := dueRow{Href: address(c.Key, nil), Tool: c.Tool, Agent: c.Agent, Text: summaryOf(c)}
		left, kind := time.Duration(1<<62-1), 2
		if c.Request != nil && !c.Request.Requirement.Ends().IsZero() {
			row.Ends = c.Request.Requirement.Ends()
			left, kind = row.Ends.Sub(v.Now), 1
		}
		if row.Urgent = left < urgent; row.Urgent {
			v.Urgent++
			kind = 0
		}
		v.Age.Columns[class(v.Now.Sub(asked.At(c)))].Values[kind]++
		v.Left.Columns[class(left)].Values[kind]++
		v.Due = append(v.Due, row)
	}
	slices.SortStableFunc(v.Due, func(a, b dueRow) int {
		if a.Ends.IsZero() || b.Ends.IsZero() {
			return cmp.Compare(b.Ends.Unix(), a.Ends.Unix()) // those without a deadline last
		}
		return a.Ends.Compare(b.Ends)
	})
	v.Due = v.Due[:min(len(v.Due), shownDue)]
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

func decisionOf(d toolcall.RecentDecision) decisionRow {
	row := decisionRow{RecentDecision: d, Href: address(d.Key, nil), Text: cmp.Or(d.Summary, d.Tool), Who: "Policy"}
	if d.By != "" {
		row.Who = d.By
	}
	switch d.Verdict {
	case toolcall.VerdictAllow:
		row.Did, row.Tone = "allowed", "work"
	case toolcall.VerdictDeny:
		row.Did, row.Tone = "denied", "bad"
	case toolcall.VerdictRefuse:
		row.Did, row.Tone = "refused", "bad"
	case toolcall.VerdictApprove:
		row.Did, row.Tone = "approved", "good"
	case toolcall.VerdictReject:
		row.Did, row.Tone = "rejected", "bad"
	case toolcall.VerdictRespond:
		row.Did, row.Tone = "responded to", "good"
	case toolcall.VerdictExpire:
		row.Who, row.Did, row.Tone = "Time", "expired", "plain"
	case toolcall.VerdictAsk:
		row.Did, row.Tone = "asked about", "ask"
	}
	return row
}

// PerMinute is how many calls a minute has on average.
func (v *overviewView) PerMinute() string {
	return chart.Number(float64(v.Activity.Total.Proposed) / max(1, v.Period.Until.Sub(v.Period.Since).Minutes()))
}

// Decided is how many requests people decided.
func (v *overviewView) Decided() int {
	t := v.Activity.Total
	return t.Approved + t.Rejected + t.Responded
}
