package permission_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// What a rule hides stays hidden, no matter which rule decides, and does not appear in the texts
// of any rule.
func TestRedaction(t *testing.T) {
	tool := permission.Tool{Name: "t", Schema: schema(t, `{"type": "object", "properties": {"cents": {"type": "integer"},
		"card": {"type": "object", "properties": {"number": {"type": "string"}, "month": {"type": "integer"}}},
		"items": {"type": "array", "items": {"type": "object", "properties": {"secret": {"type": "string"}, "name": {"type": "string"}}}}}}`)}
	b := load(t, everything(tool), `version: 1
name: x
rules:
  - {name: hides-card, tool: t, behavior: allow, when: has(args.card), redact: [args.card.*]}
  - {name: hides-items, tool: t, behavior: ask, when: 'args.items.exists(i, has(i.secret))', redact: ['args.items.*.secret']}
  - {name: asks, tool: t, behavior: ask, when: args.cents > 100, message: "'Pay with ' + args.card.number + '?'"}
  - {name: asks-month, tool: t, behavior: ask, when: args.cents > 200, description: A month., message: "'In ' + string(args.card.month) + '?'"}
  - {name: denies, tool: t, behavior: deny, when: args.cents > 1000, message: "'Not with ' + args.card.number"}
  - {name: shows-item, tool: t, behavior: ask, when: args.cents == 7, message: "args.items[0].name + ' ' + args.items[0].secret"}
`)
	for _, tc := range []struct {
		name, input string
		behavior    message.Behavior
		redact      []string
		says        string
	}{
		{"another rule asks", `{"cents": 150, "items": [], "card": {"number": "4242", "month": 3}}`, "ask", []string{"args.card.*"}, "Pay with [redacted]?"},
		{"a hidden number leaves the description", `{"cents": 250, "items": [], "card": {"number": "4242", "month": 3}}`, "ask", []string{"args.card.*"}, "Pay with [redacted]?\nA month."},
		{"another rule denies", `{"cents": 5000, "items": [], "card": {"number": "4242"}}`, "deny", []string{"args.card.*"}, "Permission denied for t (rule denies: Not with [redacted])."},
		{"the rule itself allows", `{"cents": 1, "items": [], "card": {"number": "4242"}}`, "allow", []string{"args.card.*"}, ""},
		{"in lists", `{"cents": 7, "items": [{"name": "a", "secret": "s"}]}`, "ask", []string{"args.items.*.secret"}, "t needs approval by rule hides-items.\na [redacted]"},
		{"a rule that fails hides", `{"cents": 1}`, "ask", []string{"args.items.*.secret"}, "t needs approval: rule hides-items could not be evaluated."},
		{"nothing to hide", `{"cents": 150, "items": []}`, "ask", nil, "t needs approval by rule asks."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := decide(b, "", tc.input)
			if d.Behavior != tc.behavior || !cmp.Equal(d.Redact, tc.redact, cmpopts.EquateEmpty()) {
				t.Errorf("%s, hides %v; want %s, %v", d.Behavior, d.Redact, tc.behavior, tc.redact)
			}
			if tc.says != "" && !strings.HasPrefix(d.Message, tc.says) {
				t.Errorf("says %q, want %q", d.Message, tc.says)
			}
			for _, secret := range []string{"4242", " s"} {
				if tc.redact != nil && strings.HasSuffix(d.Message, secret) {
					t.Errorf("%q shows %q", d.Message, secret)
				}
			}
		})
	}
}

// If the input does not match the schema, it is hidden completely if a rule hides part of it.
func TestRedactionOfBadInput(t *testing.T) {
	tool := permission.Tool{Name: "t", Schema: schema(t, `{"type": "object", "properties": {"pin": {"type": "string", "pattern": "^[0-9]{4}$"}}}`)}
	b := load(t, everything(tool), `{version: 1, name: x, rules: [{name: r, tool: t, behavior: allow, when: has(args.pin), redact: [args.pin]}]}`)
	d := decide(b, "", `{"pin": "secret"}`)
	if d.Behavior != message.BehaviorAsk || len(d.Redact) != 1 || strings.Contains(d.Message+d.Reason, "secret") {
		t.Errorf("decision %+v", d)
	}
	for _, e := range d.Errors {
		if strings.Contains(e.Msg, "secret") {
			t.Errorf("error %q", e.Msg)
		}
	}
}

