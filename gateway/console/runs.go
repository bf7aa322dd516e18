package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Limits of the timeline page.
const (
	rowsOfChart   = 50
	mostOfSession = 5000
	mostSessions  = 100
)

type timelineView struct {
	shell
	Session       message.SessionID
	Reply         message.ReplyID
	Agent         string
	Runtime       string
	Chart         *gantt
	Calls         string // "12", or "the last 5,000"
	Asked         string // how long calls waited for people
	Queued        string
	Ran           string
	Earlier       string // address of the previous page, if any
	Later         string
	Shown         string
	WholeSession  string // address without the reply
	Even, Compact string // addresses with the other scale
	Sessions      []sessionRow
	Covers        string // which sessions are listed
}

type sessionRow struct {
	Href    string
	Session message.SessionID
	Agent   string
	Tools   []string
	Calls   string // "12", or "12+" if some finished calls were not read
	Open    int
	done    int
	Last    time.Time
}

// showTimeline shows a session's calls over time, or the most recent sessions.
func (in records) showTimeline(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	q := r.URL.Query()
	v := timelineView{shell: in.shell(r, p, "timeline", "Timeline – askance"), Session: message.SessionID(q.Get("session")), Reply: message.ReplyID(q.Get("reply"))}
	err := readPage(r, p, func(ctx context.Context, c engine.Client) (err error) {
		if v.Session != "" {
			return v.read(ctx, c, p.Space.ID, q)
		}
		v.Sessions, v.Covers, err = listSessions(ctx, c)
		return err
	})
	return in.writeOrFail(w, "timeline", v.shell, v, err)
}

// listSessions returns the sessions whose open or recently finished calls changed last, most recent
// first, and says which sessions that covers.
func listSessions(ctx context.Context, c engine.Client) (out []sessionRow, covers string, err error) {
	open, err := engine.ListAll(ctx, c, toolcall.ListRequest{V: 1, Sort: "-" + toolcall.SortChanged}, maxListed)
	if err != nil {
		return nil, "", err
	}
	past, err := engine.ListAll(ctx, c, toolcall.ListRequest{V: 1, Newest: true}, maxListed)
	if err != nil {
		return nil, "", err
	}
	by := map[message.SessionID]*sessionRow{}
	for _, call := range append(open, past...) {
		s := by[call.Session]
		if s == nil {
			s = &sessionRow{Href: timelineAddress(call.Session, "", ""), Session: call.Session, Agent: cmp.Or(call.Agent, call.Runtime)}
			by[call.Session] = s
		}
		if !call.Open() {
			s.done++
		}
		if !slices.Contains(s.Tools, call.Tool) && len(s.Tools) < 6 {
			s.Tools = append(s.Tools, call.Tool)
		}
		if call.UpdatedAt.After(s.Last) {
			s.Last = call.UpdatedAt
		}
	}
	switch {
	case len(by) > mostSessions:
		covers = "The " + asked.Number(mostSessions) + " sessions that changed last."
	case len(open) >= maxListed || len(past) >= maxListed:
		covers = "The sessions of the last " + asked.Number(maxListed) + " open and " + asked.Number(maxListed) + " finished calls. Find older ones in History."
	}
	for _, s := range by {
		slices.Sort(s.Tools)
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b sessionRow) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Session, b.Session))
	})
	out = out[:min(len(out), mostSessions)]
	for i := range out {
		if err := out[i].count(ctx, c, len(past) >= maxListed); err != nil {
			return nil, "", err
		}
	}
	return out, covers, nil
}

// count counts the open calls of the session; cut means that not all finished ones were read.
func (s *sessionRow) count(ctx context.Context, c engine.Client, cut bool) error {
	page, err := c.List(ctx, toolcall.ListRequest{V: 1, Session: s.Session, Limit: 1})
	if err != nil {
		return err
	}
	for _, n := range page.Counts {
		s.Open += n
	}
	s.Calls = asked.Number(s.Open + s.done)
	if cut {
		s.Calls += "+"
	}
	return nil
}

// decidersOf says who decided and which worker ran the call.
func decidersOf(c *toolcall.Call) string {
	var by []string
	for _, v := range c.Votes {
		by = append(by, asked.Said(v)+" by "+v.By.Name)
	}
	if len(by) == 0 && c.State != message.ToolCallAsking {
		by = append(by, verdictOf(c))
	}
	if c.Attempt.Worker != "" && c.Placement == toolcall.PlaceRemote {
		by = append(by, "worker "+c.Attempt.Worker)
	}
	return strings.Join(slices.DeleteFunc(by, func(s string) bool { return s == "" }), " · ")
}

// timelineAddress links to a session, optionally to one reply and with one call selected.
func timelineAddress(s message.SessionID, r message.ReplyID, c message.CallID) string {
	return withParams(pathTimeline, setParams(url.Values{}, "session", string(s), "reply", string(r), "call", string(c)))
}

