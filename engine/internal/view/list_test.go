package view

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var someTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// asking is an open approval request.
func asking(i int, session, tool, agent, rule string, ends time.Time) *toolcall.Call {
	c := &toolcall.Call{
		Key:  toolcall.Key{Space: "x", Session: message.SessionID(session), Reply: "r", Call: message.CallID(fmt.Sprint("call_", i))},
		Tool: tool, Agent: agent, Runtime: "bot", State: message.ToolCallAsking, Input: fmt.Sprintf(`{"order":"A-%d"}`, i),
		Decision: &toolcall.Decision{Rule: rule}, Request: &toolcall.ApprovalRequest{Text: "May it run?"},
		ProposedAt: someTime.Add(time.Duration(i) * time.Second), Records: 1,
	}
	c.Request.Requirement.Deadline = ends
	c.Request.Requirement.Approvers = []toolcall.ApproverSet{{Rule: rule, Groups: []string{"finance"}}}
	return c
}

func help(mine func(*toolcall.Call) bool) Help {
	return Help{Mark: func(c *toolcall.Call) *toolcall.Call { return c }, Line: func(_, shown *toolcall.Call) string { return shown.Tool + " " + shown.Input }, Mine: mine}
}

var auditor = toolcall.Principal{Role: toolcall.RoleAuditor, Name: "a"}

func listed(t interface{ Fatal(...any) }, v *View, by toolcall.Principal, r toolcall.ListRequest, h Help) (toolcall.ListReply, int) {
	r.Limit = cmp.Or(r.Limit, 500)
	l, err := NewList(by, r, h)
	if err != nil {
		t.Fatal(err)
	}
	var sessions []toolcall.Key
	if r.Session != "" {
		r.Sessions = []message.SessionID{r.Session}
	}
	if r.Session != "" || !WantsFinished(r) {
		for _, s := range r.Sessions {
			sessions = append(sessions, toolcall.Key{Space: "x", Session: s})
		}
	}
	v.List(l, sessions...)
	return l.Reply(), l.Visited
}

