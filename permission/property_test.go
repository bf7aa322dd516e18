package permission_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// world is a random policy and a random call.
type world struct {
	rules []permission.Rule
	tool  permission.Tool
	req   permission.Request
	// strict takes the steps in AgentScope's order.
	strict bool
}

// conditions are true, false or failing, whatever the call.
var (
	trueWhen    = []string{"", `tool.name == "t"`, `ctx.mode != "none"`}
	falseWhen   = []string{"false && true", `tool.name == "nobody"`}
	failingWhen = []string{"args.missing == 1", `size(args.missing) == 1`, "1 / 0 == 1"}
	// argWhen depend on the input, in ways that guards and indexes look at.
	argWhen = []string{`args.x == 1`, `args.x == "y"`, `args.x == 2`, `args.x != "y"`, `args.x == 1 && args.missing == 2`, `args.missing == 2 && args.x == "y"`,
		`has(args.x) && args.x == 1`, `args.x in ["y", "z"]`, `args.z.exists(i, i == 1)`, `args.x.startsWith("y")`, `args.x < 5`}
	inputs = []string{`{}`, `{"x": 1}`, `{"x": "y", "z": [1]}`, `[]`, ``, `{"x": 1, "x": 1}`}
)

func drawRule(t *rapid.T, name string) permission.Rule {
	r := permission.Rule{
		Name:     name,
		Tools:    rapid.SampledFrom([][]string{{"t"}, {"u"}, {"t", "u"}}).Draw(t, "tools"),
		Behavior: rapid.SampledFrom([]message.Behavior{message.BehaviorDeny, message.BehaviorAsk, message.BehaviorAllow}).Draw(t, "behavior"),
		When:     rapid.SampledFrom(slices.Concat(trueWhen, falseWhen, failingWhen, argWhen)).Draw(t, "when"),
		Message:  rapid.SampledFrom([]string{"", `"go on with " + tool.name + "?"`, "args.missing"}).Draw(t, "message"),
		Source:   rapid.SampledFrom([]string{"user", "project"}).Draw(t, "source"),
	}
	if r.Message == "args.missing" {
		r.Message = `"" + args.missing`
	}
	if r.Behavior != message.BehaviorAllow {
		r.OnError = rapid.SampledFrom([]permission.OnError{"", permission.OnErrorAsk, permission.OnErrorDeny}).Draw(t, "on_error")
		r.Locked = rapid.Bool().Draw(t, "locked")
		if rapid.Bool().Draw(t, "any tool") {
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
	}
	return r
}

func drawWorld(t *rapid.T) world {
	w := world{
		tool: permission.Tool{
			Name:     "t",
			ReadOnly: rapid.Bool().Draw(t, "read-only"),
			Check:    answers(permission.CheckAnswer(rapid.IntRange(0, 6).Draw(t, "check"))),
		},
		req: permission.Request{
			Tool:  "t",
			Input: []byte(rapid.SampledFrom(inputs).Draw(t, "input")),
			Mode:  rapid.SampledFrom(append(allModes, "", "unknown")).Draw(t, "mode"),
			SessionRules: rapid.SampledFrom([][]message.PermissionRule{nil,
				{{ToolName: "t", Behavior: message.BehaviorAllow, Source: "suggested"}},
				{{ToolName: "t", Behavior: message.BehaviorDeny, Source: "user"}},
				{{ToolName: "t", Behavior: message.BehaviorAsk, RuleContent: new("x"), Source: "user"}},
			}).Draw(t, "session rules"),
		},
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "rules") {
		w.rules = append(w.rules, drawRule(t, fmt.Sprintf("r%d", i)))
	}
	if rapid.IntRange(0, 7).Draw(t, "indexed") == 0 {
		w.rules = append(w.rules, indexed(rapid.SampledFrom(behaviors).Draw(t, "indexed behavior"))...)
	}
	return w
}

func (w world) bundle(t *rapid.T) *permission.Bundle {
	b, err := permission.Compile(permission.Policy{Rules: w.rules},
		permission.Options{StrictAgentScope: w.strict, Tools: []permission.Tool{w.tool, {Name: "u"}}, Limits: permission.Limits{Deadline: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (w world) decide(t *rapid.T) permission.Decision {
	return w.bundle(t).Decide(context.Background(), w.req)
}

// indexed are so many rules about one field that they are found by its value.
func indexed(behavior message.Behavior) []permission.Rule {
	var out []permission.Rule
	for i := range 12 {
		out = append(out, permission.Rule{Name: fmt.Sprintf("x%02d", i), Tools: []string{"t"}, Behavior: behavior, When: fmt.Sprintf("args.x == %d", i)})
	}
	return append(out, permission.Rule{Name: "xy", Tools: []string{"t"}, Behavior: behavior, When: `args.x == "y" && args.z == [1]`})
}

// with is the world with one more rule.
func (w world) with(r permission.Rule) world {
	w.rules = append(slices.Clone(w.rules), r)
	return w
}

// withSessionAsk is the world with one more rule of the session, for every call.
func (w world) withSessionAsk() world {
	w.req.SessionRules = append(slices.Clone(w.req.SessionRules), message.PermissionRule{ToolName: "t", Behavior: message.BehaviorAsk, Source: "user"})
	return w
}

// An audited or warning rule changes nothing but what is reported about it.
func TestWatchedRuleChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		r := drawRule(t, "added")
		r.Enforcement, r.Locked = rapid.SampledFrom([]permission.Enforcement{permission.EnforcementWarn, permission.EnforcementAudit}).Draw(t, "level"), false
		before, after := w.decide(t), w.with(r).decide(t)
		for _, seen := range after.Watched {
			if seen.Rule == r.Name && (seen.Behavior != r.Behavior || seen.Enforcement != r.Enforcement) {
				t.Fatalf("watched %+v of %+v", seen, r)
			}
		}
		before.Bundle, after.Bundle, before.Watched, after.Watched = "", "", nil, nil
		if diff := cmp.Diff(before, after, sameErrors); diff != "" {
			t.Fatalf("a %s rule changes the decision:\n%s", r.Enforcement, diff)
		}
	})
}

// sameErrors compares what travels of a RuleError.
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
			t.Fatalf("an unknown mode ends in %s by %s", d.Behavior, d.Step)
		case allows && slices.Contains(inputs[3:], string(w.req.Input)):
			t.Fatalf("bad input is allowed by %s", d.Step)
		case d.Behavior != message.BehaviorAsk && (d.BypassImmune || d.Requirement.Users != nil || d.Requirement.Expiry != 0):
			t.Fatalf("%s with what belongs to a question: %+v", d.Behavior, d)
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

// A deny rule that is added only makes stricter, whoever has decided before; one
// that fails and asks instead, too.
func TestAddingADenyRuleNeverLoosens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		r := drawRule(t, "added")
		r.Behavior, r.Approvers, r.Expiry = message.BehaviorDeny, permission.Approvers{}, 0
		if before, after := w.decide(t), w.with(r).decide(t); looser(before, after) {
			t.Fatalf("%s by %s became %s by %s", before.Behavior, before.Step, after.Behavior, after.Step)
		}
		r.Tools, r.When, r.Locked, r.Enforcement = []string{"t"}, "", true, ""
		if d := w.with(r).decide(t); d.Behavior != message.BehaviorDeny {
			t.Fatalf("beside a deny rule for every call: %s by %s", d.Behavior, d.Step)
		}
	})
}

