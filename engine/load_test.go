package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// busy returns an engine whose approval requests ask people, groups, any approver, or more
// people after an hour.
func busy(t *testing.T, journal *engine.Memory, keep int) *engine.Engine {
	t.Helper()
	ask := func(name string, change func(*permission.Rule)) permission.Rule {
		r := permission.Rule{Name: name, Tools: []string{name}, Behavior: message.BehaviorAsk}
		change(&r)
		return r
	}
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{
		ask("named", func(r *permission.Rule) { r.Approvers.Users = []string{"ann", "bob"} }),
		ask("group", func(r *permission.Rule) { r.Approvers.Groups, r.Quorum = []string{"ops"}, 2 }),
		ask("later", func(r *permission.Rule) {
			r.Approvers.Users = []string{"ann"}
			r.Escalation = []permission.Escalation{{After: time.Hour, To: permission.Approvers{Groups: []string{"ops", "boss"}}}}
			r.Expiry = 3 * time.Hour
		}),
		ask("anyone", func(*permission.Rule) {}),
	}}, permission.Options{Enforced: engine.Duties()})
	if err != nil {
		t.Fatal(err)
	}
	var tools []engine.Tool
	for _, name := range []string{"named", "group", "later", "anyone"} {
		tools = append(tools, engine.Tool{Tool: permission.Tool{Name: name}, Placement: toolcall.PlaceExternal, ConcurrencySafe: true})
	}
	e, err := engine.New("default", journal, policy, tools, engine.WithDirectory(engine.StaticDirectory{"bob": {"ops"}, "eve": {"ops", "boss"}, "joe": {"ops", "other"}}))
	if err != nil {
		t.Fatal(err)
	}
	e.KeepResponses(keep)
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// given is one answer as recorded.
type given struct {
	who    string
	groups []string
	kind   toolcall.ResponseKind
	at     time.Time
	took   time.Duration
}

// responsesOf returns the answers in the event records, call by call, and the approval requests
// that are open at the end.
func responsesOf(records []*toolcall.EventRecord) (out []given, open []*toolcall.Call) {
	calls := map[toolcall.Key][]*toolcall.EventRecord{}
	for _, rec := range records {
		if rec.Call != nil && rec.Note == nil {
			calls[rec.Call.Key] = append(calls[rec.Call.Key], rec)
		}
	}
	for _, story := range calls {
		var since time.Time
		for i, rec := range story {
			if i > 0 && story[i-1].Call.State == message.ToolCallAsking {
				before := story[i-1].Call
				for _, v := range rec.Call.Votes[len(before.Votes):] {
					out = append(out, given{v.By.Name, groupsAsked(before.Request.Requirement, v), v.Kind, v.At, v.At.Sub(since)})
				}
			}
			if rec.Call.State == message.ToolCallAsking && (i == 0 || story[i-1].Call.State != message.ToolCallAsking || story[i-1].Call.Digest != rec.Call.Digest) {
				since = rec.At
			}
		}
		if last := story[len(story)-1].Call; last.State == message.ToolCallAsking {
			open = append(open, last)
		}
	}
	return out, open
}