// A list of 100,000 open requests visits only the calls that it returns, or, if a condition
// must be checked for each call, the calls that meet the other conditions.
func TestManyOpen(t *testing.T) {
	const many = 100_000 / slower
	v := New(10)
	for i := range many {
		agent := fmt.Sprint("agent", i%7)
		if i%1000 == 0 {
			agent = "rare"
		}
		c := asking(i, fmt.Sprint("s", i/10), fmt.Sprint("tool", i%5), agent, fmt.Sprint("rule", i%11), someTime.Add(time.Duration(i*7919%many)*time.Minute))
		if c.Tool == "tool4" {
			c.Redact = []string{"args.order"}
		}
		v.Apply(&toolcall.EventRecord{Call: c}, uint64(i+1))
	}
	v.ReachSequence(many)
	mine := func(c *toolcall.Call) bool { return c.Agent == "rare" || c.Tool == "tool1" }
	for _, row := range []struct {
		name  string
		r     toolcall.ListRequest
		calls int
		most  int // calls looked at
	}{
		{"all", toolcall.ListRequest{}, 500, 501},
		{"by deadline", toolcall.ListRequest{Sort: toolcall.SortDeadline, Limit: 100}, 100, 101},
		{"newest", toolcall.ListRequest{Sort: toolcall.SortAge, Limit: 100}, 100, 101},
		{"by tool", toolcall.ListRequest{Sort: "-" + toolcall.SortTool, Limit: 100}, 100, 101},
		{"by agent", toolcall.ListRequest{Sort: toolcall.SortAgent, Limit: 100}, 100, 101},
		{"what changed", toolcall.ListRequest{Sort: toolcall.SortChanged, After: many - 3}, 3, 3},
		{"counts", toolcall.ListRequest{Limit: 1}, 1, 2},
		{"a rare agent", toolcall.ListRequest{Agents: []string{"rare"}, Sort: toolcall.SortDeadline}, many / 1000, many / 1000},
		{"tool and rule", toolcall.ListRequest{Tools: []string{"tool1"}, Rules: []string{"rule1"}, Limit: 100}, 100, 101},
		{"another phase", toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseBlocked}}, 0, 0},
		{"a session", toolcall.ListRequest{Session: "s77", Sort: toolcall.SortDeadline}, 10, 10},
		{"a call", toolcall.ListRequest{Session: "s77", Reply: "r", Call: "call_770"}, 1, 1},
		{"mine", toolcall.ListRequest{Mine: true, Sort: toolcall.SortDeadline, Limit: 100}, 100, 101},
		{"words of few", toolcall.ListRequest{Words: "a-7777"}, 1 + many/12_000, many}, // and two that are hidden
		{"words of many", toolcall.ListRequest{Words: "ORDER", Sort: toolcall.SortDeadline, Limit: 100}, 100, many},
		{"words of a tool", toolcall.ListRequest{Words: "order", Tools: []string{"tool2"}, Limit: 100}, 100, many / 5},
		{"words of none", toolcall.ListRequest{Words: "nothing"}, 0, many},
		{"since", toolcall.ListRequest{Since: someTime.Add((many - 20) * time.Second)}, 20, many},
		{"since long", toolcall.ListRequest{Since: someTime, Sort: toolcall.SortDeadline, Limit: 100}, 100, many},
		{"by", toolcall.ListRequest{By: "ann"}, 0, many},
		{"one id", toolcall.ListRequest{Call: "call_99"}, 1, many},
		{"sessions", toolcall.ListRequest{Sessions: []message.SessionID{"s7", "s8"}}, 20, 20},
		{"results", toolcall.ListRequest{Results: []message.ToolResultState{message.ToolResultError}}, 0, 0},
		{"outcomes", toolcall.ListRequest{Outcomes: []toolcall.Cause{toolcall.CauseDeny}}, 0, 0},
	} {
		best := time.Hour
		for range 3 {
			before := processorTime()
			out, visited := listed(t, v, auditor, row.r, help(mine))
			best = min(best, processorTime()-before)
			if len(out.Calls) != row.calls || visited > row.most {
				t.Errorf("%s: %d calls, and %d were looked at; want %d and at most %d", row.name, len(out.Calls), visited, row.calls, row.most)
			}
		}
		t.Logf("%-16s %6d µs", row.name, best.Microseconds())
		most := 50 * time.Millisecond * slower
		if row.most >= 1000 { // visiting every call takes about 30 ms, and longer if other processes use the memory
			most *= 4
		}
		if best > most {
			t.Errorf("%s takes %v of processor time, want at most %v", row.name, best, most)
		}
	}
}

