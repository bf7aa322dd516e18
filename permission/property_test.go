package permission_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// world is a random policy and a random call.
type world struct {
	rules  []permission.Rule
	tool   permission.Tool
	req    permission.Request
	limits permission.Limits
	terms  []permission.Term
	ctx    context.Context //nolint:containedctx // of the one call
	// bad is set if something outside the rules fails, so nothing may be allowed.
	bad bool
}

// conditions are true, false or fail for every call.
var (
	trueWhen    = []string{"", `tool.name == "t"`, `ctx.mode != "none"`, `named`}
	falseWhen   = []string{"false && true", `tool.name == "none"`, `!named`}
	failingWhen = []string{"args.missing == 1", `size(args.missing) == 1`, "1 / 0 == 1", `tenant == "x"`, `caller.tenant == "x"`}
	// argWhen depend on the input, in ways that guards and indexes examine.
	argWhen = []string{`args.x == 1`, `args.x == "y"`, `args.x == 2`, `args.x != "y"`, `args.x == 1 && args.missing == 2`, `args.missing == 2 && args.x == "y"`,
		`has(args.x) && args.x == 1`, `args.x in ["y", "z"]`, `args.z.exists(i, i == 1)`, `args.x.startsWith("y")`, `args.x < 5`, `args.x + 1 > 0`,
		`args.xs.all(a, args.ys.all(b, a != b))`, `"x".matches(args.x)`}
	// typedWhen are for a tool with a schema.
	typedWhen = []string{`args.x == 1`, `args.x != 1`, `has(args.x) && args.x < 5`, `args.x + 1 > 0`, `1 / args.x == 1`, `args.z.exists(i, i == 1)`, `args.z[5] == 1`}
)

const typedInput = `{"type": "object", "required": [], "properties": {"x": {"type": "integer"}, "z": {"type": "array", "maxItems": 4, "items": {"type": "integer"}}}}`

// inputs are inputs of calls. A bad one matches no tool, and an untyped one matches no tool with
// the schema.
var inputs = []struct {
	text         string
	bad, untyped bool
}{
	{text: `{}`}, {text: `{"x": 1}`}, {text: `{"x": "y", "z": [1]}`, untyped: true}, {text: `{"x": 0, "z": []}`}, {text: `{"x": null}`, untyped: true},
	{text: `{"x": 9223372036854775807}`}, {text: `{"x": -0.0}`}, {text: `{"x": 1.5}`, untyped: true}, {text: `{"x": "("}`, untyped: true},
	{text: `{"x": 1, "X": 2}`, untyped: true}, {text: manyItems()}, {text: `[]`, bad: true}, {text: ``, bad: true}, {text: `{"x": 1, "x": 1}`, bad: true},
	{text: `{"x": NaN}`, bad: true}, {text: `{"x": 1e999}`, bad: true}, {text: `null`, bad: true}, {text: "{\"x\": \"\xff\"}", bad: true},
	{text: strings.Repeat(`{"x":`, 40) + "1" + strings.Repeat("}", 40), bad: true},
}

// failing returns conditions that fail for every call of the world's tool.
func (w world) failing() []string {
	if w.tool.Schema != nil {
		return failingWhen[2:]
	}
	return failingWhen
}

func (w world) drawRule(t *rapid.T, name string) permission.Rule {
	about := argWhen
	if w.tool.Schema != nil {
		about = typedWhen
	}
	r := permission.Rule{
		Name:     name,
		Tools:    rapid.SampledFrom([][]string{{"t"}, {"u"}, {"t", "u"}}).Draw(t, "tools"),
		Behavior: rapid.SampledFrom(behaviors).Draw(t, "behavior"),
		When:     rapid.SampledFrom(slices.Concat(trueWhen, falseWhen, w.failing(), about)).Draw(t, "when"),
		Message:  rapid.SampledFrom([]string{"", `"go on with " + tool.name + "?"`, `"" + caller.tenant`}).Draw(t, "message"),
		Source:   rapid.SampledFrom([]string{"user", "project"}).Draw(t, "source"),
		Layer:    rapid.SampledFrom(append(permission.Layers(), "")).Draw(t, "layer"),
	}
	if w.tool.Kind != nil && rapid.IntRange(0, 3).Draw(t, "content") == 0 {
		r.Tools, r.RuleContent = []string{"t"}, new("x")
	}
	if r.Behavior != message.BehaviorAllow {
		r.OnError = rapid.SampledFrom([]permission.OnError{"", permission.OnErrorAsk, permission.OnErrorDeny}).Draw(t, "on_error")
		r.Locked = rapid.Bool().Draw(t, "locked")
		if r.RuleContent == nil && rapid.Bool().Draw(t, "any tool") {
			r.Tools = []string{permission.AnyTool}
		}
	}
	if rapid.IntRange(0, 5).Draw(t, "watched") == 0 {
		r.Enforcement = rapid.SampledFrom([]permission.Enforcement{permission.EnforcementWarn, permission.EnforcementAudit}).Draw(t, "enforcement")
		r.Locked = false
	}
	if r.Behavior == message.BehaviorAsk {
		r.Approvers.Users = rapid.SampledFrom([][]string{nil, {"ann"}, {"bob", "ann"}, {"cid"}}).Draw(t, "users")
		r.Expiry = rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "expiry")
		if rapid.IntRange(0, 3).Draw(t, "remembers") == 0 {
			r.Remember = &permission.Remember{Uses: 3, TTL: time.Hour}
		}
	}
	w.drawHandling(t, &r)
	return r
}

