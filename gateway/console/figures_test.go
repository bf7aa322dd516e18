package console

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

func TestPeriod(t *testing.T) {
	now := time.Date(2026, 11, 23, 8, 15, 42, 0, time.UTC)
	for _, tc := range []struct {
		query, last  string
		since, until string
		step         time.Duration
		bad          bool
	}{
		{"", "24h", "2026-11-22T08:00:00Z", "2026-11-23T08:15:42Z", 30 * time.Minute, false},
		{"last=1h", "1h", "2026-11-23T07:15:00Z", "2026-11-23T08:15:42Z", time.Minute, false},
		{"last=30d", "30d", "2026-10-24T00:00:00Z", "2026-11-23T08:15:42Z", 12 * time.Hour, false},
		{"last=nonsense", "1h", "2026-11-23T07:15:00Z", "2026-11-23T08:15:42Z", time.Minute, false},
		{"from=2026-11-20T08:00&to=2026-11-20T08:30", "", "2026-11-20T08:00:00Z", "2026-11-20T08:30:00Z", time.Minute, false},
		{"from=2026-11-20T08:00:00Z", "", "2026-11-20T08:00:00Z", "2026-11-23T08:15:42Z", 2 * time.Hour, false},
		{"from=2026-11-20T08:00&to=2026-11-19T08:00", "24h", "2026-11-22T08:00:00Z", "2026-11-23T08:15:42Z", 30 * time.Minute, true},
		{"from=yesterday", "24h", "2026-11-22T08:00:00Z", "2026-11-23T08:15:42Z", 30 * time.Minute, true},
	} {
		q, err := url.ParseQuery(tc.query)
		if err != nil {
			t.Fatal(err)
		}
		p := periodOf(q, "/insights", "24h", now)
		if p.Last != tc.last || p.Since.Format(time.RFC3339) != tc.since || p.Until.Format(time.RFC3339) != tc.until || p.Step != tc.step || (p.Bad != "") != tc.bad {
			t.Errorf("%q is %+v", tc.query, p)
		}
		if err := p.request().Validate(); err != nil {
			t.Errorf("%q asks for %+v: %v", tc.query, p.request(), err)
		}
	}
}

// Names sort as people read them: case comes last.
func TestNamesSort(t *testing.T) {
	names := []string{"Zed", "bob", "Bob", "alice"}
	slices.SortFunc(names, compareNames)
	if !slices.Equal(names, []string{"alice", "Bob", "bob", "Zed"}) {
		t.Errorf("sorted: %q", names)
	}
}

// A column of a chart links to the calls of its time, and a cell to the calls of its tool.
func TestDrillDown(t *testing.T) {
	now := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	p := periodOf(url.Values{"last": {"1h"}}, "/", "1h", now)
	c := p.overTime("calls", "Calls", byPolicy, []toolcall.ActivityBucket{{Start: p.Since, ActivityCounts: toolcall.ActivityCounts{Asked: 2}}})
	asks := func(link string) toolcall.ListRequest {
		u, err := url.Parse(link)
		if err != nil || u.Path != "/history" {
			t.Fatalf("%s: %v", link, err)
		}
		r, err := historyFilterOf(u.Query()).request(now)
		if err != nil {
			t.Errorf("%s: %v", link, err)
		}
		return r
	}
	if r := asks(c.Columns[0].Href); !r.Since.Equal(p.Since) || !r.Until.Equal(p.Since.Add(time.Minute)) {
		t.Errorf("a column links to %s", c.Columns[0].Href)
	}
	var tool toolcall.ActivityTool
	tool.Name, tool.Rejected = "a&b", 1
	h := p.heat([]toolcall.ActivityTool{tool}, 5)
	for i, want := range [][]toolcall.Cause{nil, nil, {toolcall.CauseDeny}, nil, {toolcall.CauseReject}, {toolcall.CauseRespond}, {toolcall.CauseExpire}} {
		if r := asks(h.Rows[0].Hrefs[i]); r.Tool != "a&b" || !slices.Equal(r.Outcomes, want) || !r.Since.Equal(p.Since) {
			t.Errorf("cell %d links to %s", i, h.Rows[0].Hrefs[i])
		}
	}
}