// groupsAsked returns the groups of a voter that the approval request asked at that time.
func groupsAsked(r toolcall.Requirement, v toolcall.Vote) []string {
	asked := map[string]bool{}
	for _, set := range r.Approvers {
		for _, g := range set.Groups {
			asked[g] = true
		}
		for _, e := range set.Escalation {
			for _, g := range e.Groups {
				asked[g] = asked[g] || !v.At.Before(e.At)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(v.Groups), func(g string) bool { return !asked[g] })
}

// loadOf computes the load of one name naively: with plain sums and the exact median.
func loadOf(name string, all []given, has func(given) bool) toolcall.ReviewerLoad {
	out := toolcall.ReviewerLoad{Name: name}
	var took []time.Duration
	for _, g := range all {
		if !has(g) {
			continue
		}
		switch g.kind {
		case toolcall.ResponseApprove:
			out.Approved++
		case toolcall.ResponseReject:
			out.Rejected++
		case toolcall.ResponseRespond:
			out.Responded++
		default:
			out.Passed++
			continue
		}
		out.Answered++
		out.TotalMS += g.took.Milliseconds()
		if g.took <= 2*time.Second {
			out.Within2S++
		}
		took = append(took, g.took)
	}
	if len(took) > 0 {
		slices.Sort(took)
		out.MedianMS = took[(len(took)-1)/2].Milliseconds()
	}
	return out
}

// naive returns the load of people and groups by name within a window.
func naive(records []*toolcall.EventRecord, since, until, now time.Time) (people, groups map[string]toolcall.ReviewerLoad) {
	all, open := responsesOf(records)
	inside := func(g given) bool { return !g.at.Before(since) && (until.IsZero() || g.at.Before(until)) }
	people, groups = map[string]toolcall.ReviewerLoad{}, map[string]toolcall.ReviewerLoad{}
	for _, name := range []string{"ann", "bob", "eve", "joe"} {
		p := loadOf(name, all, func(g given) bool { return inside(g) && g.who == name })
		for _, g := range all {
			if g.who == name && now.Sub(g.at) < time.Minute {
				p.LastMinute++
			}
			if g.who == name && now.Sub(g.at) < time.Hour {
				p.LastHour++
			}
		}
		people[name] = p
	}
	for _, name := range []string{"ops", "boss", "other"} {
		groups[name] = loadOf(name, all, func(g given) bool { return inside(g) && slices.Contains(g.groups, name) })
	}
	for _, c := range open {
		spoken := map[string]bool{}
		waits := map[string]bool{}
		for _, v := range c.Votes {
			if v.Edited {
				clear(spoken)
				clear(waits)
			}
			if v.On(c.Digest) {
				spoken[v.By.Name] = true
				if v.Kind == toolcall.ResponseDelegate {
					waits[v.To] = true
				}
			}
		}
		for _, part := range c.Tally().Parts {
			for _, u := range part.Users {
				waits[u] = waits[u] || part.Missing > 0
			}
			for _, name := range part.Groups {
				g := groups[name]
				g.Open++
				groups[name] = g
			}
		}
		for u := range waits {
			if waits[u] && !spoken[u] {
				p := people[u]
				p.Name = u
				p.Open++
				people[u] = p
			}
		}
	}
	return people, groups
}

// sameLoad compares a report with the naive load. All figures must be equal, except medians,
// which may differ by five per cent.
func sameLoad(t *rapid.T, what string, got []toolcall.ReviewerLoad, want map[string]toolcall.ReviewerLoad) {
	t.Helper()
	seen := map[string]bool{}
	for _, g := range got {
		w := want[g.Name]
		seen[g.Name] = true
		if d := g.MedianMS - w.MedianMS; d > w.MedianMS/20+1 || -d > w.MedianMS/20+1 {
			t.Fatalf("%s: the median of %s is %d ms, the exact median %d", what, g.Name, g.MedianMS, w.MedianMS)
		}
		w.MedianMS, w.Name = g.MedianMS, g.Name
		if diff := cmp.Diff(w, g); diff != "" {
			t.Fatalf("%s: (-event records +report)\n%s", what, diff)
		}
	}
	for name, w := range want {
		if !seen[name] && w != (toolcall.ReviewerLoad{Name: name}) {
			t.Fatalf("%s: %s is missing: %+v", what, name, w)
		}
	}
}

// recordsOf returns all records of the journal.
func recordsOf(t *rapid.T, j *engine.Memory) []*toolcall.EventRecord {
	ctx, done := context.WithCancelCause(context.Background())
	end := errors.New("end")
	var out []*toolcall.EventRecord
	sink := sinkFunc{func(r toolcall.JournalEntry) {
		if r.Record != nil {
			out = append(out, r.Record)
		}
	}, func() { done(end) }}
	if err := j.Watch(ctx, 0, sink); !errors.Is(err, end) {
		t.Fatal(err)
	}
	return out
}

type sinkFunc struct {
	record   func(toolcall.JournalEntry)
	caughtUp func()
}

func (s sinkFunc) Record(r toolcall.JournalEntry) { s.record(r) }
func (s sinkFunc) CaughtUp()                      { s.caughtUp() }

// An engine's report about its reviewers equals the sums over the event records, for all time
// and for any window, whether it is computed from memory or from the journal.
func TestLoadAgainstRecords(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		keep := rapid.SampledFrom([]int{1, 5, 1000}).Draw(rt, "keep")
		seed := rapid.Uint64().Draw(rt, "seed")
		steps := rapid.IntRange(1, 60).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) { loadStory(t, rt, keep, steps, rand.New(rand.NewPCG(seed, 0))) })
	})
}