func (v *timelineView) read(ctx context.Context, c engine.Client, space toolcall.SpaceID, q url.Values) error {
	selected := toolcall.Key{Space: space, Session: v.Session, Reply: v.Reply, Call: message.CallID(q.Get("call"))}
	if err := (toolcall.Key{Space: space, Session: v.Session, Reply: "r", Call: "c"}).Validate(); err != nil {
		return err
	}
	calls, err := engine.ListAll(ctx, c, toolcall.ListRequest{V: 1, Session: v.Session, Reply: v.Reply, All: true, Sort: "-" + toolcall.SortProposed}, mostOfSession)
	if err != nil {
		return err
	}
	slices.Reverse(calls) // a longer session has only its last calls here
	if len(calls) == 0 {
		return &message.Error{Code: message.CodeNotFound, Op: "show timeline", What: "session " + string(v.Session) + " has no calls", Hint: "choose a session on the page Timeline"}
	}
	v.Calls, v.Agent, v.Runtime = asked.Number(len(calls)), calls[0].Agent, calls[0].Runtime
	if len(calls) >= mostOfSession {
		v.Calls = "the last " + v.Calls
	}
	v.turn(q, &calls, selected)
	rows := make([]ganttCall, 0, len(calls))
	for _, call := range orderByParent(calls) {
		show, err := c.Show(ctx, toolcall.ShowRequest{V: 1, Key: call.Key})
		if errors.Is(err, message.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		g := ganttCall{row: ganttRow{ID: domID(call.Key), Href: address(call.Key, nil), Name: reveal.Line(call.Tool), Text: reveal.Line(aboutCall(call.Tool, asked.Title(show.Call))),
			Note: decidersOf(show.Call), State: stateOf(show.Call), Depth: min(show.Call.Depth(), 6), Selected: show.Call.Key == selected}}
		g.spans, g.marks = spansOf(show, v.Now)
		rows = append(rows, g)
	}
	v.addTimes(rows)
	v.Chart = drawGantt("Timeline of the session", rows, q.Get("scale") == "compact")
	return nil
}

// turn keeps the calls of one page, by default the last, and links to the others.
func (v *timelineView) turn(q url.Values, calls *[]*toolcall.Call, selected toolcall.Key) {
	pages := (len(*calls) + rowsOfChart - 1) / rowsOfChart
	page, err := strconv.Atoi(q.Get("page"))
	if err != nil || page < 1 || page > pages {
		page = pages
		if i := slices.IndexFunc(*calls, func(c *toolcall.Call) bool { return c.Key == selected }); i >= 0 {
			page = i/rowsOfChart + 1
		}
	}
	link := func(changes ...string) string {
		to := setParams(url.Values{}, "session", string(v.Session), "reply", q.Get("reply"), "call", q.Get("call"), "scale", q.Get("scale"), "page", q.Get("page"))
		return withParams(pathTimeline, setParams(to, changes...))
	}
	if page > 1 {
		v.Earlier = link("page", strconv.Itoa(page-1))
	}
	if page < pages {
		v.Later = link("page", strconv.Itoa(page+1))
	}
	v.Even, v.Compact = link("scale", ""), link("scale", "compact")
	if v.Reply != "" {
		v.WholeSession = link("reply", "", "page", "")
	}
	from := (page - 1) * rowsOfChart
	*calls = (*calls)[from:min(from+rowsOfChart, len(*calls))]
	if pages > 1 {
		v.Shown = strconv.Itoa(from+1) + " to " + strconv.Itoa(from+len(*calls))
	}
}

// orderByParent puts calls after the call within which they were made.
func orderByParent(calls []*toolcall.Call) []*toolcall.Call {
	inner := map[toolcall.Key][]*toolcall.Call{}
	here := map[toolcall.Key]bool{}
	for _, c := range calls {
		here[c.Key] = true
	}
	var tops []*toolcall.Call
	for _, c := range calls {
		if c.Parent != nil {
			k := toolcall.Key{Space: c.Space, Session: c.Parent.Session, Reply: c.Parent.Reply, Call: c.Parent.Call}
			if here[k] && k != c.Key {
				inner[k] = append(inner[k], c)
				continue
			}
		}
		tops = append(tops, c)
	}
	out := make([]*toolcall.Call, 0, len(calls))
	var add func(of []*toolcall.Call)
	add = func(of []*toolcall.Call) {
		for _, c := range of {
			out = append(out, c)
			add(inner[c.Key])
		}
	}
	add(tops)
	return out
}

// addTimes adds up where the calls spent their time.
func (v *timelineView) addTimes(rows []ganttCall) {
	sums := map[string]time.Duration{}
	for _, r := range rows {
		for _, s := range r.spans {
			sums[s.Kind] += s.To.Sub(s.From)
		}
	}
	v.Asked, v.Queued, v.Ran = asked.Took(sums["ask"]), asked.Took(sums["queue"]), asked.Took(sums["run"])
}