// The median and the 90th percentile are marked among the columns of a distribution.
func TestDistribution(t *testing.T) {
	times := toolcall.ActivityTimes{Count: 10, P50MS: 1500, P90MS: 45000}
	for i, up := range []int64{10, 100, 1000, 2000, 5000, 10000, 30000, 60000, 0} {
		n := 0
		if i == 3 || i == 7 {
			n = 5
		}
		times.Buckets = append(times.Buckets, toolcall.ActivityUpTo{UpToMS: up, Count: n})
	}
	c := distribution("d", "Time to decision", "approved", "requests", times)
	width := 100 / float64(len(c.Columns))
	at := func(label string) int {
		for i, col := range c.Columns {
			if col.Label == label {
				return i
			}
		}
		return -1
	}
	if len(c.Marks) != 2 || c.Marks[0].Label != "median 1.5s" || c.Marks[1].Label != "90% 45s" || int(c.Marks[0].At/width) != at("≤ 2s") || int(c.Marks[1].At/width) != at("≤ 1m") {
		t.Errorf("the marks are %+v among %+v", c.Marks, c.Columns)
	}
	if c := distribution("d", "Time", "approved", "requests", toolcall.ActivityTimes{}); !c.Empty() || len(c.Columns) != 0 {
		t.Errorf("an empty distribution is shown as %+v", c)
	}
}

// The charts of open requests show the engine's counts, next to the requests that expire first.
func TestOpenByDeadline(t *testing.T) {
	now := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	v := overviewView{shell: shell{Now: now}}
	v.addOpen(toolcall.ActivityOpen{Requests: 7, ByAge: []toolcall.ActivityOpenUpTo{{UpToMS: 60_000, Urgent: 1}, {Later: 2, NoDeadline: 4}}, ByTimeLeft: []toolcall.ActivityOpenUpTo{{UpToMS: 14_400_000, Urgent: 1}, {Later: 2, NoDeadline: 4}}})
	if c := v.Left.Columns; v.Asking != 7 || v.Urgent != 1 || len(c) != 2 || c[0].Label != "< 4h" || c[1].Label != "more" || c[1].Sum() != 6 || v.Age.Columns[0].Label != "< 1m" {
		t.Errorf("%d requests, %d urgent, in %+v", v.Asking, v.Urgent, c)
	}
	call := func(ends time.Duration) *toolcall.Call {
		c := &toolcall.Call{Request: &toolcall.ApprovalRequest{}}
		if ends != 0 {
			c.Request.Requirement.Deadline = now.Add(ends)
		}
		return c
	}
	v.addDue([]*toolcall.Call{call(4 * time.Minute), call(3 * time.Hour), call(0)})
	if d := v.Due; !d[0].Urgent || d[1].Urgent || d[2].Urgent || !d[2].Ends.IsZero() {
		t.Errorf("the requests that expire first are %+v", d)
	}
}

// The table by rule counts decisions.
func TestDecisionsOfRules(t *testing.T) {
	v := insightsView{query: url.Values{}}
	table := v.shares("rule", "By rule", "Rule", []toolcall.ActivityShare{{Name: "a", ActivityCounts: toolcall.ActivityCounts{Asked: 2}}, {Name: "b", ActivityCounts: toolcall.ActivityCounts{Allowed: 3, Denied: 4, Refused: 1}}}, nil)
	if rows := table.Rows; len(rows) != 2 || rows[0].Name != "b" || rows[0].Counts.Decided() != 8 || rows[1].Counts.Decided() != 2 || table.Heads[1].Label != "Decisions" {
		t.Errorf("the table is %+v", table)
	}
}