// drawHandling gives some rules settings for the treatment of calls.
func (w world) drawHandling(t *rapid.T, r *permission.Rule) {
	if rapid.IntRange(0, 4).Draw(t, "handles") > 0 {
		return
	}
	if rapid.Bool().Draw(t, "hides") && w.tool.Schema == nil {
		r.Redact = []string{"args.x"}
	}
	if r.Behavior != message.BehaviorDeny && r.Enforcement == "" {
		r.Executor.Subject = rapid.SampledFrom([]string{"", "exec.a", "exec.b"}).Draw(t, "subject")
	}
	if rapid.Bool().Draw(t, "audit") {
		r.Audit = permission.AuditFull
	}
}

func drawWorld(t *rapid.T) world {
	in := rapid.SampledFrom(inputs).Draw(t, "input")
	w := world{
		tool: permission.Tool{Name: "t", ReadOnly: rapid.IntRange(0, 3).Draw(t, "read-only") == 0},
		req: permission.Request{
			Tool:  "t",
			Input: []byte(in.text),
			Mode:  rapid.SampledFrom(append(allModes, "", "unknown")).Draw(t, "mode"),
			SessionRules: rapid.SampledFrom([][]message.PermissionRule{nil,
				{{ToolName: "t", Behavior: message.BehaviorAllow, Source: "suggested"}},
				{{ToolName: "t", Behavior: message.BehaviorDeny, Source: "user"}},
				{{ToolName: "t", Behavior: message.BehaviorAsk, RuleContent: new("x"), Source: "user"}},
				{{ToolName: "t", Behavior: message.BehaviorAllow, RuleContent: new("bad"), Source: "user"}},
				{{ToolName: "t", Behavior: message.BehaviorDeny, RuleContent: new("nil"), Source: "user"}},
			}).Draw(t, "session rules"),
		},
		limits: rapid.SampledFrom([]permission.Limits{{}, {}, {RuleCost: 20_000}, {DecisionCost: 40}, {DecisionCost: 1}}).Draw(t, "limits"),
		terms:  []permission.Term{{Name: "named", Expr: `tool.name != ""`}, {Name: "tenant", Expr: "caller.tenant"}},
		ctx:    context.Background(),
		bad:    in.bad,
	}
	w.limits.Deadline = time.Minute
	if rapid.IntRange(0, 9).Draw(t, "cancelled") == 0 {
		gone, cancel := context.WithCancel(w.ctx)
		cancel()
		w.ctx, w.bad = gone, true
	}
	if rapid.IntRange(0, 3).Draw(t, "schema") == 0 {
		typed, err := permission.CompileSchema([]byte(typedInput))
		if err != nil {
			t.Fatal(err)
		}
		w.tool.Schema, w.bad = typed, w.bad || in.untyped
	}
	w.drawKind(t)
	for i := range rapid.IntRange(0, 6).Draw(t, "rules") {
		w.rules = append(w.rules, w.drawRule(t, fmt.Sprintf("r%d", i)))
	}
	if w.tool.Schema == nil && rapid.IntRange(0, 7).Draw(t, "indexed") == 0 {
		w.rules = append(w.rules, indexed(rapid.SampledFrom(behaviors).Draw(t, "indexed behavior"))...)
	}
	return w
}

