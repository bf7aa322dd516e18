package permission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// TestExplainEqualsDecide: the explanation runs other programs than the decision and must get the
// same result, including errors and texts.
func TestExplainEqualsDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		b := w.bundle(t)
		x := b.Explain(w.ctx, w.req)
		if diff := cmp.Diff(b.Decide(w.ctx, w.req), x.Decided, sameErrors); diff != "" {
			t.Fatalf("Explain differs from Decide (-decide +explain):\n%s", diff)
		}
		checkTrace(t, x)
	})
}

// checkTrace compares the trace with the decision.
func checkTrace(t *rapid.T, x *permission.Explanation) {
	for _, tr := range x.Trace {
		switch {
		case tr.Matched && tr.Failed:
			t.Fatalf("rule %s matches and fails", tr.Rule)
		case tr.Enforcement == "" && tr.Reached && tr.Matched && tr.Behavior == message.BehaviorDeny && x.Decision != message.BehaviorDeny:
			t.Fatalf("deny rule %s matches, but the decision is %s", tr.Rule, x.Decision)
		case !tr.Matched && tr.Because == nil:
			t.Fatalf("rule %s does not match, without a reason", tr.Rule)
		case tr.Failed && tr.Because.Error == "":
			t.Fatalf("rule %s fails without a reason", tr.Rule)
		case !tr.Matched && !tr.Failed && (tr.Because.Value == nil || *tr.Because.Value):
			t.Fatalf("rule %s does not match because of %+v", tr.Rule, tr.Because)
		}
	}
}

// TestExplainCases: the explanations of the corpus equal the decisions.
func TestExplainCases(t *testing.T) {
	forEachCase(t, func(t *testing.T, b *permission.Bundle, req permission.Request) {
		x := b.Explain(t.Context(), req)
		if diff := cmp.Diff(b.Decide(t.Context(), req), x.Decided, cmpopts.IgnoreFields(permission.RuleError{}, "Err")); diff != "" {
			t.Errorf("Explain differs from Decide (-decide +explain):\n%s", diff)
		}
	})
}

const explained = `version: 1
name: shop
rules:
  - name: cap
    tool_name: refund
    behavior: deny
    when: args.cents > 100000
  - name: foreign
    tool_name: refund
    behavior: ask
    when: |
      has(args.note) &&
        args.currency != "EUR" && args.cents > 5000
  - name: listed
    tool_name: refund
    behavior: ask
    when: args.tags.exists(t, t == "vip") || args.cents > 5000
  - name: small
    tool_name: refund
    behavior: allow
  - name: elsewhere
    tool_name: pay
    behavior: allow
`

