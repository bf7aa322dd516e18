package console

import (
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/console/internal/chart"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// shownShares limits the rows of each table on the page.
const shownShares = 12

type insightsView struct {
	shell
	Period    period
	Activity  toolcall.ActivityReply
	Calls     chart.Columns
	Responses chart.Columns
	ToDecide  chart.Columns
	Runs      chart.Columns
	Tables    []shareTable
	Load      toolcall.LoadReply
	People    []reviewer
	Heads     []columnHead // of People
	query     url.Values
}

// shareTable has the figures of each tool, rule or agent.
type shareTable struct {
	ID, Title, Head string
	Heads           []columnHead
	Rows            []shareRow
	More            int // rows that are left out
	Timed           bool
}

type shareRow struct {
	Name, Href string
	Counts     toolcall.ActivityCounts
	Policy     template.HTML // decisions of the policy, scaled to the busiest row
	People     template.HTML // responses
	Decision   string
	Run        string
}

// reviewer is a row of the table of reviewers.
type reviewer struct {
	toolcall.ReviewerLoad
	Group  bool
	Href   string
	Bar    template.HTML
	Median string
	Rate   int // percent
	Fast   int // percent
}

func (in figures) insights(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	v := insightsView{shell: in.shell(r, p, "insights", "Insights – askance")}
	v.query = r.URL.Query()
	v.Period = periodOf(v.query, pathInsights, "24h", v.Now)
	c, err := p.Reader()
	if err != nil {
		return err
	}
	err = v.read(r.Context(), c)
	return in.writeOrFail(w, "insights", v.shell, &v, err)
}

func (v *insightsView) read(ctx context.Context, c engine.Client) (err error) {
	r := v.Period.request()
	if v.Activity, err = api.Activity.Call(ctx, c, r); err != nil {
		return err
	}
	if v.Load, err = c.Load(ctx, toolcall.LoadRequest{V: 1, Since: r.Since, Until: r.Until}); err != nil {
		return err
	}
	a, p := &v.Activity, v.Period
	v.Calls = p.overTime("calls", "Calls by decision of the policy", byPolicy, a.Buckets)
	v.Responses = p.overTime("responses", "Approval requests by outcome", byPeople, a.Buckets)
	v.ToDecide = distribution("decide", "Time to decision", "approved", "requests", a.ToDecision)
	v.Runs = distribution("runs", "Run time", "allowed", "runs", a.Run)
	tools := make([]toolcall.ActivityShare, len(a.ByTool))
	for i, t := range a.ByTool {
		tools[i] = t.ActivityShare
	}
	v.Tables = []shareTable{
		v.shares("tool", "By tool", "Tool", tools, a.ByTool),
		v.shares("rule", "By rule", "Rule", a.ByRule, nil),
		v.shares("agent", "By agent", "Agent", a.ByAgent, nil),
	}
	v.addReviewers()
	return nil
}

// distribution returns the chart of times, with lines at the median and the 90th percentile.
func distribution(id, title, class, what string, t toolcall.ActivityTimes) chart.Columns {
	c := chart.Columns{ID: id, Title: title, Head: "Up to", Series: []chart.Series{{Name: class, Label: what}}, Wide: true}
	first, last := len(t.Buckets), 0
	for i, b := range t.Buckets {
		if b.Count > 0 {
			first, last = min(first, i), i
		}
	}
	if first > last {
		return c
	}
	for grown := true; grown && (last-first < 7 || first > 0 && t.Buckets[first].Count > 0); { // widen the range to show the shape
		from, to := max(0, first-1), min(len(t.Buckets)-1, last+1)
		grown = from < first || to > last
		first, last = from, to
	}
	shown := t.Buckets[first : last+1]
	low := int64(0)
	if first > 0 {
		low = t.Buckets[first-1].UpToMS
	}
	from := low
	for _, b := range shown {
		label, long := "≤ "+tookMS(b.UpToMS), tookMS(from)+" to "+tookMS(b.UpToMS)
		if b.UpToMS == 0 {
			label, long = "more", "more than "+tookMS(from)
		}
		c.Columns = append(c.Columns, chart.Column{Label: label, Long: long, Values: []int{b.Count}})
		from = b.UpToMS
	}
	for _, m := range []struct {
		name string
		at   int64
	}{{"median ", t.P50MS}, {"90% ", t.P90MS}} {
		c.Marks = append(c.Marks, chart.Tick{At: placeOf(m.at, low, shown), Label: m.name + tookMS(m.at)})
	}
	if c.Marks[1].At-c.Marks[0].At < 25 { // the labels would overlap
		c.Marks = []chart.Tick{{At: c.Marks[0].At, Label: c.Marks[0].Label + ", " + c.Marks[1].Label}}
	}
	return c
}

// placeOf returns the position of a time among the columns, in percent.
func placeOf(ms, low int64, columns []toolcall.ActivityUpTo) float64 {
	width := 100 / float64(len(columns))
	for i, b := range columns {
		if b.UpToMS == 0 || ms <= b.UpToMS {
			part := .5
			if b.UpToMS > low {
				part = float64(max(0, ms-low)) / float64(b.UpToMS-low)
			}
			return (float64(i) + part) * width
		}
		low = b.UpToMS
	}
	return 100
}

// shares returns the table of names, busiest first. tools has the times of tools.
func (v *insightsView) shares(filter, title, head string, all []toolcall.ActivityShare, tools []toolcall.ActivityTool) shareTable {
	p := v.Period
	t := shareTable{ID: "by-" + filter, Title: title, Head: head, Timed: tools != nil}
	all = slices.Clone(all)
	t.Heads = sortRows(v.query, filter, all, sharesBy(head, tools), 1)
	most := 1
	for _, s := range all {
		most = max(most, s.Decided())
	}
	shown := reveal.Line
	if filter == "agent" { // the others can look like commands
		shown = reveal.Name
	}
	for i, s := range all {
		if i == shownShares {
			t.More = len(all) - i
			break
		}
		row := shareRow{
			Name: shown(s.Name), Counts: s.ActivityCounts, Href: p.History(filter, s.Name),
			Policy: chart.Share(seriesOf(byPolicy), valuesOf(byPolicy, s.ActivityCounts), most),
			People: chart.Share(seriesOf(byPeople), valuesOf(byPeople, s.ActivityCounts), 0),
		}
		if s.Name == "" {
			row.Name, row.Href = "no "+filter, ""
		}
		if at := slices.IndexFunc(tools, func(t toolcall.ActivityTool) bool { return t.Name == s.Name }); at >= 0 {
			row.Decision, row.Run = medianOf(tools[at].ToDecision), medianOf(tools[at].Run)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func medianOf(t toolcall.ActivityTimes) string {
	if t.Count == 0 {
		return "–"
	}
	return tookMS(t.P50MS)
}

// responses are the parts of a reviewer's bar.
var responses = []chart.Series{{Name: "approved", Label: "approved"}, {Name: "rejected", Label: "rejected"}, {Name: "responded", Label: "responded"}, {Name: "expired", Label: "delegated or skipped"}}

func (v *insightsView) addReviewers() {
	add := func(all []toolcall.ReviewerLoad, group bool) {
		most := 1
		for _, l := range all {
			most = max(most, l.Answered)
		}
		for _, l := range all {
			r := reviewer{ReviewerLoad: l, Group: group, Median: "–", Rate: int(l.ApproveRate()*100 + 0.5), Fast: int(l.FastShare()*100 + 0.5)}
			r.Bar = chart.Share(responses, []int{l.Approved, l.Rejected, l.Responded, l.Passed}, most)
			if !group {
				r.Href = v.Period.History("by", l.Name)
			}
			if l.Answered > 0 {
				r.Median = asked.Took(time.Duration(l.MedianMS) * time.Millisecond)
			}
			v.People = append(v.People, r)
		}
	}
	people, groups := slices.Clone(v.Load.People), slices.Clone(v.Load.Groups)
	v.Heads = sortRows(v.query, "people", people, reviewersBy, 2)
	sortRows(v.query, "people", groups, reviewersBy, 2)
	add(people, false)
	add(groups, true)
}

// Median is the median time to a decision.
func (v *insightsView) Median() string { return medianOf(v.Activity.ToDecision) }

// Share formats a part of a whole.
func (v *insightsView) Share(part, whole int) string {
	if whole == 0 {
		return "–"
	}
	return strconv.Itoa((100*part+whole/2)/whole) + "%"
}