// loadStory lets people answer at random, and then compares.
func loadStory(t *testing.T, rt *rapid.T, keep, steps int, rnd *rand.Rand) {
	journal := engine.NewMemory()
	e := busy(t, journal, keep)
	defer e.Close()
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	begin := time.Now()
	var calls []*toolcall.Call
	for i := range steps {
		time.Sleep([]time.Duration{0, 300 * time.Millisecond, 2 * time.Second, 2001 * time.Millisecond, 45 * time.Second, 25 * time.Minute, time.Hour}[rnd.IntN(7)])
		synctest.Wait()
		if len(calls) == 0 || rnd.IntN(3) == 0 {
			r, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), toolcall.ProposeRequest{
				Session: "s", Reply: message.ReplyID(fmt.Sprint("r", i)), Calls: []message.ToolCallBlock{{ID: message.CallID(fmt.Sprint(i)), Name: pick("named", "group", "later", "anyone"), Input: fmt.Sprintf(`{"n":%d}`, i)}},
			})
			if err != nil {
				rt.Fatal(err)
			}
			calls = append(calls, r.Calls...)
			continue
		}
		c := calls[rnd.IntN(len(calls))]
		who := pick("ann", "bob", "eve", "joe")
		resp := toolcall.Response{Key: c.Key, Digest: c.Digest, Kind: toolcall.ResponseKind(pick("approve", "approve", "reject", "submit_response", "skip", "delegate"))}
		if resp.Kind == toolcall.ResponseDelegate {
			resp.To = pick("ann", "bob", "eve")
		}
		if resp.Kind == toolcall.ResponseApprove && rnd.IntN(4) == 0 {
			input := fmt.Sprintf(`{"n":%d}`, 1000+i)
			resp.Input = &input
		}
		after, err := reviewer(e, who).SubmitResponse(t.Context(), resp) // many are refused
		if err == nil {
			*c = *after
		}
	}
	synctest.Wait()
	now := time.Now().UTC()
	records := recordsOf(rt, journal)
	at := func() time.Time { return begin.Add(time.Duration(rnd.Int64N(int64(now.Sub(begin)) + 2))).UTC() }
	for i, r := range []toolcall.LoadRequest{{}, {Since: at()}, {Until: at()}, {Since: now.Add(-time.Hour)}, {Since: begin, Until: at().Add(1)}} {
		if r.Validate() != nil {
			continue
		}
		got, err := reviewer(e, "ann").Load(t.Context(), r)
		if err != nil {
			rt.Fatal(err)
		}
		people, groups := naive(records, r.Since, r.Until, now)
		sameLoad(rt, fmt.Sprintf("window %d, people", i), got.People, people)
		sameLoad(rt, fmt.Sprintf("window %d, groups", i), got.Groups, groups)
		if _, open := responsesOf(records); got.Open != len(open) {
			rt.Fatalf("%d open, want %d", got.Open, len(open))
		}
	}
}

func TestLoadWindowBackwards(t *testing.T) {
	e := limited(t, engine.NewMemory(), toolcall.ReviewerLimits{})
	defer e.Close()
	now := time.Now()
	if _, err := reviewer(e, "ann").Load(t.Context(), toolcall.LoadRequest{Since: now, Until: now}); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("Load = %v", err)
	}
}

// local is an engine.Executor of plain functions.
type local map[string]func(context.Context, toolcall.Invocation) (string, error)

func (l local) Has(tool string) bool { return l[tool] != nil }

func (l local) Run(ctx context.Context, inv toolcall.Invocation, progress func(string)) message.ToolResultBlock {
	out, err := l[inv.Call.Tool](ctx, inv)
	r := message.ToolResultBlock{ID: inv.Call.Call, Name: inv.Call.Tool, State: message.ToolResultSuccess, Output: message.Content{Text: out}}
	switch {
	case ctx.Err() != nil:
		r.State = message.ToolResultInterrupted
	case err != nil:
		r.State, r.Output.Text = message.ToolResultError, err.Error()
	}
	return r
}
