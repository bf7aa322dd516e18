package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func budgetCases() []engineCase {
	return []engineCase{
		{"two engines do not overspend", budgetRace},
		{"an engine dies after it charged a budget", budgetDeath},
		{"approvals and previews take nothing", budgetTakenByPolicyAlone},
		{"what cannot be counted is not allowed", budgetUncountable},
		{"each requester has a budget", budgetPerRequester},
		{"a hidden amount is not explained", budgetHidden},
		{"a new policy changes the limit", budgetReload},
		{"the journal cannot be used", budgetUnreadable},
	}
}

// bounded10 allows deploy up to a total of 10.
func bounded10(change func(*permission.Budget)) permission.Rule {
	b := &permission.Budget{Sum: "args.n", AtMost: "10", Every: time.Hour}
	if change != nil {
		change(b)
	}
	return permission.Rule{Name: "small", Tools: []string{deploy}, Behavior: message.BehaviorAllow, Budget: b}
}

func isAllowed(c *toolcall.Call) bool {
	return c.Decision.Behavior == message.BehaviorAllow && c.Decision.Rule == "small"
}

// auditBudgets checks that each call that a budget allowed was charged to it before.
func (w *world) auditBudgets(records []toolcall.JournalEntry) {
	w.Helper()
	taken := map[toolcall.Key]string{}
	for _, rec := range records {
		switch record := rec.Record; {
		case record == nil:
		case record.Budget != nil && record.Budget.Use != nil:
			taken[record.Budget.Use.Call] = record.Budget.Use.Amount
		case record.Call != nil && record.Call.Decision != nil && record.Call.Decision.Budget != nil:
			if amount, ok := taken[record.Call.Key]; !ok || amount != record.Call.Decision.Budget.Amount {
				w.Errorf("record %d: %s was allowed by a budget from which it took %q, %v", rec.Seq, record.Call.Key, amount, ok)
			}
		}
	}
}

// spent counts the calls that were charged to budgets, according to the journal.
func (w *world) spent() (calls int) {
	for _, rec := range w.records() {
		if rec.Record != nil && rec.Record.Budget != nil && rec.Record.Budget.Use != nil {
			calls++
		}
	}
	return calls
}

