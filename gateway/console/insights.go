package console

import (
	"context"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/toolcall"
)

// outcomes are the outcomes of approval requests, in the order of the chart.
var outcomes = []choice{
	{"approved", "approved"}, {"edited", "approved as edited"}, {"responded", "responded with a result"},
	{"rejected", "rejected or denied"}, {"expired", "expired or interrupted"}, {"open", "open"},
}

// spans are the classes of response times.
var spans = []struct {
	Label string
	Below time.Duration
}{
	{"2 s", 2 * time.Second}, {"10 s", 10 * time.Second}, {"1 min", time.Minute}, {"10 min", 10 * time.Minute},
	{"1 h", time.Hour}, {"1 day", 24 * time.Hour}, {"longer", 1 << 62},
}

// insightsView is the page Insights.
type insightsView struct {
	shell
	By     string // hour, day
	Other  string // the page with the other unit
	Total  map[string]int
	Asked  int
	Median string
	Over   chart
	Times  chart
	Kinds  []choice
	Load   toolcall.LoadReply
	Loaded bool
	People []reviewer
}

// reviewer is a row of the table of reviewers.
type reviewer struct {
	toolcall.ReviewerLoad
	Group  bool
	Median string
	Rate   int // percent
	Fast   int // percent
}

// figures shows approval requests, outcomes and response times.
func (in *Console) insights(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	v := insightsView{shell: in.shell(r, p, "insights", "Insights – askance"), By: "hour", Other: pathInsights + "?by=day", Total: map[string]int{}, Kinds: outcomes}
	step := time.Hour
	if r.URL.Query().Get("by") == "day" {
		v.By, v.Other, step = "day", pathInsights, 24*time.Hour
	}
	c, err := p.Reader()
	if err != nil {
		return err
	}
	calls, err := listRequested(r.Context(), c)
	if err != nil {
		return in.fail(w, v.shell, err)
	}
	v.addCharts(calls, step)
	if v.Load, err = c.Load(r.Context(), toolcall.LoadRequest{V: 1}); err != nil {
		return in.fail(w, v.shell, err)
	}
	v.addReviewers()
	return in.write(w, http.StatusOK, "insights", v)
}

// listRequested returns recent calls with an approval request.
func listRequested(ctx context.Context, c engine.Client) ([]*toolcall.Call, error) {
	open, err := engine.ListAll(ctx, c, toolcall.ListRequest{V: 1}, maxListed)
	if err != nil {
		return nil, err
	}
	past, err := listFinished(ctx, c)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(append(open, past...), func(c *toolcall.Call) bool { return !asked.WasAsked(c) }), nil
}

// bars is how many columns the chart over time has.
const bars = 24

// addCharts counts approval requests in the columns of both charts.
func (v *insightsView) addCharts(calls []*toolcall.Call, step time.Duration) {
	end := v.Now.UTC().Truncate(step).Add(step)
	over := make([]column, bars)
	layout := "15:04"
	if step > time.Hour {
		layout = "01-02"
	}
	for i := range over {
		over[i] = column{Label: end.Add(time.Duration(i-bars) * step).Format(layout), Parts: map[string]int{}}
	}
	times := make([]column, len(spans))
	for i, s := range spans {
		times[i] = column{Label: "< " + s.Label, Parts: map[string]int{}}
	}
	times[len(times)-1].Label = "longer"
	var all []time.Duration
	for _, c := range calls {
		kind := string(asked.FateOf(c))
		v.Asked++
		v.Total[kind]++
		if i := bars - 1 - int(end.Sub(c.ProposedAt)/step); i >= 0 && i < bars {
			over[i].Parts[kind]++
		}
		if len(c.Votes) == 0 || kind == "open" {
			continue
		}
		took := c.Votes[len(c.Votes)-1].At.Sub(c.ProposedAt)
		all = append(all, took)
		for i, s := range spans {
			if took < s.Below {
				times[i].Parts[kind]++
				break
			}
		}
	}
	v.Median = "–"
	if slices.Sort(all); len(all) > 0 {
		v.Median = asked.Span(all[len(all)/2])
	}
	v.Over, v.Times = layOut("Approval requests by "+v.By+" (UTC)", v.By, over), layOut("Response times", "within", times)
}

func (v *insightsView) addReviewers() {
	for _, of := range [][]toolcall.ReviewerLoad{v.Load.People, v.Load.Groups} {
		for _, l := range of {
			r := reviewer{ReviewerLoad: l, Group: len(v.Load.Groups) > 0 && &of[0] == &v.Load.Groups[0], Median: "–", Rate: int(l.ApproveRate()*100 + 0.5), Fast: int(l.FastShare()*100 + 0.5)}
			if l.Answered > 0 {
				r.Median = asked.Span(time.Duration(l.MedianMS) * time.Millisecond)
			}
			v.People = append(v.People, r)
		}
	}
}

// column is one column of a chart: how many of each outcome.
type column struct {
	Label string
	Parts map[string]int
}

// Sum is the total of the column.
func (c column) Sum() int {
	n := 0
	for _, p := range c.Parts {
		n += p
	}
	return n
}

// chart is a laid-out stacked bar chart. The page has the same numbers as a table.
type chart struct {
	Title   string
	Head    string // header of the table's first column
	Columns []column
	W, H    int
	Bars    []bar
	Grid    []gridLine
	Labels  []axisLabel
	Empty   bool
}

type bar struct {
	X, Y, W, H float64
	Kind       string
	Title      string
}

type gridLine struct {
	Y    float64
	Text int
}

type axisLabel struct {
	X    float64
	Text string
}

// Sizes of a chart, in its own units.
const (
	chartW, chartH           = 720, 220
	leftMargin, bottomMargin = 34, 22
	topMargin                = 10
	mostLabels               = 12
	gapShare                 = 0.22 // of a column
)

// layOut makes the chart of columns.
func layOut(title, head string, columns []column) chart {
	c := chart{Title: title, Head: head, Columns: columns, W: chartW, H: chartH, Empty: true}
	most := 0
	for _, col := range columns {
		most = max(most, col.Sum())
	}
	c.Empty = most == 0
	step := niceStep(most)
	top := max(step, (most+step-1)/step*step)
	height := float64(chartH - topMargin - bottomMargin)
	y := func(n int) float64 { return topMargin + height*(1-float64(n)/float64(top)) }
	for n := 0; n <= top; n += step {
		c.Grid = append(c.Grid, gridLine{y(n), n})
	}
	width := float64(chartW-leftMargin) / float64(len(columns))
	every := (len(columns) + mostLabels - 1) / mostLabels
	for i, col := range columns {
		x := leftMargin + width*float64(i)
		if i%every == 0 {
			c.Labels = append(c.Labels, axisLabel{x + width/2, col.Label})
		}
		below := 0
		for _, kind := range outcomes {
			n := col.Parts[kind.Value]
			if n == 0 {
				continue
			}
			c.Bars = append(c.Bars, bar{X: x + width*gapShare/2, W: width * (1 - gapShare), Y: y(below + n), H: y(below) - y(below+n), Kind: kind.Value, Title: col.Label + ": " + asked.Count(n, "request") + " " + kind.Label})
			below += n
		}
	}
	return c
}

// niceStep is the distance of the grid lines, 1, 2 or 5 times a power of ten, for at
// most five lines.
func niceStep(most int) int {
	if most <= 4 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(float64(most)/4)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*power*4 >= float64(most) {
			return max(1, int(m*power))
		}
	}
	return most
}
