package console

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// span is a period that a call spends in one phase.
type span struct {
	Kind     string // wait, ask, queue, run, block
	From, To time.Time
	Open     bool // it has not ended
	Attempt  int
	Who      string // who ended it or runs it; revealed
}

// mark is an event in a call's life: something a person, the policy or a worker did.
type mark struct {
	Tone   string // good, bad, ask, work, plain
	Person bool
	What   string // revealed
	Who    string // revealed
	At     time.Time
}

var spanWords = map[string]string{
	"wait": "Waiting for another call", "ask": "Waiting for approval", "queue": "Queued", "run": "Running", "block": "Blocked",
}

// Word names the span for people.
func (s span) Word() string {
	if s.Kind == "run" && s.Attempt > 1 {
		return fmt.Sprintf("%s (attempt %d)", spanWords[s.Kind], s.Attempt)
	}
	return spanWords[s.Kind]
}

// spanAfter returns the kind of span that follows a step, or "" if the call has ended.
func spanAfter(c *toolcall.Call, s toolcall.Step) string {
	switch s.To {
	case message.ToolCallPending:
		return "wait"
	case message.ToolCallAsking:
		return "ask"
	case message.ToolCallAllowed, message.ToolCallSubmitted:
	default:
		return ""
	}
	switch toolcall.Cause(s.Cause) {
	case toolcall.CauseStart:
		return "run"
	case toolcall.CauseSuspend:
		return "block"
	}
	if c.Placement == toolcall.PlaceExternal && c.Cause == string(toolcall.CauseResult) && !c.Started() {
		return "run" // its runtime reported only the result
	}
	return "queue"
}

// spansOf splits the life of a call into spans and lists what happened to it.
func spansOf(show toolcall.ShowReply, now time.Time) (spans []span, marks []mark) {
	last := &span{} // it is open only if it is in spans
	for _, h := range show.History {
		if h.Note != nil || len(h.Path) == 0 {
			continue
		}
		who := reveal.Name(h.By.Name)
		if h.By.Role == toolcall.RoleEngine {
			who = "askance"
		}
		for _, s := range h.Path {
			marks = append(marks, markOf(show.Call, h, s, who))
		}
		next := span{Kind: spanAfter(show.Call, h.Path[len(h.Path)-1]), From: h.At, Open: true, Attempt: h.Attempt}
		if last.continuesAs(next) {
			continue
		}
		last.end(h.At, who)
		if next.Kind == "run" {
			next.Who = runner(show.Call, h)
		}
		if next.Kind != "" {
			spans = append(spans, next)
			last = &spans[len(spans)-1]
		}
	}
	if last.Open {
		if last.To = now; now.Before(last.From) {
			last.To = last.From
		}
		if show.Call.Phase() == toolcall.PhaseBlocked {
			last.Kind = "block"
		}
	}
	return spans, marks
}

// continuesAs reports whether a step leaves a call in the same span. Each run is a span of its own.
func (s *span) continuesAs(next span) bool {
	return s.Open && s.Kind == next.Kind && s.Attempt == next.Attempt && s.Kind != "run"
}

// end ends an open span at the time of the next step. An ask also gets the name of who made that step.
func (s *span) end(at time.Time, who string) {
	if !s.Open {
		return
	}
	if s.To, s.Open = at, false; s.Kind == "ask" {
		s.Who = who
	}
}

// markOf describes a step of a call. who is the name of the person or program that made it.
func markOf(c *toolcall.Call, h toolcall.HistoryEntry, s toolcall.Step, who string) mark {
	word, tone := asked.Step(s.Cause)
	m := mark{Tone: cmp.Or(tone, "plain"), What: word, Who: who, At: h.At}
	switch toolcall.Cause(s.Cause) {
	case toolcall.CauseDeny, toolcall.CauseAllow, toolcall.CauseAsk, toolcall.CauseHide, toolcall.CauseRefuse:
		m.Who = "policy"
	case toolcall.CauseStart, toolcall.CauseResult:
		m.Who = runner(c, h)
	case toolcall.CauseSubmit, toolcall.CauseOffer:
		m.Who = "askance"
	default:
		m.Person = h.By.Role == toolcall.RoleApprover || h.By.Role == toolcall.RoleOperator
	}
	return m
}

