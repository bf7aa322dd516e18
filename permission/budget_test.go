package permission_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

var withBudgets = []permission.Duty{permission.DutyBudget, permission.DutyRedact, permission.DutyAudit}

func boundedRule(change func(*permission.Rule)) permission.Rule {
	r := permission.Rule{Name: "small", Tools: []string{"t"}, Behavior: message.BehaviorAllow,
		Budget: &permission.Budget{Sum: "args.n", AtMost: "500", Calls: 3, Per: []string{"agent", "tool"}, Every: 24 * time.Hour}}
	if change != nil {
		change(&r)
	}
	return r
}

func decideN(b *permission.Bundle, n string, change func(*permission.Request)) permission.Decision {
	req := permission.Request{Tool: "t", Input: []byte(`{"n":` + n + `,"card":"4111"}`), Caller: permission.Caller{User: "ann", Agent: "a", Session: "s"}}
	if change != nil {
		change(&req)
	}
	return b.Decide(context.Background(), req)
}

func TestBudgetOfADecision(t *testing.T) {
	b := compile(t, permission.Options{Enforced: withBudgets}, boundedRule(nil), rule("zfree", message.BehaviorAllow, "args.n == 7"))
	d := decideN(b, "12.50", nil)
	if c := d.Budget; d.Rule != "small" || c == nil || c.Amount != "12.50" || c.AtMost != "500" || c.Calls != 3 || c.EveryMS != 86_400_000 ||
		!slices.Equal(c.For, []string{"agent", "a", "requester", "ann", "tool", "t"}) {
		t.Errorf("decided %+v with %+v", d, d.Budget)
	}
	if !slices.Contains(d.Duties(), permission.DutyBudget) {
		t.Error("the budget is not listed as a duty of the engine")
	}
	if d := decideN(b, "7", nil); d.Rule != "zfree" || d.Budget != nil {
		t.Errorf("a call that another rule allows uses the budget: %+v", d)
	}
	for _, exhausted := range [][]permission.Exhausted{{{Rule: "small", Why: "480 of 500 spent"}}, permission.EveryBudget("480 of 500 spent")} {
		full := func(r *permission.Request) { r.Exhausted = exhausted }
		if d := decideN(b, "12", full); d.Behavior != message.BehaviorAsk || d.Budget != nil || d.Reason != "no rule allows it" || !strings.Contains(d.Message, "\nThe budget of rule small has no room: 480 of 500 spent.") {
			t.Errorf("without room: %+v", d)
		}
		dontAsk := func(r *permission.Request) { full(r); r.Mode = permission.ModeDontAsk }
		if d := decideN(b, "12", dontAsk); d.Behavior != message.BehaviorDeny {
			t.Errorf("without room and approvers: %s", d.Behavior)
		}
	}
	for _, n := range []string{"-1", `"5"`, "1e3", "null", "{}", "0.0000000001", "1234567890123456789"} {
		for _, mode := range []permission.Mode{permission.ModeDefault, permission.ModeBypass} {
			if d := decideN(b, n, func(r *permission.Request) { r.Mode = mode }); d.Behavior != message.BehaviorAsk || len(d.Errors) != 1 || d.Errors[0].Field != "budget" {
				t.Errorf("n is %s in mode %q: %s, errors %v", n, mode, d.Behavior, d.Errors)
			}
		}
	}
}

// Amounts that a rule hides appear neither in a request nor in an explanation.
func TestBudgetOfHiddenAmounts(t *testing.T) {
	b := compile(t, permission.Options{Enforced: withBudgets}, boundedRule(nil),
		permission.Rule{Name: "hide", Tools: []string{"t"}, Behavior: message.BehaviorDeny, When: "args.n > 100", Redact: []string{"args.n"}},
		permission.Rule{Name: "mask", Tools: []string{"t"}, Behavior: message.BehaviorAllow, Redact: []string{"args.n"}, When: "args.card == '4111' && caller.user == 'bob'"})
	req := permission.Request{Tool: "t", Input: []byte(`{"n":17,"card":"4111"}`), Caller: permission.Caller{User: "ann"}, Exhausted: permission.EveryBudget("483 spent")}
	x := b.Explain(context.Background(), req)
	for _, tr := range x.Trace {
		if strings.Contains(tr.Budget, "483") || strings.Contains(tr.Budget, "17") {
			t.Errorf("the trace of %s says %q", tr.Rule, tr.Budget)
		}
	}
	hiding := compile(t, permission.Options{Enforced: withBudgets}, boundedRule(nil), boundedRule(func(r *permission.Rule) { r.Name, r.Redact = "other", []string{"args.n"} }))
	if d := hiding.Decide(context.Background(), req); d.Behavior != message.BehaviorAsk || strings.Contains(d.Message, "483") || !strings.Contains(d.Message, "amounts are hidden") {
		t.Errorf("the approval request says %q", d.Message)
	}
}