// The first search builds no text that PrepareSearch has already built, and finds the same calls.
func TestPrepareSearch(t *testing.T) {
	v := New(10)
	for i := range 250 {
		v.Apply(&toolcall.EventRecord{Call: asking(i, "s", "tool", "agent", "rule", someTime)}, uint64(i+1))
	}
	built := 0
	counting := help(nil)
	counting.Line = func(_, shown *toolcall.Call) string { built++; return "line of " + string(shown.Call) }
	search := func() (calls, texts int) {
		built = 0
		out, _ := listed(t, v, auditor, toolcall.ListRequest{Words: "line call_24"}, counting)
		return len(out.Calls), built
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if v.PrepareSearch(ended, counting.Line); built != 0 {
		t.Errorf("%d texts were built after the engine was stopped", built)
	}
	if v.PrepareSearch(t.Context(), counting.Line); built != 250 {
		t.Errorf("%d texts were built, want 250", built)
	}
	if calls, texts := search(); calls != 11 || texts != 0 {
		t.Errorf("the first search finds %d calls and builds %d texts, want 11 and 0", calls, texts)
	}
	v.Apply(&toolcall.EventRecord{Call: asking(241, "s", "tool", "agent", "rule2", someTime)}, 251)
	if calls, texts := search(); calls != 11 || texts != 1 {
		t.Errorf("after a change a search finds %d calls and builds %d texts, want 11 and 1", calls, texts)
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Any list, read page by page, has the calls that a look at every call finds, in the requested
// order, with correct counts.
func TestListsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := New(5)
		pick := func(name string, n int) string { return fmt.Sprint(name, rapid.IntRange(0, n-1).Draw(t, name)) }
		now := map[toolcall.Key]*toolcall.Call{}
		seq := uint64(0)
		for i := range rapid.IntRange(0, 60).Draw(t, "records") {
			seq++
			var c *toolcall.Call
			isOpen := func(k toolcall.Key) bool { return now[k].Open() }
			known := slices.SortedFunc(maps.Keys(now), toolcall.Key.Compare)
			known = slices.DeleteFunc(known, func(k toolcall.Key) bool { return !isOpen(k) })
			if len(known) > 0 && rapid.Bool().Draw(t, "change") {
				c = now[known[rapid.IntRange(0, len(known)-1).Draw(t, "which")]].Clone()
				c.Records++
				switch pick("to", 5) {
				case "to0":
					c.State = message.ToolCallFinished
				case "to1":
					c.State = message.ToolCallAllowed
				case "to2":
					c.State, c.Blocked = message.ToolCallSubmitted, toolcall.BlockedUnknown
				case "to3":
					c.Votes = append(slices.Clip(c.Votes), toolcall.Vote{By: toolcall.Principal{Name: pick("person", 2)}})
				default:
					req := *c.Request
					req.Requirement.Deadline = someTime.Add(time.Duration(rapid.IntRange(1, 9).Draw(t, "later")) * time.Hour)
					c.Request = &req
				}
			} else {
				var ends time.Time
				if n := rapid.IntRange(0, 4).Draw(t, "ends"); n > 0 {
					ends = someTime.Add(time.Duration(n) * time.Hour)
				}
				agent := strings.TrimSuffix(pick("agent", 3), "agent0")
				c = asking(i, pick("s", 3), pick("tool", 3), agent, pick("rule", 2), ends)
			}
			now[c.Key] = c
			v.Apply(&toolcall.EventRecord{Call: c, Path: []toolcall.Step{{}}}, seq)
		}
		reached := seq - min(seq, uint64(rapid.IntRange(0, 3).Draw(t, "not yet delivered")))
		v.ReachSequence(reached)
		for key := range now {
			if v.calls[key] == nil {
				delete(now, key) // forgotten
			}
		}
		at := someTime.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "minutes")) * time.Minute)
		if got, want := CountOpen(v, at), countOpen(now, at); !reflect.DeepEqual(got, want) {
			t.Fatalf("open at %v are\n%+v, want\n%+v", at, got, want)
		}
		r := toolcall.ListRequest{Sort: rapid.SampledFrom(append(toolcall.Sorts(), "", "-deadline", "-age", "-tool", "-agent", "-proposed", "-changed")).Draw(t, "sort"), Limit: rapid.IntRange(1, 9).Draw(t, "limit")}
		some := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
		if some("of a tool") {
			r.Tools = []string{pick("tool", 3)}
		}
		if some("of an agent") {
			r.Agents = []string{pick("agent", 3)}
		}
		if some("of a session") {
			r.Session = message.SessionID(pick("s", 3))
		}
		if some("with words") {
			r.Words = fmt.Sprint("a-", rapid.IntRange(0, 9).Draw(t, "word"))
		}
		if some("of phases") {
			r.Phases = []toolcall.Phase{rapid.SampledFrom(toolcall.Phases()).Draw(t, "phase")}
		}
		if r.Session != "" && WantsFinished(r) { // engines read it from the journal, because the view forgets
			r.Session = ""
		}
		r.Mine, r.All = some("mine"), r.Session == "" && some("all")
		mine := help(func(c *toolcall.Call) bool {
			return c.Tool == "tool1" && !slices.ContainsFunc(c.Votes, func(v toolcall.Vote) bool { return v.By.Name == "person1" })
		})
		l, err := NewList(auditor, r, mine)
		if err != nil {
			t.Fatal(err)
		}
		var want []*toolcall.Call
		counts := map[toolcall.Phase]int{}
		for _, c := range now {
			if l.meetsRequest(c) {
				counts[c.Phase()]++
			}
			if l.Has(c) && (r.Sort != toolcall.SortChanged || c.Seq <= reached) {
				want = append(want, c)
			}
		}
		slices.SortFunc(want, func(a, b *toolcall.Call) int { return inOrder(r.Sort, a, b) })
		var got []*toolcall.Call
		for n := 0; ; n++ {
			page, _ := listed(t, v, auditor, r, mine)
			if n == 0 && !maps.Equal(page.Counts, counts) && (r.Sort != toolcall.SortChanged || reached == seq) {
				t.Fatalf("%+v has the counts %v, want %v", r, page.Counts, counts)
			}
			if got = append(got, page.Calls...); page.Next == 0 && page.Cursor == "" {
				break
			}
			r.After, r.Cursor = page.Next, page.Cursor
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v has %v, want %v", r, ids(got), ids(want))
		}
	})
}