// A table is sorted by the column in the address. Each heading links to the opposite order, or to
// sorting by its own column.
func TestSortRows(t *testing.T) {
	rows := func() []toolcall.ActivityShare {
		return []toolcall.ActivityShare{{Name: "b", ActivityCounts: toolcall.ActivityCounts{Allowed: 1, Failed: 7}}, {Name: "a", ActivityCounts: toolcall.ActivityCounts{Asked: 9}}, {Name: "c", ActivityCounts: toolcall.ActivityCounts{Denied: 5, Failed: 1}}}
	}
	for query, want := range map[string]string{"": "a c b", "sort_rule=-decisions": "b c a", "sort_rule=rule": "a b c", "sort_rule=-rule": "c b a", "sort_rule=failed": "b c a", "sort_rule=colour": "a c b", "sort_rule=policy": "a c b", "sort_tool=rule": "a c b"} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		all := rows()
		heads := sortRows(pathInsights, q, "rule", all, sharesBy("Rule", nil), 1)
		var names, sorted []string
		for _, s := range all {
			names = append(names, s.Name)
		}
		for _, h := range heads {
			if h.Aria != "" {
				sorted = append(sorted, h.Label+" "+h.Aria)
			}
			if (h.Href == "") != (h.Label == "Policy" || h.Label == "Responses") {
				t.Errorf("the heading %s links to %q", h.Label, h.Href)
			}
		}
		if got := strings.Join(names, " "); got != want || len(sorted) != 1 {
			t.Errorf("%q: %s, sorted by %v; want %s", query, got, sorted, want)
		}
	}
	q, _ := url.ParseQuery("last=7d&sort_rule=-rule")
	if h := sortRows(pathInsights, q, "rule", rows(), sharesBy("Rule", nil), 1); h[0].Aria != "descending" || h[0].Href != "/insights?last=7d&sort_rule=rule" || h[1].Href != "/insights?last=7d&sort_rule=decisions" {
		t.Errorf("the headings are %+v", h)
	}
}

// The table of rules is sorted in the same way, and links to rules keep the order.
func TestSortRules(t *testing.T) {
	for query, want := range map[string]string{"": "b a C", "sort_rules=rule": "a b C", "sort_rules=-rule": "C b a", "sort_rules=verdict": "a C b", "sort_rules=where": "C b a"} {
		q, _ := url.ParseQuery(query)
		var v policyView
		v.Status.ByRule = []api.PolicyRuleCount{
			{Rule: "b", Behavior: message.BehaviorAllow, Decided: 9, File: "x", Line: 7}, {Rule: "a", Behavior: message.BehaviorDeny, Decided: 3, File: "y", Line: 1}, {Rule: "C", Behavior: message.BehaviorAsk, File: "x", Line: 2},
		}
		v.addRules(q)
		var names, sorted []string
		for _, r := range v.Rules {
			names = append(names, r.Rule)
		}
		for _, h := range v.Heads {
			if h.Aria != "" {
				sorted = append(sorted, h.Label+" "+h.Aria)
			}
		}
		if got := strings.Join(names, " "); got != want || len(sorted) != 1 {
			t.Errorf("%q: %s, sorted by %v; want %s", query, got, sorted, want)
		}
		if query == "sort_rules=verdict" && (sorted[0] != "Verdict descending" || v.Heads[1].Href != "/policy?sort_rules=-verdict") {
			t.Errorf("deny first is announced as %s, and the heading links to %s", sorted, v.Heads[1].Href)
		}
		if query == "sort_rules=rule" && (v.Heads[0].Aria != "ascending" || v.Heads[0].Href != "/policy?sort_rules=-rule" || v.Rules[0].Href != "/policy?rule=a&sort_rules=rule#rule") {
			t.Errorf("the headings are %+v, and the rule links to %s", v.Heads, v.Rules[0].Href)
		}
	}
}