// An ask rule that is added only makes stricter, in all modes and whoever has
// decided before: a rule, the tool's check, the mode, a fault of the input. Only
// where AgentScope's own order is wanted it can stand in for a denial that no
// rule gave.
func TestAddingAnAskRuleNeverLoosens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.strict = rapid.IntRange(0, 3).Draw(t, "strict") == 0
		r := drawRule(t, "added")
		r.Behavior = message.BehaviorAsk
		before, after := w.decide(t), w.with(r).decide(t)
		byRule := before.Rule != "" || before.Step == permission.StepRule
		upstream := w.strict && before.Behavior == message.BehaviorDeny && !byRule
		if looser(before, after) && (!upstream || after.Behavior != message.BehaviorAsk) {
			t.Fatalf("%s by %s became %s by %s", before.Behavior, before.Step, after.Behavior, after.Step)
		}
		if s := w.withSessionAsk().decide(t); !w.strict && looser(before, s) {
			t.Fatalf("%s by %s became %s by %s with an ask rule of the session", before.Behavior, before.Step, s.Behavior, s.Step)
		}
		r.Tools, r.When, r.Enforcement = []string{"t"}, "", ""
		if d := w.with(r).decide(t); d.Behavior == message.BehaviorAllow {
			t.Fatalf("beside an ask rule for every call: allow by %s", d.Step)
		}
	})
}

// looser reports whether b lets more happen than a.
func looser(a, b permission.Decision) bool {
	order := []message.Behavior{message.BehaviorDeny, message.BehaviorAsk, message.BehaviorAllow}
	return slices.Index(order, b.Behavior) > slices.Index(order, a.Behavior)
}

// An error injected into any rule never makes an allow out of something else,
// and one in a deny or ask rule about the call never leaves an allow.
func TestInjectedErrorNeverAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		if len(w.rules) == 0 {
			return
		}
		i := rapid.IntRange(0, len(w.rules)-1).Draw(t, "rule")
		broken, without := w, w
		broken.rules, without.rules = slices.Clone(w.rules), slices.Delete(slices.Clone(w.rules), i, i+1)
		broken.rules[i].When = rapid.SampledFrom(failingWhen).Draw(t, "failing")
		d := broken.decide(t)
		if d.Behavior != message.BehaviorAllow {
			return
		}
		r := w.rules[i]
		if enforced := r.Enforcement == ""; enforced && r.Behavior != message.BehaviorAllow && !slices.Equal(r.Tools, []string{"u"}) {
			t.Fatalf("failing %s rule: allow by %s", r.Behavior, d.Step)
		}
		if o := without.decide(t); o.Behavior != message.BehaviorAllow {
			t.Fatalf("with a failing rule allow by %s, without it %s", d.Step, o.Behavior)
		}
	})
}
