package activity_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/engine/internal/activity"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// record is one event record of a call with these causes.
func record(at time.Time, id, tool, rule, agent string, state message.ToolCallState, causes ...toolcall.Cause) *toolcall.EventRecord {
	c := &toolcall.Call{
		Key: toolcall.Key{Session: "s", Reply: "r", Call: message.CallID(id)}, Tool: tool, Agent: agent, State: state,
		Decision: &toolcall.Decision{Rule: rule}, Result: &message.ToolResultBlock{State: message.ToolResultSuccess},
	}
	rec := &toolcall.EventRecord{Call: c, At: at, By: toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"}}
	for _, cause := range causes {
		rec.Path = append(rec.Path, toolcall.Step{Cause: string(cause)})
	}
	return rec
}

func report(t testing.TB, l *activity.Ledger, r toolcall.ActivityRequest, now time.Time) toolcall.ActivityReply {
	t.Helper()
	out, err := l.Report(r, now)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Tools that models invent or runtimes declare do not use up the places for names of the
// engine's tools.
func TestInventedToolsTakeNoNames(t *testing.T) {
	l := activity.New()
	finished := message.ToolCallFinished
	for i := range 3 * activity.MaxNames {
		rec := record(start, fmt.Sprint("c", i), fmt.Sprint("invented-", i), "", "bot", finished, toolcall.CausePropose, toolcall.CauseRefuse)
		rec.Call.Cause = string(toolcall.CauseRefuse)
		l.Record(rec)
		rec = record(start, fmt.Sprint("d", i), fmt.Sprint("declared-", i), "", "bot", finished, toolcall.CausePropose, toolcall.CauseDeny)
		rec.Call.Definition = &toolcall.DefinitionRef{Hash: "sha256:1"}
		l.Record(rec)
	}
	l.Record(record(start, "e", "pay", "large", "bot", message.ToolCallAsking, toolcall.CausePropose, toolcall.CauseAsk))
	bad := record(start, "f", "pay", "", "bot", finished, toolcall.CausePropose, toolcall.CauseRefuse) // its arguments are invalid
	bad.Call.Cause = string(toolcall.CauseRefuse)
	l.Record(bad)
	counts := map[string]int{}
	declared := 0
	for _, tool := range report(t, l, toolcall.ActivityRequest{}, start.Add(time.Hour)).ByTool {
		counts[tool.Name] = tool.Proposed
		if strings.HasPrefix(tool.Name, "declared-") {
			declared++
		}
	}
	if counts["pay"] != 2 || counts[activity.Other] != 6*activity.MaxNames-declared || declared != activity.MaxNames/2 || len(counts) != declared+2 {
		t.Errorf("pay %d, other %d, %d declared tools of %d", counts["pay"], counts[activity.Other], declared, len(counts))
	}
}

// The proposals of a rule are its decisions, wherever the calls were proposed. A call that is not
// decided counts under no rule.
func TestDecisionsCountByRule(t *testing.T) {
	l := activity.New()
	l.Record(record(start, "together", "pay", "large", "bot", message.ToolCallAsking, toolcall.CausePropose, toolcall.CauseAsk))
	for _, id := range []string{"apart", "undecided"} {
		rec := record(start, id, "pay", "", "bot", message.ToolCallPending, toolcall.CausePropose)
		rec.Call.Decision = nil
		l.Record(rec)
	}
	l.Record(record(start, "apart", "pay", "large", "bot", message.ToolCallAsking, toolcall.CauseAsk))
	got := report(t, l, toolcall.ActivityRequest{}, start.Add(time.Hour))
	want := []toolcall.ActivityShare{{Name: "large", ActivityCounts: toolcall.ActivityCounts{Proposed: 2, Asked: 2}}}
	if diff := cmp.Diff(want, got.ByRule); diff != "" || got.Total.Proposed != 3 {
		t.Errorf("%d proposals: %s", got.Total.Proposed, diff)
	}
}

// The median of a single time is exact; that of several is within their bucket.
func TestMedianOfFewTimes(t *testing.T) {
	l := activity.New()
	for i, wait := range []time.Duration{11 * time.Millisecond, 12 * time.Millisecond, 13 * time.Millisecond} {
		id := fmt.Sprint("c", i)
		l.Record(record(start, id, "pay", "large", "bot", message.ToolCallAsking, toolcall.CausePropose, toolcall.CauseAsk))
		l.Record(record(start.Add(wait), id, "pay", "large", "bot", message.ToolCallAllowed, toolcall.CauseApprove))
		got := report(t, l, toolcall.ActivityRequest{}, start.Add(time.Hour)).ToDecision.P50MS
		if want := []int64{11, 20, 30}[i]; got != want {
			t.Errorf("median of %d times: %d ms, want %d", i+1, got, want)
		}
	}
}

func TestLedgerCountsACall(t *testing.T) {
	l := activity.New()
	asking, finished := message.ToolCallAsking, message.ToolCallFinished
	l.Record(record(start, "c", "pay", "large", "bot", asking, toolcall.CausePropose, toolcall.CauseAsk))
	l.Record(record(start.Add(time.Second), "c", "pay", "large", "bot", asking, toolcall.CauseVote))
	l.Record(record(start.Add(61*time.Second), "c", "pay", "large", "bot", message.ToolCallAllowed, toolcall.CauseApprove))
	done := record(start.Add(90*time.Second), "c", "pay", "large", "bot", finished, toolcall.CauseResult)
	done.Call.Attempt = toolcall.Attempt{Worker: "wk", StartedAt: start.Add(80 * time.Second)}
	done.By = toolcall.Principal{Role: toolcall.RoleWorker, Name: "wk"}
	l.Record(done)
	late := record(start.Add(95*time.Second), "c", "pay", "large", "bot", finished, toolcall.CauseResult)
	late.Note = &toolcall.Note{What: "late_result"}
	l.Record(late)

	got := report(t, l, toolcall.ActivityRequest{Since: start, Until: start.Add(2 * time.Minute), StepMS: 60_000}, start.Add(time.Hour))
	want := []toolcall.ActivityBucket{
		{Start: start, ActivityCounts: toolcall.ActivityCounts{Proposed: 1, Asked: 1}},
		{Start: start.Add(time.Minute), ActivityCounts: toolcall.ActivityCounts{Approved: 1, Succeeded: 1}},
	}
	if diff := cmp.Diff(want, got.Buckets); diff != "" {
		t.Error(diff)
	}
	all := toolcall.ActivityCounts{Proposed: 1, Asked: 1, Approved: 1, Succeeded: 1}
	if diff := cmp.Diff(all, got.Total); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]toolcall.ActivityCell{{Tool: "pay", Rule: "large", ActivityCounts: all}}, got.ByToolAndRule); diff != "" {
		t.Error(diff)
	}
	if got.ToDecision.Count != 1 || got.ToDecision.SumMS != 61_000 || got.Run.SumMS != 10_000 || got.ByTool[0].Run.Count != 1 {
		t.Errorf("times: %+v, %+v", got.ToDecision, got.Run)
	}
	decision := toolcall.RecentDecision{Key: done.Call.Key, Tool: "pay", Agent: "bot", Verdict: toolcall.VerdictApprove, By: "ann", Rule: "large", At: start.Add(61 * time.Second), TookMS: 61_000}
	if diff := cmp.Diff([]toolcall.RecentDecision{decision}, got.Recent); diff != "" {
		t.Error(diff)
	}
	if none := report(t, l, toolcall.ActivityRequest{Tool: "other tool"}, start.Add(time.Hour)); none.Total != (toolcall.ActivityCounts{}) || len(none.Recent) != 0 {
		t.Errorf("another tool has %+v", none)
	}
}