func explainRefund(t *testing.T, input string) *permission.Explanation {
	t.Helper()
	s := schema(t, `{"type": "object", "required": ["cents", "currency"], "properties": {"cents": {"type": "integer"},
		"currency": {"type": "string"}, "note": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}}}`)
	b, err := permission.Load([]permission.File{{Name: "shop.yaml", Data: []byte(explained)}}, permission.Options{
		Tools: []permission.Tool{{Name: "refund", Schema: s}, {Name: "pay"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Explain(t.Context(), permission.Request{Tool: "refund", Input: []byte(input)})
}

func traced(t *testing.T, x *permission.Explanation, rule string) *permission.Traced {
	t.Helper()
	for _, tr := range x.Trace {
		if tr.Rule == rule {
			return tr
		}
	}
	t.Fatalf("no trace of rule %s", rule)
	return nil
}

func TestExplainNamesTheFirstFalsePart(t *testing.T) {
	x := explainRefund(t, `{"cents": 900, "currency": "EUR", "note": "n", "tags": ["new"]}`)
	if x.Decision != message.BehaviorAllow || x.Rule != "small" {
		t.Fatalf("%s by %s, want allow by small", x.Decision, x.Rule)
	}
	limit := traced(t, x, "cap").Because
	if limit.Expr != "args.cents > 100000" || *limit.Value || limit.Line != 7 || limit.Col != 11 || limit.File != "shop.yaml" {
		t.Errorf("cap: %+v", limit)
	}
	if diff := cmp.Diff(map[string]any{"args.cents": int64(900)}, limit.Operands); diff != "" {
		t.Error(diff)
	}
	foreign := traced(t, x, "foreign")
	if b := foreign.Because; b.Expr != `args.currency != "EUR"` || *b.Value || b.Line != 13 || b.Col != 9 {
		t.Errorf("foreign: %+v", b)
	}
	if parts := foreign.Conjuncts; len(parts) != 3 || !*parts[0].Value || parts[2].Value != nil {
		t.Errorf("foreign has the parts %+v", parts)
	}
	if b := traced(t, x, "listed").Because; *b.Value || b.Operands["args.cents"] != int64(900) || b.Operands["args.tags"] == nil {
		t.Errorf("listed: %+v", b)
	}
	if b := traced(t, x, "small").Because; b != nil {
		t.Errorf("small has no condition: %+v", b)
	}
	if got := strings.Join(x.NotEvaluated, ","); got != "elsewhere (tool differs)" {
		t.Errorf("not evaluated: %s", got)
	}
	if want := "rule cap (deny) would match if args.cents > 100000 were true; args.cents is 900"; x.NearMiss != want {
		t.Errorf("near miss %q, want %q", x.NearMiss, want)
	}
}

func TestExplainShowsWhatWasNotReached(t *testing.T) {
	x := explainRefund(t, `{"cents": 100001, "currency": "USD", "note": "n"}`)
	if x.Decision != message.BehaviorDeny || !traced(t, x, "cap").Reached {
		t.Fatalf("%s by %s", x.Decision, x.Rule)
	}
	foreign := traced(t, x, "foreign")
	if foreign.Reached || !foreign.Matched {
		t.Errorf("foreign: %+v", foreign)
	}
	// The list is absent, so this part fails, but the other side of || is true.
	if l := traced(t, x, "listed"); !l.Matched || l.Failed {
		t.Errorf("listed: %+v", l)
	}
}

func TestExplainShowsFailures(t *testing.T) {
	x := explainRefund(t, `{"cents": 1, "currency": "USD"}`)
	l := traced(t, x, "listed")
	if !l.Failed || !strings.Contains(l.Because.Error, "no such key: tags") || l.Because.Value != nil {
		t.Errorf("listed: %+v, because %+v", l, l.Because)
	}
	x = explainRefund(t, `{"cents": "1"}`)
	if x.Decision != message.BehaviorAsk || len(x.Errors) == 0 || traced(t, x, "cap").Because.Error == "" {
		t.Errorf("bad input: %+v", x)
	}
}

// TestExplainRedacts: a value that any rule about the tool hides does not appear in the
// explanation, under any name by which a rule can refer to it.
func TestExplainRedacts(t *testing.T) {
	s := schema(t, `{"type": "object", "required": ["card"], "properties": {"card": {"type": "object", "required": ["number"],
		"properties": {"number": {"type": "string"}, "cvc": {"type": "string"}}}, "cards": {"type": "array", "items": {"type": "object",
		"required": ["number"], "properties": {"number": {"type": "string"}}}}}}`)
	whens := []string{`args.card.number == "1"`, `args.card.?number.orValue("") == "1"`, `size(dyn(args.card)) == 9`,
		`args.cards[0].number == "1"`, `dyn(args).card.number == "1"`, `args.cards.exists(c, c.number == "1")`, `"x" in dyn(args)`, `dyn(args)["card"].number == "1"`}
	rules := []permission.Rule{{Name: "hide", Tools: []string{"pay"}, Behavior: message.BehaviorAsk, Redact: []string{"args.card.number", "args.cards.*.number"}, When: "false && true"}}
	for i, when := range whens {
		rules = append(rules, permission.Rule{Name: string(rune('a' + i)), Tools: []string{"pay"}, Behavior: message.BehaviorDeny, When: when})
	}
	b, err := permission.Compile(permission.Policy{Rules: rules}, permission.Options{Tools: []permission.Tool{{Name: "pay", Schema: s}}, Enforced: allDuties})
	if err != nil {
		t.Fatal(err)
	}
	x := b.Explain(t.Context(), permission.Request{Tool: "pay", Input: []byte(`{"card": {"number": "4242SECRET", "cvc": "1"}, "cards": [{"number": "4242SECRET"}]}`)})
	bad := b.Explain(t.Context(), permission.Request{Tool: "pay", Input: []byte(`{"card": "4242SECRET"}`)})
	text, err := strictjson.Marshal([]any{x, bad})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "4242SECRET") {
		t.Errorf("the explanation shows a hidden value: %s", text)
	}
	if !strings.Contains(string(text), "[redacted]") {
		t.Errorf("nothing is redacted: %s", text)
	}
}

// TestExplainWatchedRules: rules that only warn are in the trace, marked as such.
func TestExplainWatchedRules(t *testing.T) {
	b := compile(t, permission.Options{},
		permission.Rule{Name: "new", Tools: []string{"pay"}, Behavior: message.BehaviorDeny, When: "args.n > 1 && args.n < 9", Enforcement: permission.EnforcementWarn},
		permission.Rule{Name: "old", Tools: []string{"pay"}, Behavior: message.BehaviorAllow})
	x := b.Explain(t.Context(), permission.Request{Tool: "pay", Input: []byte(`{"n": 5}`)})
	tr := traced(t, x, "new")
	if x.Decision != message.BehaviorAllow || !tr.Matched || tr.Enforcement != permission.EnforcementWarn || len(tr.Conjuncts) != 2 {
		t.Errorf("%s by %s; the rule new is %+v", x.Decision, x.Rule, tr)
	}
	if old := traced(t, x, "old"); old.Conjuncts != nil || old.Enforcement != "" {
		t.Errorf("old is %+v", old)
	}
}
