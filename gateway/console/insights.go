package console

import (
	"cmp"
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

func (f figures) insights(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	v := insightsView{shell: f.shell(r, p, "insights", "Insights – askance")}
	v.query = r.URL.Query()
	v.Period = periodOf(v.query, pathInsights, "24h", v.Now)
	return f.writeOrFail(w, "insights", v.shell, &v, readPage(r, p, v.read))
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
	t.Heads = sortRows(pathInsights, v.query, filter, all, sharesBy(head, tools), 1)
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
	v.Heads = sortRows(pathInsights, v.query, "people", people, reviewersBy, 2)
	sortRows(pathInsights, v.query, "people", groups, reviewersBy, 2)
	add(people, false)
	add(groups, true)
}

func (v *insightsView) Median() string { return medianOf(v.Activity.ToDecision) }

func (v *insightsView) Share(part, whole int) string {
	if whole == 0 {
		return "–"
	}
	return strconv.Itoa((100*part+whole/2)/whole) + "%"
}

// period is the time range of a page of figures.
type period struct {
	Last         string // a name of periods; "": from Since until Until
	Since, Until time.Time
	Step         time.Duration // of a column
	Words        string
	Chips        []chip
	From, To     string // values of the form fields
	Bad          string // why the period in the address was not used
}

// chip is one of several choices in a row.
type chip struct {
	Label, Href string
	On          bool
}

// pastPeriod is a period up to now.
type pastPeriod struct {
	name, label, words string
	long               time.Duration
}

var periods = []pastPeriod{
	{"1h", "1 hour", "Last hour", time.Hour},
	{"24h", "24 hours", "Last 24 hours", 24 * time.Hour},
	{"7d", "7 days", "Last 7 days", 7 * 24 * time.Hour},
	{"30d", "30 days", "Last 30 days", 30 * 24 * time.Hour},
}

// columnSteps are the durations that a column can stand for.
var columnSteps = []time.Duration{
	time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour,
}

// mostColumns limits the columns of a chart over time.
const mostColumns = 61

// The formats of form fields, in UTC.
const (
	fieldTime    = "2006-01-02T15:04"
	fieldSeconds = "2006-01-02T15:04:05"
)

// periodOf reads the period from an address: last=24h, or from=…&to=….
func periodOf(q url.Values, path, fallback string, now time.Time) period {
	now = now.UTC()
	p := period{Last: cmp.Or(q.Get("last"), fallback)}
	if from, to := q.Get("from"), q.Get("to"); from != "" || to != "" {
		p.Last = ""
		p.readTimes(from, to, now)
	}
	for _, of := range periods {
		if p.Bad != "" && of.name == fallback {
			p.Last = fallback
		}
		if p.Last == of.name {
			p.Since, p.Until, p.Words = now.Add(-of.long), now, of.words
		}
		p.Chips = append(p.Chips, chip{Label: of.label, Href: path + "?last=" + of.name, On: p.Last == of.name})
	}
	if p.Since.IsZero() { // an unknown name
		p.Last, p.Since, p.Until, p.Words = "1h", now.Add(-time.Hour), now, "Last hour"
		p.Chips[0].On = true
	}
	for _, s := range columnSteps {
		if p.Step = s; p.Until.Sub(p.Since)/s < mostColumns {
			break
		}
	}
	p.From, p.To = p.Since.Format(fieldTime), p.Until.Format(fieldTime)
	p.Since = p.Since.Truncate(p.Step)
	return p
}

func (p *period) readTimes(from, to string, now time.Time) {
	since, err := formTime(from, now.Add(-24*time.Hour))
	until, alsoErr := formTime(to, now)
	switch {
	case err != nil || alsoErr != nil:
		p.Bad = "The period is not valid: use a date and time, for example 2026-11-23T08:00."
	case !since.Before(until):
		p.Bad = "The period ends before it begins: choose an earlier start."
	default:
		p.Since, p.Until = since, until
		p.Words = since.Format("Jan 2, 15:04") + " to " + until.Format("Jan 2, 15:04 UTC")
	}
}

func (p period) request() toolcall.ActivityRequest {
	r := toolcall.ActivityRequest{V: 1, Since: p.Since, StepMS: p.Step.Milliseconds()}
	if p.Last == "" {
		r.Until = p.Until
	}
	return r
}

// History links to the finished calls of the period that meet the conditions, given in pairs.
func (p period) History(pairs ...string) string {
	return historyLink(p.Since, p.Until, pairs...)
}

func historyLink(since, until time.Time, pairs ...string) string {
	f := historyFilter{From: since.UTC().Format(fieldSeconds), To: until.UTC().Format(fieldSeconds)}
	return f.address(pathHistory, pairs...)
}

// measure is one count of events.
type measure struct {
	chart.Series
	of func(toolcall.ActivityCounts) int
}

// outcome returns how the calls of the count end, as the page History names it, or "" if they can
// end in several ways.
func (m measure) outcome() string {
	if slices.ContainsFunc(ends, func(e end) bool { return e.Value == m.Name }) {
		return m.Name
	}
	return ""
}

// The decisions of the policy, and the outcomes decided by people and timeouts.
var (
	byPolicy = []measure{
		{chart.Series{Name: "allowed", Label: "allowed"}, func(c toolcall.ActivityCounts) int { return c.Allowed }},
		{chart.Series{Name: "asked", Label: "asked"}, func(c toolcall.ActivityCounts) int { return c.Asked }},
		{chart.Series{Name: "denied", Label: "denied"}, func(c toolcall.ActivityCounts) int { return c.Denied }},
		{chart.Series{Name: "refused", Label: "refused"}, func(c toolcall.ActivityCounts) int { return c.Refused }},
	}
	byPeople = []measure{
		{chart.Series{Name: "approved", Label: "approved"}, func(c toolcall.ActivityCounts) int { return c.Approved }},
		{chart.Series{Name: "rejected", Label: "rejected"}, func(c toolcall.ActivityCounts) int { return c.Rejected }},
		{chart.Series{Name: "responded", Label: "responded"}, func(c toolcall.ActivityCounts) int { return c.Responded }},
		{chart.Series{Name: "expired", Label: "expired"}, func(c toolcall.ActivityCounts) int { return c.Expired }},
	}
)

func seriesOf(all []measure) []chart.Series {
	out := make([]chart.Series, len(all))
	for i, m := range all {
		out[i] = m.Series
	}
	return out
}

func valuesOf(all []measure, c toolcall.ActivityCounts) []int {
	out := make([]int, len(all))
	for i, m := range all {
		out[i] = m.of(c)
	}
	return out
}

// overTime charts measures over the period; a column links to its calls.
func (p period) overTime(id, title string, all []measure, buckets []toolcall.ActivityBucket) chart.Columns {
	c := chart.Columns{ID: id, Title: title, Head: "Time (UTC)", Series: seriesOf(all)}
	if n := len(buckets); n > 0 {
		c.Ticks = chart.TimeTicks(buckets[0].Start, buckets[n-1].Start.Add(p.Step), 9)
	}
	layout := "15:04"
	if p.Until.Sub(p.Since) > 24*time.Hour {
		layout = "Jan 2, 15:04"
	}
	for _, b := range buckets {
		end := b.Start.Add(p.Step)
		c.Columns = append(c.Columns, chart.Column{
			Label: b.Start.Format(layout), Long: b.Start.Format(layout) + " to " + end.Format("15:04"),
			Values: valuesOf(all, b.ActivityCounts), Href: historyLink(b.Start, end),
		})
	}
	return c
}

func (p period) heat(tools []toolcall.ActivityTool, most int) chart.Heat {
	all := append(append([]measure{}, byPolicy[:3]...), byPeople...)
	h := chart.Heat{Title: "Decisions by tool", Head: "Tool", Names: seriesOf(all)}
	for i, t := range tools {
		if i == most {
			break
		}
		row := chart.HeatRow{Label: reveal.Line(t.Name), Href: p.History("tool", t.Name), Values: valuesOf(all, t.ActivityCounts)}
		for _, m := range all {
			row.Hrefs = append(row.Hrefs, p.History("tool", t.Name, "outcome", m.outcome()))
		}
		h.Rows = append(h.Rows, row)
	}
	return h
}

func tookMS(ms int64) string { return asked.Took(time.Duration(ms) * time.Millisecond) }
