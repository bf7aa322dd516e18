package console

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
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
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// records serves the pages about the past.
type records struct{ *Console }

// Page sizes of the history.
const (
	historyRows = 50
	exportRows  = 200
)

// end is a way in which calls end, as the history filter names it.
type end struct {
	Value, Label string
	causes       []toolcall.Cause
	results      []message.ToolResultState
}

var ends = []end{
	{"done", "done", []toolcall.Cause{toolcall.CauseResult, toolcall.CauseResolve}, []message.ToolResultState{message.ToolResultSuccess}},
	{"failed", "failed", []toolcall.Cause{toolcall.CauseResult, toolcall.CauseResolve}, []message.ToolResultState{message.ToolResultError}},
	{"responded", "responded by a person", []toolcall.Cause{toolcall.CauseRespond}, nil},
	{"rejected", "rejected by a person", []toolcall.Cause{toolcall.CauseReject}, nil},
	{"denied", "denied by the policy", []toolcall.Cause{toolcall.CauseDeny}, nil},
	{"refused", "refused: bad input or tool", []toolcall.Cause{toolcall.CauseRefuse}, nil},
	{"expired", "expired", []toolcall.Cause{toolcall.CauseExpire}, nil},
	{"interrupted", "interrupted or revoked", []toolcall.Cause{toolcall.CauseInterrupt, toolcall.CauseRevoke}, nil},
	{"bypassed", "ran without a decision", []toolcall.Cause{toolcall.CauseBypass}, nil},
}

// historyFilter selects finished calls. Its fields are URL parameters.
type historyFilter struct {
	Words, By, Tool, Agent, Rule, Outcome string
	Period, From, To                      string // From and To are local times of a form, in UTC
}

func historyFilterOf(q url.Values) historyFilter {
	get := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	return historyFilter{Words: get("q"), By: get("by"), Tool: get("tool"), Agent: get("agent"), Rule: get("rule"), Outcome: get("outcome"), Period: get("period"), From: get("from"), To: get("to")}
}

func (f historyFilter) values() url.Values {
	return setParams(url.Values{}, "q", f.Words, "by", f.By, "tool", f.Tool, "agent", f.Agent, "rule", f.Rule, "outcome", f.Outcome, "period", f.Period, "from", f.From, "to", f.To)
}

// address returns a page's address with the filter and further parameters, given in pairs.
func (f historyFilter) address(path string, more ...string) string {
	return withParams(path, setParams(f.values(), more...))
}

func (f historyFilter) request(now time.Time) (toolcall.ListRequest, error) {
	r := toolcall.ListRequest{V: 1, Newest: true, Words: f.Words, By: f.By, Tool: f.Tool, Agent: f.Agent}
	if f.Rule != "" {
		r.Rules = []string{f.Rule}
	}
	if f.Outcome != "" {
		i := slices.IndexFunc(ends, func(e end) bool { return e.Value == f.Outcome })
		if i < 0 {
			return r, &message.Error{Code: message.CodeInvalid, Op: "show history", What: "unknown outcome " + f.Outcome, Hint: "choose one from the list"}
		}
		r.Outcomes, r.Results = ends[i].causes, ends[i].results
	}
	if i := slices.IndexFunc(periods, func(p pastPeriod) bool { return p.name == f.Period }); i >= 0 {
		r.Since = now.Add(-periods[i].long)
	}
	var err error
	if r.Since, err = formTime(f.From, r.Since); err == nil {
		r.Until, err = formTime(f.To, r.Until)
	}
	return r, err
}