func budgetRace(w *world) {
	w.policy.use(w, bounded10(func(b *permission.Budget) { b.Calls = 100 }))
	engines := []*replica{w.engine(), w.engine()}
	var wg sync.WaitGroup
	var mu sync.Mutex
	allowed, asked := 0, 0
	for i := range 16 {
		wg.Go(func() {
			out, err := engines[i%2].bot().Propose(w.Context(), toolcall.ProposeRequest{Session: "s", Reply: message.ReplyID(fmt.Sprint("r", i)), Calls: []message.ToolCallBlock{call(message.CallID(fmt.Sprint("c", i)), deploy, `{"n":2.5}`)}})
			if err != nil {
				w.Errorf("propose: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if c := out.Calls[0]; isAllowed(c) {
				allowed++
			} else if c.State == message.ToolCallAsking && strings.Contains(c.Request.Text, `The budget of rule small has no room: 10 of 10 spent in 1h, and the call takes 2.5; room for this call from`) {
				asked++
			} else {
				w.Errorf("the call is %s, %+v", describe(c), c.Request)
			}
		})
	}
	wg.Wait()
	if allowed != 4 || asked != 12 || w.spent() != 4 {
		w.Errorf("%d calls of 2.5 were allowed and %d asked, %d were charged to the budget of 10", allowed, asked, w.spent())
	}
}

// budgetDeath checks that the amount that a dead engine charged for a call counts for the
// same call on another engine, and is not charged twice.
func budgetDeath(w *world) {
	w.policy.use(w, bounded10(nil))
	dying, other := w.engine(), w.engine()
	dying.cord.onAppend(cutAfter(dying, func(rec *toolcall.EventRecord) bool { return rec.Budget != nil }))
	if _, err := dying.bot().Propose(w.Context(), request(call("c", deploy, `{"n":6}`))); err == nil {
		w.Error("a dead engine answered")
	}
	dying.kill()
	if c := other.propose(call("d", deploy, `{"n":6}`))[0]; isAllowed(c) {
		w.Errorf("the amount that the dead engine charged went to another call: %s", describe(c))
	}
	if c := other.propose(call("c", deploy, `{"n":6}`))[0]; !isAllowed(c) || c.Decision.Budget == nil || w.spent() != 1 {
		w.Errorf("the same call is %s, and %d calls were charged to the budget", describe(c), w.spent())
	}
	other.finished(w.key("c"))
}

func budgetTakenByPolicyAlone(w *world) {
	w.policy.use(w, bounded10(nil), permission.Rule{Name: "free", Tools: []string{deploy}, Behavior: message.BehaviorAllow, When: "args.n == 7"})
	e := w.engine()
	for range 3 {
		out, err := api.Preview.Call(w.Context(), e.bot(), previewOf(call("p", deploy, `{"n":6}`)))
		w.must(err)
		if d := out.Calls[0].Decision; d.Behavior != message.BehaviorAllow || d.Budget == nil {
			w.Errorf("the preview is %+v", d)
		}
	}
	e.finished(e.propose(call("free", deploy, `{"n":7}`))[0].Key) // another rule allows it
	q := e.ask("large", deploy, `{"n":11}`)
	e.answers("ann", approve(q))
	e.finished(q.Key)
	edited := e.ask("edited", deploy, `{"n":12}`)
	resp, input := approve(edited), `{"n":1}`
	resp.Input = &input
	e.answers("ann", resp)
	if c := e.finished(edited.Key); c.Decision.Budget != nil {
		w.Errorf("the edited call was charged to the budget: %+v", c.Decision)
	}
	if w.spent() != 0 {
		w.Errorf("%d calls were charged to the budget", w.spent())
	}
	c := e.propose(call("small", deploy, `{"n":10}`))[0]
	if !isAllowed(c) || w.spent() != 1 {
		w.Errorf("the first call that the rule allows is %s", describe(c))
	}
	out, err := api.Preview.Call(w.Context(), e.bot(), previewOf(call("p", deploy, `{"n":0.1}`)))
	w.must(err)
	if d := out.Calls[0].Decision; d.Behavior != message.BehaviorAsk || !strings.Contains(d.Message, "10 of 10 spent") {
		w.Errorf("the preview beyond the budget is %+v", d)
	}
	x, err := api.Explain.Call(w.Context(), e.ann(), toolcall.ExplainRequest{Key: c.Key})
	w.must(err)
	if !strings.Contains(string(x.Trace), "takes 10 of at most 10 of args.n in 1h") || w.spent() != 1 {
		w.Errorf("the explanation is %s", x.Trace)
	}
}

func budgetUncountable(w *world) {
	w.policy.use(w, bounded10(nil))
	e := w.engine()
	for i, n := range []string{`-1`, `1e1`, `"5"`, `null`, `[5]`, `0.0000000001`, `true`} {
		if c := e.propose(call(message.CallID(fmt.Sprint("c", i)), deploy, `{"n":`+n+`}`))[0]; c.State != message.ToolCallAsking || len(c.Decision.Errors) != 1 {
			w.Errorf("n is %s: %s, errors %v", n, describe(c), c.Decision.Errors)
		}
	}
	if c := e.propose(call("none", deploy, `{}`))[0]; c.State != message.ToolCallAsking {
		w.Errorf("without n: %s", describe(c))
	}
	if w.spent() != 0 {
		w.Errorf("%d calls were charged to the budget", w.spent())
	}
}

func budgetPerRequester(w *world) {
	w.policy.use(w, bounded10(func(b *permission.Budget) { b.Sum, b.AtMost, b.Calls, b.Per = "", "", 1, []string{"requester"} }))
	e := w.engine()
	for i, want := range []struct {
		user, session string
		allowed       bool
	}{{"bot", "s1", true}, {"bot", "s2", false}, {"cat", "s3", true}, {"cat", "s3", false}} {
		c := e.in(want.user, want.session, "agent", call(message.CallID(fmt.Sprint("c", i)), deploy, `{}`))
		if isAllowed(c) != want.allowed {
			w.Errorf("call %d of %s is %s", i, want.user, describe(c))
		}
	}
}

func budgetReload(w *world) {
	w.policy.use(w, bounded10(nil))
	e := w.engine()
	for i, step := range []struct {
		most, n string
		allowed bool
	}{{"10", "6", true}, {"6", "0.5", false}, {"20", "14", true}, {"20", "0.5", false}} {
		w.policy.use(w, bounded10(func(b *permission.Budget) { b.AtMost = step.most }))
		c := e.propose(call(message.CallID(fmt.Sprint("c", i)), deploy, `{"n":`+step.n+`}`))[0]
		if isAllowed(c) != step.allowed {
			w.Errorf("%s under the limit %s is %s", step.n, step.most, describe(c))
		}
	}
}

func budgetUnreadable(w *world) {
	w.policy.use(w, bounded10(nil))
	e := w.engine()
	e.cord.onAppend(refuse(func(rec *toolcall.EventRecord) bool { return rec.Budget != nil }, cutError("append")))
	if c := e.propose(call("write", deploy, `{"n":1}`))[0]; c.State != message.ToolCallAsking || !strings.Contains(c.Request.Text, "cannot be read or written") {
		w.Errorf("the budget cannot be written, but the call is %s: %s", describe(c), c.Request.Text)
	}
	e.cord.onAppend(nil)
	e.cord.onLast(func(key toolcall.Key) error {
		if key.Entity.IsBudget() {
			return cutError("last")
		}
		return nil
	})
	if c := e.propose(call("read", deploy, `{"n":1}`))[0]; c.State != message.ToolCallAsking {
		w.Errorf("the budget cannot be read, but the call is %s", describe(c))
	}
}

// slowJournal is a journal whose clock is behind the engines' clocks; negative: ahead of them.
type slowJournal struct {
	engine.Journal
	behind time.Duration
}

func (j slowJournal) Last(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error) {
	r, err := j.Journal.Last(ctx, key)
	r.Time = r.Time.Add(-j.behind)
	return r, err
}

// The journal's clock decides when a budget's period is over. An engine whose clock is ahead
// of it does not free the budget early.
func TestBudgetPeriod(t *testing.T) {
	for _, behind := range []time.Duration{0, 2 * time.Hour, -2 * time.Hour} {
		t.Run(behind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { budgetPeriod(t, slowJournal{engine.NewMemory(), behind}) })
		})
	}
}