// countOpen computes CountOpen by looking at every call.
func countOpen(calls map[toolcall.Key]*toolcall.Call, now time.Time) (out toolcall.ActivityOpen) {
	for _, d := range openBounds {
		b := toolcall.ActivityOpenUpTo{UpToMS: d.Milliseconds()}
		out.ByAge, out.ByTimeLeft = append(out.ByAge, b), append(out.ByTimeLeft, b)
	}
	at := func(of []toolcall.ActivityOpenUpTo, d time.Duration) *toolcall.ActivityOpenUpTo {
		return &of[slices.IndexFunc(openBounds, func(b time.Duration) bool { return b == 0 || d < b })]
	}
	for _, c := range calls {
		if c.State != message.ToolCallAsking {
			continue
		}
		out.Requests++
		age, end := at(out.ByAge, now.Sub(c.ProposedAt)), c.Request.Requirement.Ends()
		switch left := end.Sub(now); {
		case end.IsZero():
			age.NoDeadline++
			out.ByTimeLeft[len(openBounds)-1].NoDeadline++
		case left < toolcall.Urgent:
			age.Urgent++
			at(out.ByTimeLeft, left).Urgent++
		default:
			age.Later++
			at(out.ByTimeLeft, left).Later++
		}
	}
	return out
}

func ids(calls []*toolcall.Call) (out []message.CallID) {
	for _, c := range calls {
		out = append(out, c.Call)
	}
	return out
}

// inOrder compares calls as documented: a call without a value comes last.
func inOrder(sort string, a, b *toolcall.Call) int {
	name, down := strings.CutPrefix(sort, "-")
	by, none := 0, 0
	switch name {
	case toolcall.SortAge:
		down = !down
	case toolcall.SortDeadline:
		x, y := endOf(a), endOf(b)
		by, none = cmp.Compare(x, y), cmp.Compare(min(1, y), min(1, x))
	case toolcall.SortTool:
		by = cmp.Compare(a.Tool, b.Tool)
	case toolcall.SortAgent:
		by, none = cmp.Compare(a.Agent, b.Agent), cmp.Compare(min(1, len(b.Agent)), min(1, len(a.Agent)))
	case toolcall.SortChanged:
		by = cmp.Compare(a.Seq, b.Seq)
	}
	by = cmp.Or(by, cmp.Compare(a.First, b.First))
	if down {
		by = -by
	}
	return cmp.Or(none, by)
}

// If the engines' clocks differ, requests that are older by their times than by their order
// in the journal are still counted once, and no figure is negative.
func TestCountOpenWithOtherClocks(t *testing.T) {
	v, now := New(10), someTime.Add(2*time.Hour)
	for i, ago := range []time.Duration{time.Second, 90 * time.Minute, time.Hour, 2 * time.Second} {
		c := asking(i, "s", "t", "", "r", now.Add(time.Second))
		c.ProposedAt = now.Add(-ago)
		v.Apply(&toolcall.EventRecord{Call: c, Path: []toolcall.Step{{}}}, uint64(1+i))
	}
	urgent := 0
	for _, b := range CountOpen(v, now).ByAge {
		if urgent += b.Urgent; b.Later != 0 || b.NoDeadline != 0 {
			t.Errorf("counted %+v", b)
		}
	}
	if urgent != 4 {
		t.Errorf("%d requests are urgent, want 4", urgent)
	}
}

// TestByOnePerson: names that differ only in case are one person, here as where votes count.
func TestByOnePerson(t *testing.T) {
	l, err := NewList(auditor, toolcall.ListRequest{By: "Ann"}, Help{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"ann": true, "anna": false} {
		c := &toolcall.Call{Votes: []toolcall.Vote{{By: toolcall.Principal{Role: toolcall.RoleApprover, Name: name}}}}
		if got := l.meetsRequest(c); got != want {
			t.Errorf("a call with a vote of %s: %v", name, got)
		}
	}
}