// runner names what runs an attempt.
func runner(c *toolcall.Call, h toolcall.HistoryEntry) string {
	switch {
	case c.Placement == toolcall.PlaceExternal:
		return "runtime " + reveal.Name(c.Runtime)
	case c.Placement == toolcall.PlaceLocal, h.Worker == "":
		return "askance"
	}
	return "worker " + reveal.Name(h.Worker)
}

// gantt is a laid-out chart of calls over time. Positions are percentages of its width.
type gantt struct {
	Label   string // of the chart, for screen readers
	Rows    []ganttRow
	Ticks   []ganttTick
	Breaks  []float64 // where time without an open call is left out
	Legend  []choice
	Began   time.Time
	Took    string
	Live    bool // a call is open
	Compact bool
	Table   []ganttLine
}

type ganttRow struct {
	ID, Href   string
	Name, Text string // revealed
	Note       string
	State      state
	Depth      int
	Selected   bool
	Took       string
	Label      string // says what the bars show
	Bars       []ganttBar
	Dots       []ganttDot
	In         *gantt
}

type ganttBar struct {
	X, W  float64
	Kind  string
	Title string
	Text  string // in the bar; "": it does not fit
	Open  bool
}

type ganttDot struct {
	X      float64
	Tone   string
	Person bool
	Title  string
}

type ganttTick struct {
	X    float64
	Text string
}

// ganttLine is a row of the equivalent table.
type ganttLine struct {
	Name, What, Who, Took string
	At                    time.Time
}

type ganttCall struct {
	row   ganttRow
	spans []span
	marks []mark
}

// timeScale maps instants to percentages. Time in which no call is open is shortened.
type timeScale struct {
	at     []time.Time
	x      []float64
	breaks []float64
}

// longestIdle caps a stretch without an open call, as a fraction of the time with open calls.
const longestIdle = 0.05

func newTimeScale(calls []ganttCall, compact bool) timeScale {
	var t timeScale
	var busy []span
	for _, c := range calls {
		for _, s := range c.spans {
			t.at = append(t.at, s.From, s.To)
			busy = append(busy, s)
		}
		for _, m := range c.marks {
			t.at = append(t.at, m.At)
		}
	}
	slices.SortFunc(t.at, time.Time.Compare)
	t.at = slices.CompactFunc(t.at, time.Time.Equal)
	if len(t.at) == 0 {
		return t
	}
	slices.SortFunc(busy, func(a, b span) int { return a.From.Compare(b.From) })
	weights, idle := make([]float64, len(t.at)-1), make([]bool, len(t.at)-1)
	sum, until := 0.0, time.Time{}
	for i := range weights {
		for ; len(busy) > 0 && !busy[0].From.After(t.at[i]); busy = busy[1:] {
			if busy[0].To.After(until) {
				until = busy[0].To
			}
		}
		idle[i] = !until.After(t.at[i])
		weights[i] = t.at[i+1].Sub(t.at[i]).Seconds()
		if compact {
			weights[i] = math.Log1p(weights[i] * 20)
		}
		if !idle[i] {
			sum += weights[i]
		}
	}
	longest, total := cmp.Or(sum, 1)*longestIdle, 0.0
	cut := make([]bool, len(weights))
	for i := range weights {
		if idle[i] && weights[i] > longest {
			weights[i], cut[i] = longest, true
		}
		total += weights[i]
	}
	t.x = make([]float64, len(t.at))
	for i, w := range weights {
		t.x[i+1] = t.x[i]
		if total > 0 {
			t.x[i+1] += 100 * w / total
		}
		if cut[i] {
			t.breaks = append(t.breaks, (t.x[i]+t.x[i+1])/2)
		}
	}
	return t
}

func (t timeScale) place(at time.Time) float64 {
	i, found := slices.BinarySearchFunc(t.at, at, time.Time.Compare)
	switch {
	case found:
		return t.x[i]
	case i == 0:
		return 0
	case i == len(t.at):
		return 100
	}
	whole := t.at[i].Sub(t.at[i-1])
	return t.x[i-1] + (t.x[i]-t.x[i-1])*float64(at.Sub(t.at[i-1]))/float64(whole)
}

// tickSteps are the possible distances between ticks, in seconds.
var tickSteps = []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800}

// mostTicks fits the narrowest screen.
const mostTicks = 6