// formTime reads the time of a form field, which may be empty.
func formTime(s string, empty time.Time) (time.Time, error) {
	if s == "" {
		return empty, nil
	}
	for _, layout := range []string{fieldTime, fieldSeconds, time.RFC3339, "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, &message.Error{Code: message.CodeInvalid, Op: "show history", What: strconv.Quote(s) + " is not a time", Hint: "enter a date and time, such as 2026-03-01T12:00"}
}

// historyView is the page of finished calls.
type historyView struct {
	shell
	Filter    historyFilter
	Ends      []end
	Periods   []chip
	Rows      historyTable
	Moving    historyTable // decided and not finished
	Tools     []string
	People    []string
	Rules     []string
	Agents    []string
	Next      string // address of the next page; ""
	First     string // address of the first page, on a later one
	Short     bool   // the search stopped before it filled a page
	Until     time.Time
	CSV, JSON string // addresses of exports
	Clear     string
}

// historyTable is a table of calls; Label is for screen readers.
type historyTable struct {
	Label string
	Rows  []historyRow
}

type historyRow struct {
	ID, Href    string
	Tool, Text  string
	Session     string
	Runs        string // address of the session's timeline
	State       state
	Verdict     string // who decided, and how
	Rule        string
	Agent       string
	At          time.Time
	Took, Asked string
}

func (in records) history(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	v := historyView{shell: in.shell(r, p, "history", "History – askance"), Filter: historyFilterOf(r.URL.Query()), Ends: ends, Rows: historyTable{Label: "Finished calls"}, Moving: historyTable{Label: "Calls that are not finished"}}
	err := readPage(r, p, func(ctx context.Context, c engine.Client) error { return v.read(ctx, c, r.URL.Query().Get("after")) })
	return in.writeOrFail(w, "history", v.shell, v, err)
}

func (v *historyView) read(ctx context.Context, c engine.Client, after string) error {
	request, err := v.Filter.request(v.Now)
	if err != nil {
		return err
	}
	if after != "" {
		if request.After, err = strconv.ParseUint(after, 10, 64); err != nil {
			return &message.Error{Code: message.CodeInvalid, Op: "show history", What: "the address does not name a page", Hint: "open the history again"}
		}
		v.First = v.Filter.address(pathHistory)
	} else if v.Filter.Outcome == "" {
		moving := request
		moving.Newest, moving.Phases = false, []toolcall.Phase{toolcall.PhaseReady, toolcall.PhaseQueued, toolcall.PhaseRunning, toolcall.PhaseRetrying, toolcall.PhaseBlocked}
		open, err := engine.ListAll(ctx, c, moving, historyRows)
		if err != nil {
			return err
		}
		for _, call := range slices.Backward(open) {
			v.Moving.Rows = append(v.Moving.Rows, historyRowOf(call, v.Now))
		}
	}
	request.Limit = historyRows
	page, err := c.List(ctx, request)
	if err != nil {
		return err
	}
	for _, call := range page.Calls {
		v.Rows.Rows = append(v.Rows.Rows, historyRowOf(call, v.Now))
		v.Until = call.UpdatedAt
	}
	if page.Next != 0 {
		v.Next, v.Short = v.Filter.address(pathHistory, "after", strconv.FormatUint(page.Next, 10)), len(page.Calls) < historyRows
	}
	v.addChoices(ctx, c)
	return nil
}

// addChoices adds the suggestions for the filter fields, and the addresses.
func (v *historyView) addChoices(ctx context.Context, c engine.Client) {
	agents, rules := map[string]bool{}, map[string]bool{}
	for _, row := range v.Rows.Rows {
		agents[row.Agent], rules[row.Rule] = true, true
	}
	delete(agents, "")
	delete(rules, "")
	v.Agents, v.Rules = slices.Sorted(maps.Keys(agents)), slices.Sorted(maps.Keys(rules))
	if info, err := c.Info(ctx); err == nil { // suggestions only
		v.Tools = info.Tools
	}
	if load, err := c.Load(ctx, toolcall.LoadRequest{V: 1}); err == nil {
		for _, l := range load.People {
			v.People = append(v.People, l.Name)
		}
	}
	for _, p := range append(slices.Clone(periods), pastPeriod{label: "All"}) {
		v.Periods = append(v.Periods, chip{p.label, v.Filter.address(pathHistory, "period", p.name, "from", "", "to", ""), v.Filter.Period == p.name && v.Filter.From == "" && v.Filter.To == ""})
	}
	v.CSV, v.JSON = v.Filter.address(pathExport, "format", "csv"), v.Filter.address(pathExport, "format", "json")
	if len(v.Filter.values()) > 0 {
		v.Clear = pathHistory
	}
}

func historyRowOf(c *toolcall.Call, now time.Time) historyRow {
	r := historyRow{ID: domID(c.Key), Href: address(c.Key, nil), Tool: c.Tool, Text: asked.Title(c), Session: string(c.Session), Runs: timelineAddress(c.Session, "", c.Call),
		State: stateOf(c), Agent: cmp.Or(c.Agent, c.Runtime), At: c.UpdatedAt, Verdict: verdictOf(c)}
	if c.Decision != nil {
		r.Rule = c.Decision.Rule
	}
	until := c.UpdatedAt
	if c.Open() {
		until = now
	}
	r.Took = asked.Took(until.Sub(c.ProposedAt))
	if n := len(c.Votes); n > 0 {
		r.Asked = asked.Took(c.Votes[n-1].At.Sub(c.ProposedAt))
	}
	return r
}

// verdictOf says who decided a call, and how.
func verdictOf(c *toolcall.Call) string {
	if asked.WasAsked(c) {
		return asked.Verdict(c, "")
	}
	if c.Cause == string(toolcall.CauseRefuse) {
		return "refused before the policy"
	}
	d := c.Decision
	switch {
	case d == nil:
		return ""
	case d.Standing != "":
		return "allowed by a standing approval"
	case d.Behavior == message.BehaviorDeny:
		return "denied by " + ruleName(d.Rule)
	case d.Behavior == message.BehaviorAllow:
		return "allowed by " + ruleName(d.Rule)
	}
	return ""
}

func ruleName(rule string) string {
	if rule == "" {
		return "the policy"
	}
	return "rule " + rule
}

// exportHistory streams every call that matches the filter, not just one page.
func (in records) exportHistory(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	c, err := p.Reader()
	if err != nil {
		return err
	}
	request, err := historyFilterOf(r.URL.Query()).request(in.now())
	if err != nil {
		return err
	}
	var out exporter
	format := r.URL.Query().Get("format")
	var kind string
	switch format {
	case "csv":
		out, kind = &csvExport{w: csv.NewWriter(w)}, "text/csv; charset=utf-8"
	case "json":
		out, kind = &jsonExport{w: w}, "application/json"
	default:
		return &message.Error{Code: message.CodeInvalid, Op: "export history", What: "unknown format " + strconv.Quote(format), Hint: "use csv or json"}
	}
	request.Limit = exportRows
	page, err := c.List(r.Context(), request) // an error here is still a reply
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="askance-history-%s.%s"`, in.now().UTC().Format("20060102-150405"), format))
	err = out.begin()
	for err == nil {
		for _, call := range page.Calls {
			if err == nil {
				err = out.call(call)
			}
		}
		if request.After = page.Next; err != nil || page.Next == 0 {
			break
		}
		if err = http.NewResponseController(w).Flush(); err == nil {
			page, err = c.List(r.Context(), request)
		}
	}
	if err == nil {
		err = out.end()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // a truncated file must not look complete
	}
	return nil
}

// exporter writes calls to a file.
type exporter interface {
	begin() error
	call(c *toolcall.Call) error
	end() error
}

// jsonExport writes an array of calls as the API shows them.
type jsonExport struct {
	w    io.Writer
	more bool
}

func (e *jsonExport) begin() error { return writeText(e.w, "[") }
func (e *jsonExport) end() error   { return writeText(e.w, "\n]\n") }

func (e *jsonExport) call(c *toolcall.Call) error {
	b, err := strictjson.Marshal(c)
	if err != nil {
		return err
	}
	before := "\n"
	if e.more {
		before = ",\n"
	}
	e.more = true
	return writeText(e.w, before+string(b))
}

func writeText(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

// csvExport writes one line per call, for spreadsheets.
type csvExport struct{ w *csv.Writer }

var exportColumns = []string{
	"finished_at", "proposed_at", "session_id", "reply_id", "tool_call_id", "tool_name", "summary", "agent", "runtime", "outcome", "verdict",
	"decision", "rule", "decided_by", "seconds_to_decision", "seconds", "attempts", "worker", "result_state", "input", "digest",
}

func (e *csvExport) begin() error { return e.w.Write(exportColumns) }

func (e *csvExport) end() error {
	e.w.Flush()
	return e.w.Error()
}

func (e *csvExport) call(c *toolcall.Call) error {
	word, _ := asked.Ended(c)
	var decision, rule, result, decided string
	if d := c.Decision; d != nil {
		decision, rule = string(d.Behavior), d.Rule
	}
	if c.Result != nil {
		result = string(c.Result.State)
	}
	var people []string
	for _, v := range c.Votes {
		people, decided = append(people, v.By.Name), seconds(v.At.Sub(c.ProposedAt))
	}
	cells := []string{
		c.UpdatedAt.UTC().Format(time.RFC3339Nano), c.ProposedAt.UTC().Format(time.RFC3339Nano), string(c.Session), string(c.Reply), string(c.Call), c.Tool, asked.Title(c), c.Agent, c.Runtime,
		word, verdictOf(c), decision, rule, strings.Join(people, "; "), decided, seconds(c.UpdatedAt.Sub(c.ProposedAt)), strconv.Itoa(c.Attempt.Number), c.Attempt.Worker, result, c.Input, c.Digest,
	}
	for i, cell := range cells {
		cells[i] = reveal.Cell(cell)
	}
	if err := e.w.Write(cells); err != nil {
		return err
	}
	e.w.Flush()
	return e.w.Error()
}

func seconds(d time.Duration) string { return strconv.FormatFloat(max(0, d).Seconds(), 'f', 3, 64) }