func budgetPeriod(t *testing.T, j slowJournal) {
	tool := engine.Tool{Tool: permission.Tool{Name: deploy}, Placement: toolcall.PlaceExternal, ConcurrencySafe: true}
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{bounded10(nil)}}, permission.Options{Tools: []permission.Tool{tool.Tool}, Enforced: engine.Duties()})
	if err != nil {
		t.Fatal(err)
	}
	var engines []*engine.Engine
	for range 2 {
		e, err := engine.New("sp", j, policy, []engine.Tool{tool})
		if err == nil {
			err = e.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		engines = append(engines, e)
	}
	for i, step := range []struct {
		pause   time.Duration
		amount  string
		allowed bool
	}{
		{0, "6", true}, {30 * time.Minute, "4", true}, {29 * time.Minute, "1", false}, {31 * time.Second, "1", false},
		{30 * time.Second, "6", true}, {0, "0.1", false}, {31 * time.Minute, "5", false}, {0, "4", true}, {2 * time.Hour, "10", true},
	} {
		time.Sleep(step.pause)
		if j.behind < 0 && step.allowed && i > 3 {
			continue // an engine whose clock is behind waits longer
		}
		c := call(message.CallID(fmt.Sprint("c", i)), deploy, `{"n":`+step.amount+`}`)
		out, err := engines[i%2].As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(t.Context(), request(c))
		if err != nil {
			t.Fatal(err)
		}
		if got := isAllowed(out.Calls[0]); got != step.allowed {
			t.Errorf("step %d: %s was allowed: %v", i, step.amount, got)
		}
	}
}

// budgetHidden checks that people see the charged amount only if they may see the argument.
func budgetHidden(w *world) {
	rule := bounded10(nil)
	rule.Redact = []string{"args.n"}
	w.policy.use(w, rule)
	e := w.engine()
	c := e.propose(call("c", deploy, `{"n":6}`))[0]
	if !isAllowed(c) {
		w.Fatalf("the call is %s", describe(c))
	}
	why, err := e.ann().Explain(w.Context(), toolcall.ExplainRequest{Key: c.Key})
	if err != nil || why.Decision == nil || why.Decision.Budget == nil || why.Decision.Budget.Amount != "" {
		w.Errorf("the explanation is %+v, %v; want the budget without the amount", why.Decision, err)
	}
}