func (t timeScale) ticks() []ganttTick {
	if len(t.at) < 2 {
		return nil
	}
	began := t.at[0]
	whole := t.at[len(t.at)-1].Sub(began)
	var out []ganttTick
	add := func(at time.Time) {
		x := t.place(at)
		if len(out) > 0 && x-out[len(out)-1].X < 100/mostTicks || x > 94 {
			return
		}
		out = append(out, ganttTick{x, "+" + asked.Took(at.Sub(began))})
	}
	out = append(out, ganttTick{0, "0"})
	step := whole
	for _, s := range tickSteps {
		if d := time.Duration(s * float64(time.Second)); whole/d < 200 {
			step = d
			break
		}
	}
	for _, s := range tickSteps { // the finest step whose ticks all fit on an even scale
		if d := time.Duration(s * float64(time.Second)); len(t.breaks) == 0 && d >= step && whole/d < mostTicks {
			step = d
			break
		}
	}
	for d := step; d < whole; d += step {
		add(began.Add(d))
	}
	return out
}

// Text sizes in bars, in percent of the narrowest chart.
const (
	textMargin = 3.0
	textWidth  = 2.6 // per character
)

func drawGantt(label string, calls []ganttCall, compact bool) *gantt {
	scale := newTimeScale(calls, compact)
	g := &gantt{Label: label, Ticks: scale.ticks(), Breaks: scale.breaks, Compact: compact}
	if len(scale.at) > 0 {
		g.Began = scale.at[0]
		g.Took = asked.Took(scale.at[len(scale.at)-1].Sub(g.Began))
	}
	kinds := map[string]bool{}
	for _, c := range calls {
		g.addMarks(&c, scale, kinds)
		g.addSpans(&c, scale, kinds)
		r := c.row
		r.In, r.Label = g, r.Name+": "+r.Took
		for _, b := range r.Bars {
			r.Label += "; " + b.Title
		}
		g.Rows = append(g.Rows, r)
	}
	for _, k := range []choice{{"wait", "waiting for another call"}, {"ask", "waiting for approval"}, {"queue", "queued"}, {"run", "running"}, {"block", "blocked"}, {"vote", "response of a person"}} {
		if kinds[k.Value] {
			g.Legend = append(g.Legend, k)
		}
	}
	slices.SortStableFunc(g.Table, func(a, b ganttLine) int { return a.At.Compare(b.At) })
	return g
}

func (g *gantt) addMarks(c *ganttCall, scale timeScale, kinds map[string]bool) {
	for _, m := range c.marks {
		title := m.What + " by " + m.Who + ", " + m.At.UTC().Format("15:04:05")
		if m.Person || m.Tone == "bad" || len(c.spans) == 0 && m.Tone != "plain" {
			c.row.Dots = append(c.row.Dots, ganttDot{X: scale.place(m.At), Tone: m.Tone, Person: m.Person, Title: title})
		}
		if m.Person {
			kinds["vote"] = true
		}
		g.Table = append(g.Table, ganttLine{c.row.Name, m.What, m.Who, "", m.At})
	}
}

// addSpans draws the bars of a call, and sets how long it took unless that is known.
func (g *gantt) addSpans(c *ganttCall, scale timeScale, kinds map[string]bool) {
	for _, s := range c.spans {
		kinds[s.Kind] = true
		g.Live = g.Live || s.Open
		took := asked.Took(s.To.Sub(s.From))
		b := ganttBar{X: scale.place(s.From), Kind: s.Kind, Open: s.Open, Title: s.Word() + ": " + took}
		b.W = scale.place(s.To) - b.X
		room := textMargin + textWidth*float64(len(took))
		if b.W >= room {
			b.Text = took
		}
		if s.Who != "" {
			b.Title += ", " + s.Who
		}
		if s.Open {
			b.Title += ", now"
		}
		for _, m := range c.marks { // a dot would hide a part of the text
			if x := scale.place(m.At); m.Person && x > b.X && x < b.X+room {
				b.Text = ""
			}
		}
		c.row.Bars = append(c.row.Bars, b)
		g.Table = append(g.Table, ganttLine{c.row.Name, s.Word(), s.Who, took, s.From})
	}
	took := "instant"
	if n := len(c.spans); n > 0 {
		took = asked.Took(c.spans[n-1].To.Sub(c.spans[0].From))
	}
	c.row.Took = cmp.Or(c.row.Took, took)
}
