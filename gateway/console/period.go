package console

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	"github.com/askance-dev/askance/gateway/console/internal/chart"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

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

var periods = []struct {
	name, label, words string
	long               time.Duration
}{
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
	read := func(text string, other time.Time) (time.Time, bool) {
		for _, layout := range []string{fieldTime, time.RFC3339} {
			if at, err := time.Parse(layout, text); err == nil {
				return at.UTC(), true
			}
		}
		return other, text == ""
	}
	since, ok := read(from, now.Add(-24*time.Hour))
	until, alsoOK := read(to, now)
	switch {
	case !ok || !alsoOK:
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

// heat maps tools by decision.
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