func TestBudgetExplained(t *testing.T) {
	b := compile(t, permission.Options{Enforced: withBudgets}, boundedRule(nil))
	req := permission.Request{Tool: "t", Input: []byte(`{"n":5}`), Caller: permission.Caller{User: "ann", Agent: "a"}}
	if x := b.Explain(context.Background(), req); x.Trace[0].Budget != "takes 5 of at most 500 of args.n and 1 of at most 3 calls in 24h, for agent a, for requester ann, for tool t" {
		t.Errorf("the trace says %q", x.Trace[0].Budget)
	}
	req.Exhausted = permission.EveryBudget("3 of 3 calls made in 24h")
	if x := b.Explain(context.Background(), req); x.Trace[0].Budget != "has no room: 3 of 3 calls made in 24h" {
		t.Errorf("the trace says %q", x.Trace[0].Budget)
	}
}

func TestBudgetFaults(t *testing.T) {
	schema, err := permission.CompileSchema([]byte(`{"type":"object","properties":{"n":{"type":"integer"},"text":{"type":"string"}},"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	tools := []permission.Tool{{Name: "t", Schema: schema}}
	load := func(budget, behavior string) error {
		text := "version: 1\nname: x\nrules:\n  - name: r\n    tool: t\n    behavior: " + behavior + "\n    budget: " + budget + "\n"
		_, err := permission.Load([]permission.File{{Name: "x.yaml", Data: []byte(text)}}, permission.Options{Tools: tools, Enforced: withBudgets})
		return err
	}
	for _, good := range []string{"{calls: 5}", "{calls: 5, every: 1m, per: session}", "{sum: args.n, at_most: 500}", "{sum: args.n, at_most: 99.95, calls: 3, per: [requester, tool], every: 24h}", "{sum: args.n, at_most: '0.5'}"} {
		if err := load(good, "allow"); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"{}": "sets no limit", "{every: 1h}": "sets no limit", "{sum: args.n}": "belong together", "{at_most: 5}": "sets no limit", "{calls: 0}": "want a whole number from 1",
		"{sum: args.n, at_most: -5}": "want a decimal number of at least 0", "{sum: args.n, at_most: 1e3}": "want a decimal number", "{sum: args.n, at_most: .inf}": "want a decimal number",
		"{sum: args.m, at_most: 5}": "does not exist", "{sum: args.text, at_most: 5}": "is not a number", "{sum: args, at_most: 5}": "does not name a single", "{sum: caller.user, at_most: 5}": "does not name a single",
		"{calls: 5, per: [user]}": "want session, agent, requester or tool", "{calls: 5, per: [tool, tool]}": "listed twice", "{calls: 5, every: 24}": "has no unit", "{calls: 5, most: 1}": "unknown key",
	} {
		if err := load(bad, "allow"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", bad, err, want)
		}
	}
	if err := load("{calls: 5}", "ask"); err == nil || !strings.Contains(err.Error(), "only for allow rules") {
		t.Errorf("an ask rule with a budget: %v", err)
	}
	if _, err := permission.Compile(permission.Policy{Rules: []permission.Rule{boundedRule(nil)}}, permission.Options{}); err == nil || !strings.Contains(err.Error(), "not enforced") {
		t.Errorf("an engine that enforces no budgets: %v", err)
	}
	one, two := compile(t, permission.Options{Enforced: withBudgets}, boundedRule(nil)), compile(t, permission.Options{Enforced: withBudgets}, boundedRule(func(r *permission.Rule) { r.Budget.AtMost = "501" }))
	if one.Hash() == two.Hash() {
		t.Error("policies with different limits have the same hash")
	}
}
