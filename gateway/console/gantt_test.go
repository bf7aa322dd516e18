package console

import (
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"pgregory.net/rapid"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// historyOf returns a call with these steps: seconds, role of the actor, and causes.
func historyOf(id message.CallID, steps ...string) toolcall.ShowReply {
	c := &toolcall.Call{Key: toolcall.Key{Space: "s", Session: "s1", Reply: "r1", Call: id}, Tool: "pay", State: message.ToolCallPending}
	to := map[string]message.ToolCallState{
		"propose": message.ToolCallPending, "ask": message.ToolCallAsking, "vote": message.ToolCallAsking, "allow": message.ToolCallAllowed, "approve": message.ToolCallAllowed,
		"submit": message.ToolCallSubmitted, "start": message.ToolCallSubmitted, "lose": message.ToolCallSubmitted, "offer": message.ToolCallSubmitted, "suspend": message.ToolCallSubmitted,
		"result": message.ToolCallFinished, "reject": message.ToolCallFinished, "deny": message.ToolCallFinished, "revoke": message.ToolCallFinished,
	}
	out := toolcall.ShowReply{Call: c}
	attempt := 0
	for _, s := range steps {
		f := strings.Fields(s)
		after, _ := time.ParseDuration(f[0])
		h := toolcall.HistoryEntry{At: began.Add(after), By: toolcall.Principal{Role: toolcall.Role(f[1]), Name: f[2]}}
		for _, cause := range f[3:] {
			h.Path = append(h.Path, toolcall.Step{Cause: cause, From: c.State, To: to[cause]})
			if c.State, c.Cause = to[cause], cause; cause == "submit" || cause == "offer" {
				attempt++
			}
			if cause == "start" {
				h.Worker = f[2]
			}
		}
		h.Attempt = attempt
		out.History = append(out.History, h)
	}
	return out
}

// A history is divided into spans by the state of the call: two votes belong to one wait, each
// attempt is a separate run, and the last span of an open call ends now.
func TestSpans(t *testing.T) {
	show := historyOf("c1", "0s runtime bot propose ask", "4s approver ann vote", "10s approver bob approve submit", "11s worker w1 start",
		"20s engine e lose offer", "21s worker w2 start", "25s worker w2 result")
	spans, marks := spansOf(show, began.Add(time.Hour))
	var got []string
	for _, s := range spans {
		got = append(got, s.Word()+" "+asked.Took(s.To.Sub(s.From))+" "+s.Who)
	}
	want := "Waiting for approval 10s bob|Queued 1s |Running 9s worker w1|Queued 1s |Running (attempt 2) 4s worker w2"
	if text := strings.Join(got, "|"); text != want {
		t.Errorf("the spans are\n%s, want\n%s", text, want)
	}
	people := 0
	for _, m := range marks {
		if m.Person {
			people++
		}
	}
	if people != 2 {
		t.Errorf("%d marks of people: %+v", people, marks)
	}
	spans, _ = spansOf(historyOf("c1", "0s runtime bot propose ask"), began.Add(time.Minute))
	if len(spans) != 1 || !spans[0].Open || spans[0].To.Sub(spans[0].From) != time.Minute {
		t.Errorf("an open request is %+v", spans)
	}
	if spans, marks := spansOf(historyOf("c1", "0s runtime bot propose deny"), began); len(spans) != 0 || len(marks) != 2 || marks[1].Who != "policy" {
		t.Errorf("a denied call has %+v and %+v", spans, marks)
	}
}

// An external call runs from its begin, or, if its runtime only reports a result, from its
// permission; one that never ran does not.
func TestSpansOfExternalCalls(t *testing.T) {
	for _, tt := range []struct{ rest, want string }{
		{"2s runtime bot start|5s runtime bot result", "queue run"}, {"5s runtime bot result", "run"}, {"5s operator olga revoke", "queue"},
	} {
		show := historyOf("c1", append([]string{"0s runtime bot propose allow submit"}, strings.Split(tt.rest, "|")...)...)
		show.Call.Placement = toolcall.PlaceExternal
		if strings.Contains(tt.rest, "start") {
			show.Call.Attempt.Claim = "x"
		}
		var got []string
		spans, _ := spansOf(show, began.Add(time.Minute))
		for _, s := range spans {
			got = append(got, s.Kind)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: the spans are %v, want %s", tt.rest, got, tt.want)
		}
	}
}

// For any calls, bars are inside the chart and in chronological order, and a time without an open
// call takes up at most a small part of the width.
func TestGanttLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var calls []ganttCall
		for range rapid.IntRange(1, 8).Draw(t, "calls") {
			var c ganttCall
			at := began.Add(time.Duration(rapid.Int64Range(0, 1e6).Draw(t, "start")) * time.Millisecond)
			for range rapid.IntRange(0, 4).Draw(t, "spans") {
				to := at.Add(time.Duration(rapid.Int64Range(0, 1e5).Draw(t, "length")) * time.Millisecond)
				c.spans = append(c.spans, span{Kind: "run", From: at, To: to})
				at = to
			}
			c.marks = append(c.marks, mark{At: at, Person: true})
			calls = append(calls, c)
		}
		g := drawGantt("chart", calls, rapid.Bool().Draw(t, "compact"))
		const most = 100.001
		for _, r := range g.Rows {
			at := -0.001
			for _, b := range r.Bars {
				if b.X < at-0.001 || b.W < 0 || b.X+b.W > most {
					t.Fatalf("a bar begins at %g with the width %g, after %g", b.X, b.W, at)
				}
				at = b.X + b.W
			}
			for _, d := range r.Dots {
				if d.X < 0 || d.X > most {
					t.Fatalf("a dot is outside the chart, at %g", d.X)
				}
			}
		}
		for i, tick := range g.Ticks {
			if i > 0 && tick.X-g.Ticks[i-1].X < 100/mostTicks {
				t.Fatalf("ticks are too close: %v", g.Ticks)
			}
		}
	})
	day := drawGantt("chart", []ganttCall{{spans: []span{{Kind: "run", From: began, To: began.Add(time.Second)}}}, {spans: []span{{Kind: "run", From: began.Add(24 * time.Hour), To: began.Add(24*time.Hour + time.Second)}}}}, false)
	if w := day.Rows[0].Bars[0].W; w < 45 || len(day.Breaks) != 1 {
		t.Errorf("the first of two calls with a day between them takes %g percent, with %d breaks", w, len(day.Breaks))
	}
}