// Each cause adds one to the expected count.
func TestLedgerCountsEveryCause(t *testing.T) {
	want := map[toolcall.Cause]toolcall.ActivityCounts{
		toolcall.CausePropose: {Proposed: 1}, toolcall.CauseRefuse: {Refused: 1}, toolcall.CauseDeny: {Denied: 1}, toolcall.CauseAsk: {Asked: 1},
		toolcall.CauseAllow: {Allowed: 1}, toolcall.CauseApprove: {Approved: 1}, toolcall.CauseReject: {Rejected: 1}, toolcall.CauseRespond: {Responded: 1},
		toolcall.CauseExpire: {Expired: 1}, toolcall.CauseStart: {Started: 1}, toolcall.CauseLose: {Retried: 1}, toolcall.CauseReturn: {Retried: 1},
		toolcall.CauseSuspend: {Blocked: 1}, toolcall.CauseResult: {Succeeded: 1}, toolcall.CauseResolve: {Succeeded: 1}, toolcall.CauseBypass: {Succeeded: 1},
		toolcall.CauseRevoke: {Revoked: 1}, toolcall.CauseInterrupt: {Interrupted: 1},
	}
	for _, row := range toolcall.Table() {
		l := activity.New()
		l.Record(record(start, "c", "pay", "", "", row.To, row.Cause))
		if diff := cmp.Diff(want[row.Cause], report(t, l, toolcall.ActivityRequest{}, start).Total); diff != "" {
			t.Errorf("%s: %s", row.Cause, diff)
		}
	}
	l := activity.New()
	rec := record(start, "c", "pay", "", "", message.ToolCallFinished, toolcall.CauseEdit, toolcall.CauseAllow, toolcall.CauseStart, toolcall.CauseResult)
	rec.Call.Result.State = message.ToolResultError
	l.Record(rec)
	if diff := cmp.Diff(toolcall.ActivityCounts{Approved: 1, Started: 1, Failed: 1}, report(t, l, toolcall.ActivityRequest{}, start).Total); diff != "" {
		t.Errorf("an edit that is allowed is an approval: %s", diff)
	}
}