// drawKind gives the tool a check, or a kind that works, fails or is unsure.
func (w *world) drawKind(t *rapid.T) {
	answer := permission.CheckResult(rapid.IntRange(0, 6).Draw(t, "check"))
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		part := rapid.SampledFrom([]string{"", "prepare", "read-only", "check", "answer", "suggest"}).Draw(t, "part")
		w.tool.Kind = faulty{part: part}
		w.bad = w.bad || part == "prepare" || part == "read-only" && !w.tool.ReadOnly
	case 1:
		w.tool.Kind = unclear{answer: answer}
	default:
		w.tool.Check = answers(answer)
	}
}

func (w world) bundle(t *rapid.T) *permission.Bundle {
	b, err := permission.Compile(permission.Policy{Rules: w.rules, Vocabulary: w.terms},
		permission.Options{Tools: []permission.Tool{w.tool, {Name: "u"}}, Limits: w.limits, Enforced: allDuties})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (w world) decide(t *rapid.T) permission.Decision {
	return w.bundle(t).Decide(w.ctx, w.req)
}

// indexed returns enough rules about one field that they are found by its value.
func indexed(behavior message.Behavior) []permission.Rule {
	var out []permission.Rule
	for i := range 12 {
		out = append(out, permission.Rule{Name: fmt.Sprintf("x%02d", i), Tools: []string{"t"}, Behavior: behavior, When: fmt.Sprintf("args.x == %d", i)})
	}
	return append(out, permission.Rule{Name: "xy", Tools: []string{"t"}, Behavior: behavior, When: `args.x == "y" && args.z == [1]`})
}

// with returns the world with one more rule.
func (w world) with(r permission.Rule) world {
	w.rules = append(slices.Clone(w.rules), r)
	return w
}

// withSessionAsk returns the world with one more rule of the session, for every call.
func (w world) withSessionAsk() world {
	w.req.SessionRules = append(slices.Clone(w.req.SessionRules), message.PermissionRule{ToolName: "t", Behavior: message.BehaviorAsk, Source: "user"})
	return w
}

// A rule that audits or warns changes only what is reported about it.
func TestWatchedRuleChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		r := w.drawRule(t, "added")
		r.Enforcement, r.Locked = rapid.SampledFrom([]permission.Enforcement{permission.EnforcementWarn, permission.EnforcementAudit}).Draw(t, "level"), false
		before, after := w.decide(t), w.with(r).decide(t)
		for _, seen := range after.Watched {
			if seen.Rule == r.Name && (seen.Behavior != r.Behavior || seen.Enforcement != r.Enforcement) {
				t.Fatalf("watched %+v for the rule %+v", seen, r)
			}
		}
		before.Bundle, after.Bundle, before.Watched, after.Watched = "", "", nil, nil
		if diff := cmp.Diff(before, after, sameErrors); diff != "" {
			t.Fatalf("a %s rule changes the decision:\n%s", r.Enforcement, diff)
		}
	})
}

// sameErrors compares the parts of a RuleError that are sent.
var sameErrors = cmp.Comparer(func(a, b permission.RuleError) bool {
	return a.Rule == b.Rule && a.Field == b.Field && a.Msg == b.Msg
})

var behaviors = []message.Behavior{message.BehaviorAllow, message.BehaviorAsk, message.BehaviorDeny}

func TestDecisionsAreSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		d := w.decide(t)
		allows := d.Behavior == message.BehaviorAllow
		switch {
		case !slices.Contains(behaviors, d.Behavior):
			t.Fatalf("behavior %q", d.Behavior)
		case w.req.Mode == permission.ModeDontAsk && d.Behavior == message.BehaviorAsk:
			t.Fatalf("dont_ask asks by %s", d.Step)
		case w.req.Mode == permission.ModeExplore && allows && !w.tool.ReadOnly:
			t.Fatalf("explore allows by %s", d.Step)
		case w.req.Mode == "unknown" && d.Behavior != message.BehaviorDeny:
			t.Fatalf("in an unknown mode the decision is %s by %s", d.Behavior, d.Step)
		case allows && w.bad:
			t.Fatalf("a call that fails outside the rules is allowed by %s", d.Step)
		case d.Behavior != message.BehaviorAsk && (d.BypassImmune || d.Requirement.Users != nil || d.Requirement.Expiry != 0):
			t.Fatalf("%s with fields of an approval request: %+v", d.Behavior, d)
		case d.Behavior != message.BehaviorAllow && d.Message == "":
			t.Fatalf("%s by %s without a text", d.Behavior, d.Step)
		}
	})
}

func TestOrderOfRulesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		shuffled := w
		shuffled.rules = rapid.Permutation(w.rules).Draw(t, "order")
		if a, b := w.bundle(t).Hash(), shuffled.bundle(t).Hash(); a != b {
			t.Fatalf("hashes %s and %s", a, b)
		}
		if diff := cmp.Diff(w.decide(t), shuffled.decide(t), sameErrors); diff != "" {
			t.Fatalf("decisions differ:\n%s", diff)
		}
	})
}

// Adding a deny rule, even one that fails and asks instead, makes every earlier decision at most
// stricter.
func TestAddingADenyRuleNeverLoosens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		r := w.drawRule(t, "added")
		r.Behavior, r.Approvers, r.Expiry, r.Remember, r.Executor = message.BehaviorDeny, permission.Approvers{}, 0, nil, permission.Executor{}
		if before, after := w.decide(t), w.with(r).decide(t); w.loosened(before, after) {
			t.Fatalf("%s by %s (%s) became %s by %s (%s)", before.Behavior, before.Step, before.Reason, after.Behavior, after.Step, after.Reason)
		}
		r.Tools, r.RuleContent, r.When, r.Locked, r.Enforcement = []string{"t"}, nil, "", true, ""
		if d := w.with(r).decide(t); d.Behavior != message.BehaviorDeny {
			t.Fatalf("with a deny rule for every call: %s by %s", d.Behavior, d.Step)
		}
	})
}

// Adding an ask rule makes decisions at most stricter, in all modes and for every earlier
// decision: by a rule, the tool's check, the mode, or a fault of the input.
func TestAddingAnAskRuleNeverLoosens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		r := w.drawRule(t, "added")
		r.Behavior = message.BehaviorAsk
		before, after := w.decide(t), w.with(r).decide(t)
		if w.loosened(before, after) {
			t.Fatalf("%s by %s became %s by %s", before.Behavior, before.Step, after.Behavior, after.Step)
		}
		if s := w.withSessionAsk().decide(t); w.loosened(before, s) {
			t.Fatalf("%s by %s became %s by %s with an ask rule of the session", before.Behavior, before.Step, s.Behavior, s.Step)
		}
		r.Tools, r.RuleContent, r.When, r.Enforcement = []string{"t"}, nil, "", ""
		if d := w.with(r).decide(t); d.Behavior == message.BehaviorAllow {
			t.Fatalf("with an ask rule for every call: allow by %s", d.Step)
		}
	})
}

// loosened reports whether b permits more than a. If the decision's budget is used up, later
// rules fail, and one more rule can turn a denial into the approval request of their on_error,
// but never into an allow.
func (w world) loosened(a, b permission.Decision) bool {
	return looser(a, b) && (w.limits.DecisionCost == 0 || b.Behavior == message.BehaviorAllow)
}

// looser reports whether b permits more than a.
func looser(a, b permission.Decision) bool {
	order := []message.Behavior{message.BehaviorDeny, message.BehaviorAsk, message.BehaviorAllow}
	return slices.Index(order, b.Behavior) > slices.Index(order, a.Behavior)
}

// An error injected into any rule never turns another decision into an allow, and an error in a
// deny or ask rule about the call never leaves an allow.
func TestInjectedErrorNeverAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		if len(w.rules) == 0 {
			return
		}
		i := rapid.IntRange(0, len(w.rules)-1).Draw(t, "rule")
		broken, without := w, w
		broken.rules, without.rules = slices.Clone(w.rules), slices.Delete(slices.Clone(w.rules), i, i+1)
		broken.rules[i].When = rapid.SampledFrom(w.failing()).Draw(t, "failing")
		d := broken.decide(t)
		if d.Behavior != message.BehaviorAllow {
			return
		}
		r := w.rules[i]
		if enforced := r.Enforcement == ""; enforced && r.Behavior != message.BehaviorAllow && !slices.Equal(r.Tools, []string{"u"}) {
			t.Fatalf("failing %s rule: allow by %s", r.Behavior, d.Step)
		}
		if o := without.decide(t); o.Behavior != message.BehaviorAllow {
			t.Fatalf("with a failing rule it is allowed by %s, without it the decision is %s", d.Step, o.Behavior)
		}
	})
}