func TestExecutors(t *testing.T) {
	b := load(t, everything(), `version: 1
name: x
rules:
  - {name: route, tool: t, behavior: allow, when: args.a == true, executor: {subject: exec.a, timeout: 60s}}
  - {name: quick, tool: t, behavior: allow, when: args.b == true, executor: {timeout: 5s}}
  - {name: other, tool: t, behavior: ask, when: args.c == true, executor: {subject: exec.c}}
  - {name: deny, tool: t, behavior: deny, when: args.d == true}
  - {name: third, tool: t, behavior: allow, when: args.e == true, executor: {subject: exec.e}}
`)
	input := func(letters string) string {
		var parts []string
		for _, l := range "abcde" {
			value := "false"
			if strings.ContainsRune(letters, l) {
				value = "true"
			}
			parts = append(parts, `"`+string(l)+`": `+value)
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	for _, tc := range []struct {
		letters  string
		behavior message.Behavior
		want     string
	}{
		{"a", "allow", `{"subject":"exec.a","timeout_ms":60000}`},
		{"ab", "allow", `{"subject":"exec.a","timeout_ms":5000}`},
		{"b", "allow", `{"subject":"","timeout_ms":5000}`},
		{"c", "ask", `{"subject":"exec.c","timeout_ms":0}`},
		{"bc", "ask", `{"subject":"exec.c","timeout_ms":5000}`},
		{"ac", "deny", `{"subject":"","timeout_ms":0}`},
		{"ad", "deny", `{"subject":"","timeout_ms":0}`},
		{"ae", "deny", `{"subject":"","timeout_ms":0}`},
		{"e", "allow", `{"subject":"exec.e","timeout_ms":0}`},
	} {
		d := decide(b, "", input(tc.letters))
		text, err := d.Executor.MarshalJSON()
		if err != nil || d.Behavior != tc.behavior || string(text) != tc.want {
			t.Errorf("%s: %s on %s (%s), want %s on %s", tc.letters, d.Behavior, text, d.Reason, tc.behavior, tc.want)
		}
	}
}

// A rule that only warns or audits does not change the decision.
func TestWatchedRulesLeaveDecisions(t *testing.T) {
	const kept = `
  - {name: a, tool: t, behavior: allow, when: args.n < 10}
  - {name: b, tool: t, behavior: ask, when: args.n > 20, redact: [args.x]}
`
	const watched = `
  - {name: w1, tool: t, behavior: deny, when: args.n > 5, enforcement: warn}
  - {name: w2, tool: t, behavior: ask, quorum: 2, enforcement: audit, redact: [args.y]}
  - {name: w3, tool: t, behavior: allow, when: args.n > 15, enforcement: audit}
  - {name: w4, tool: t, behavior: deny, when: args.missing == 1, enforcement: warn}
`
	const head = "version: 1\nname: x\nrules:"
	plain, mixed := load(t, everything(), head+kept), load(t, everything(), head+kept+watched)
	for _, input := range []string{`{"n": 1}`, `{"n": 7}`, `{"n": 16}`, `{"n": 30}`, `{}`, `[]`} {
		for _, mode := range allModes {
			want, got := decide(plain, mode, input), decide(mixed, mode, input)
			found := got.Watched
			got.Watched, got.Bundle = nil, want.Bundle
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(permission.RuleError{}, "Err")); diff != "" {
				t.Errorf("%s in %s (-without +with watched rules):\n%s", input, mode, diff)
			}
			if len(found) < 2 {
				t.Errorf("%s in %s: watched %+v", input, mode, found)
			}
		}
	}
	want := []permission.Watched{
		{Rule: "w1", Behavior: "deny", Enforcement: "warn"}, {Rule: "w2", Behavior: "ask", Enforcement: "audit"},
		{Rule: "w3", Behavior: "allow", Enforcement: "audit"}, {Rule: "w4", Behavior: "deny", Enforcement: "warn", Failed: true},
	}
	if diff := cmp.Diff(want, decide(mixed, "", `{"n": 16}`).Watched); diff != "" {
		t.Errorf("watched (-want +got):\n%s", diff)
	}
	if d, denied := mixed.Denied(context.Background(), permission.Request{Tool: "t", Input: []byte(`{"n": 7}`)}); denied {
		t.Errorf("a watched rule denies: %+v", d)
	}
}

// echo is a kind whose texts all contain the input.
type echo struct{ anyContent }

func (echo) Name() string                  { return "echo" }
func (echo) Prepare(permission.Call) any   { return nil }
func (echo) ReadOnly(permission.Call) bool { return false }

func (echo) Check(c permission.Call) permission.ToolVerdict {
	return permission.ToolVerdict{Answer: permission.CheckAskImmune, Message: string(c.Raw)}
}

func (echo) Suggest(c permission.Call) []message.PermissionRule {
	return []message.PermissionRule{{ToolName: c.Tool, RuleContent: new(string(c.Raw)), Behavior: message.BehaviorAllow}}
}

// A hidden text does not appear in a decision, in any text of its rules or its tool.
func TestHiddenTextShowsNowhere(t *testing.T) {
	const secret = "s3cret"
	tool := permission.Tool{Name: "t", Kind: echo{}}
	hide := permission.Rule{Name: "hide", Tools: []string{"t"}, Behavior: message.BehaviorAllow, When: `args.none == 1`, Redact: []string{"args.a", "args.list.*"}}
	for _, text := range []string{`args.a`, `string(args)`, `args.list[0]`, `args.list.join(",")`, `string(int(args.a))`, `args[args.a]`, `"x" + string(args.a.size())`} {
		for _, behavior := range []message.Behavior{"", "allow", "ask", "deny"} {
			rules := []permission.Rule{hide}
			if behavior != "" {
				rules = append(rules, permission.Rule{Name: "says", Tools: []string{"t"}, Behavior: behavior, Message: text},
					permission.Rule{Name: "fails", Tools: []string{"t"}, Behavior: behavior, When: text + ` == "1"`})
			}
			b, err := permission.Compile(permission.Policy{Rules: rules}, everything(tool))
			if err != nil {
				continue // another type, which shows nothing
			}
			for _, mode := range allModes {
				for _, input := range []string{`{"a": "s3cret", "list": ["s3cret"], "none": 1}`, `{"a": "s3cret", "list": ["s3cret"]}`} {
					d := decide(b, mode, input)
					d.Errors = append([]permission.RuleError{}, d.Errors...)
					for i := range d.Errors {
						d.Errors[i].Err = nil // it is not sent
					}
					if shown := fmt.Sprintf("%+v", d); strings.Contains(shown, secret) || len(d.Redact) != 2 {
						t.Errorf("%s rule, %s in %s: %s", behavior, text, mode, shown)
					}
				}
			}
		}
	}
}