// The counts by bucket, tool, rule and agent each have the same sum. Those by rule count decisions
// instead of proposals.
func TestLedgerSums(t *testing.T) {
	causes := []toolcall.Cause{toolcall.CausePropose, toolcall.CauseAllow, toolcall.CauseDeny, toolcall.CauseStart, toolcall.CauseResult}
	rapid.Check(t, func(t *rapid.T) {
		l := activity.New()
		for i := range rapid.IntRange(0, 60).Draw(t, "records") {
			at := start.Add(time.Duration(rapid.IntRange(0, 7200).Draw(t, "second")) * time.Second)
			name := func(of string) string { return fmt.Sprint(of, rapid.IntRange(0, 3).Draw(t, of)) }
			l.Record(record(at, fmt.Sprint(i), name("tool"), name("rule"), name("agent"), message.ToolCallFinished, rapid.SampledFrom(causes).Draw(t, "cause")))
		}
		r := toolcall.ActivityRequest{StepMS: 1000 * int64(rapid.IntRange(0, 90).Draw(t, "step"))}
		if rapid.Bool().Draw(t, "window") {
			r.Since, r.Until = start.Add(10*time.Minute), start.Add(15*time.Minute)
		} else if r.StepMS < 10_000 {
			r.StepMS = 0
		}
		out, err := l.Report(r, start.Add(2*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Buckets) > toolcall.MaxActivityBuckets || r.StepMS == 0 && len(out.Buckets) > 60 {
			t.Fatalf("%d buckets", len(out.Buckets))
		}
		sum := func(n int, at func(int) toolcall.ActivityCounts) (all [2]int) {
			for i := range n {
				c := at(i)
				all[0] += c.Proposed
				all[1] += c.Allowed + c.Denied + c.Started + c.Succeeded
			}
			return all
		}
		total := sum(1, func(int) toolcall.ActivityCounts { return out.Total })
		for what, got := range map[string][2]int{
			"buckets": sum(len(out.Buckets), func(i int) toolcall.ActivityCounts { return out.Buckets[i].ActivityCounts }),
			"tools":   sum(len(out.ByTool), func(i int) toolcall.ActivityCounts { return out.ByTool[i].ActivityCounts }),
			"rules":   sum(len(out.ByRule), func(i int) toolcall.ActivityCounts { return out.ByRule[i].ActivityCounts }),
			"agents":  sum(len(out.ByAgent), func(i int) toolcall.ActivityCounts { return out.ByAgent[i].ActivityCounts }),
			"cells":   sum(len(out.ByToolAndRule), func(i int) toolcall.ActivityCounts { return out.ByToolAndRule[i].ActivityCounts }),
		} {
			want := total
			if what == "rules" || what == "cells" {
				want[0] = out.Total.Decided()
			}
			if got != want {
				t.Fatalf("%s count %d, want %d", what, got, want)
			}
		}
	})
}

// Beyond the limits, new names are counted as other and the oldest events are forgotten, but
// the totals stay complete.
func TestLedgerIsBounded(t *testing.T) {
	l := activity.New()
	const n = activity.MaxEvents + 50_000
	at := start
	for i := range n {
		name := fmt.Sprint(i)
		rec := record(at, "c", name, name, name, message.ToolCallPending, toolcall.CauseDeny)
		if l.Record(rec); i%100 == 0 {
			at = at.Add(time.Second)
		}
	}
	out := report(t, l, toolcall.ActivityRequest{}, at)
	if out.Total.Denied != n || len(out.ByTool) != activity.MaxNames+1 || len(out.ByRule) != activity.MaxNames+1 || len(out.ByAgent) != activity.MaxNames+1 {
		t.Errorf("%d counted, of %d tools, %d rules, %d agents", out.Total.Denied, len(out.ByTool), len(out.ByRule), len(out.ByAgent))
	}
	for _, s := range out.ByRule {
		if want := 1; s.Name != activity.Other && s.Denied != want || s.Name == activity.Other && s.Denied != n-activity.MaxNames {
			t.Fatalf("%s has %d", s.Name, s.Denied)
		}
	}
	kept := 0
	for _, b := range out.Buckets {
		kept += b.Denied
	}
	if kept > activity.MaxEvents || kept < activity.MaxEvents-5000 || out.CompleteSince.Before(start.Add(400*time.Second)) {
		t.Errorf("%d events are kept, complete since %s", kept, out.CompleteSince)
	}
	if late := report(t, l, toolcall.ActivityRequest{Since: at.Add(-time.Minute)}, at); !late.CompleteSince.IsZero() {
		t.Errorf("the last minute is complete only since %s", late.CompleteSince)
	}
}

func TestReportRefuses(t *testing.T) {
	l := activity.New()
	for _, r := range []toolcall.ActivityRequest{
		{Since: start, Until: start}, {StepMS: 1500}, {StepMS: -1000}, {Recent: -1}, {Since: start.Add(-time.Hour), Until: start, StepMS: 1000},
	} {
		if _, err := l.Report(r, start); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	l := activity.New()
	rec := record(start, "c", "pay", "large", "bot", message.ToolCallFinished, toolcall.CausePropose, toolcall.CauseAllow, toolcall.CauseStart)
	b.ReportAllocs()
	for b.Loop() {
		l.Record(rec)
	}
}

func BenchmarkReport(b *testing.B) {
	l := activity.New()
	for i := range activity.MaxEvents {
		l.Record(record(start.Add(time.Duration(i)*time.Second), "c", fmt.Sprint("tool", i%40), fmt.Sprint("rule", i%7), "bot", message.ToolCallFinished, toolcall.CausePropose))
	}
	now := start.Add(activity.MaxEvents * time.Second)
	for name, since := range map[string]time.Time{"all": {}, "most": start.Add(time.Hour), "hour": now.Add(-time.Hour)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := l.Report(toolcall.ActivityRequest{Since: since}, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
