package permission_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/shell"
)

// faulty is a kind with one part that panics.
type faulty struct {
	prefixMatcher
	part string
}

func (f faulty) Name() string { return "faulty" }

func (f faulty) fails(part string) {
	if f.part == part {
		panic("in " + part)
	}
}

func (f faulty) Prepare(permission.Call) any { f.fails("prepare"); return nil }

func (f faulty) ReadOnly(permission.Call) bool { f.fails("read-only"); return false }

func (f faulty) Check(permission.Call) permission.ToolVerdict {
	f.fails("check")
	if f.part == "answer" {
		return permission.ToolVerdict{Answer: 99}
	}
	return permission.ToolVerdict{Answer: permission.CheckAsk}
}

func (f faulty) Suggest(permission.Call) []message.PermissionRule {
	f.fails("suggest")
	return nil
}

// If a tool's kind fails, the call is not allowed, in any mode and with any rules, and the
// failure is reported.
func TestFaultsOfAKind(t *testing.T) {
	for _, part := range []string{"prepare", "read-only", "check", "answer"} {
		for _, rules := range [][]permission.Rule{nil, {rule("a", "allow", "")}, {rule("k", "ask", ""), rule("a", "allow", "")}, {rule("k", "ask", "args.missing == 1")}} {
			b := compile(t, permission.Options{Tools: []permission.Tool{{Name: "t", Kind: faulty{part: part}}}}, rules...)
			for _, mode := range allModes {
				d := decide(b, mode, `{"x": 1}`)
				if d.Behavior == message.BehaviorAllow {
					t.Errorf("%s fails, %d rules, mode %s: allow by %s", part, len(rules), mode, d.Step)
				}
				if mode == permission.ModeExplore && part != "prepare" && part != "read-only" || d.Step == permission.StepAskConverted && len(rules) > 0 {
					continue // the failing part is not consulted or comes later
				}
				told := func(e permission.RuleError) bool {
					return e.Field == "check" && e.Rule == "" && (part == "answer" || strings.Contains(e.Msg, "in "+part))
				}
				if !slices.ContainsFunc(d.Errors, told) {
					t.Errorf("%s fails, %d rules, mode %s: %s by %s, errors %v", part, len(rules), mode, d.Behavior, d.Step, d.Errors)
				}
				if d.Step == permission.StepError && d.Rule == "" && part == "read-only" && (!strings.Contains(d.Reason, "in read-only") || d.Suggested != nil) {
					t.Errorf("%s: reason %q, suggested %v", part, d.Reason, d.Suggested)
				}
			}
		}
	}
}

// If a matcher fails to suggest rules, the approval request has no suggestions.
func TestFaultOfASuggestion(t *testing.T) {
	b := compile(t, permission.Options{Tools: []permission.Tool{{Name: "t", Kind: faulty{part: "suggest"}}}})
	d := decide(b, permission.ModeDefault, `{"x": 1}`)
	if d.Behavior != message.BehaviorAsk || len(d.Suggested) != 0 || len(d.Errors) != 1 || d.Errors[0].Field != "rule_content" {
		t.Errorf("%s, suggested %v, errors %v", d.Behavior, d.Suggested, d.Errors)
	}
}

// A call that cannot be evaluated before it starts is denied.
func TestDeniedWithFaults(t *testing.T) {
	b := compile(t, permission.Options{Tools: []permission.Tool{{Name: "t", Kind: faulty{part: "prepare"}}, {Name: "u", ReadOnly: true}}})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for what, tc := range map[string]struct {
		ctx context.Context //nolint:containedctx // of one case
		req permission.Request
		in  string
	}{
		"an unknown mode":  {t.Context(), permission.Request{Tool: "u", Input: []byte(`{}`), Mode: "unknown"}, "mode"},
		"no JSON":          {t.Context(), permission.Request{Tool: "u", Input: []byte(`{`)}, "input"},
		"an ended context": {gone, permission.Request{Tool: "u", Input: []byte(`{}`)}, "context"},
		"a kind's fault":   {t.Context(), permission.Request{Tool: "t", Input: []byte(`{}`)}, "check"},
	} {
		d, denied := b.Denied(tc.ctx, tc.req)
		if !denied || d.Behavior == message.BehaviorAllow || d.Behavior == "" || d.Step != permission.StepError || d.Errors[0].Field != tc.in {
			t.Errorf("%s: %v, %s by %s, errors %v", what, denied, d.Behavior, d.Step, d.Errors)
		}
	}
}

// An error of a deny rule may quote a redacted value. It is not shown when the call is decided,
// nor when it is checked again before it starts.
func TestErrorsShowNothingHidden(t *testing.T) {
	hides := rule("h", "deny", `duration(args.secret) > duration("1s")`)
	hides.Redact = []string{"args.secret"}
	b := compile(t, permission.Options{Enforced: allDuties}, hides)
	req := permission.Request{Tool: "t", Input: []byte(`{"secret": "hunter2"}`)}
	denied, hit := b.Denied(t.Context(), req)
	if !hit {
		t.Error("a failing deny rule denies nothing")
	}
	for _, d := range []permission.Decision{b.Decide(t.Context(), req), denied} {
		if len(d.Errors) != 1 || strings.Contains(fmt.Sprint(d.Errors[0].Msg, d.Message, d.Reason), "hunter2") || !strings.Contains(d.Errors[0].Msg, "hidden") {
			t.Errorf("errors %v, message %q, reason %q", d.Errors, d.Message, d.Reason)
		}
	}
}

// A denial because no person can answer also reports the errors.
func TestErrorsOfARequestThatNobodyCanAnswer(t *testing.T) {
	one, other, failing := rule("a", "ask", ""), rule("b", "ask", ""), rule("c", "ask", "args.missing == 1")
	one.Approvers.Users, other.Approvers.Users = []string{"ann"}, []string{"bob"}
	d := decide(compile(t, permission.Options{}, one, other, failing), permission.ModeDefault, `{}`)
	if d.Behavior != message.BehaviorDeny || d.Rule != "a" || len(d.Errors) != 1 || d.Errors[0].Rule != "c" {
		t.Errorf("%s by %s, errors %v", d.Behavior, d.Rule, d.Errors)
	}
}

// An approval request names all rules that ask, and marks a rule that failed.
func TestReasonsOfRequests(t *testing.T) {
	failing, second, third := rule("a", "ask", "args.missing == 1"), rule("b", "ask", `tool.name == "t"`), rule("c", "ask", "")
	for _, tc := range []struct {
		rules []permission.Rule
		want  string
	}{
		{[]permission.Rule{failing}, "rule a: the rule could not be evaluated"},
		{[]permission.Rule{second}, `rule b: tool.name == "t"`},
		{[]permission.Rule{third, failing, second}, `rule b: tool.name == "t"; also c, a`},
	} {
		if d := decide(compile(t, permission.Options{}, tc.rules...), permission.ModeDefault, `{}`); d.Reason != tc.want {
			t.Errorf("reason %q, want %q", d.Reason, tc.want)
		}
	}
}

// unclear is a kind whose deny and ask rules cannot tell whether they match a call.
type unclear struct {
	faulty
	answer permission.CheckResult
}

func (unclear) Compile(_ string, b message.Behavior) (permission.Pattern, error) {
	if b == message.BehaviorAllow {
		return always{}, nil
	}
	return nobodyKnows{}, nil
}

func (u unclear) Check(permission.Call) permission.ToolVerdict {
	return permission.ToolVerdict{Answer: u.answer}
}

type (
	nobodyKnows struct{}
	always      struct{}
)

func (nobodyKnows) Match(permission.Call) (bool, error) {
	return false, fmt.Errorf("a variable: %w", shell.ErrUnclear)
}

func (always) Match(permission.Call) (bool, error) { return true, nil }

// A rule that may match a call never lets it run without approval. If the call is asked about or
// denied anyway, the rule changes nothing.
func TestRulesInDoubt(t *testing.T) {
	ask, deny := message.BehaviorAsk, message.BehaviorDeny
	for _, row := range []struct {
		name   string
		answer permission.CheckResult
		rules  []permission.Rule
		want   map[permission.Mode]message.Behavior
		step   permission.Step // in default mode
	}{
		{"alone", permission.CheckAsk, nil, responsesOf(ask, ask, deny, ask, deny), permission.StepFallbackAsk},
		{"the tool allows", permission.CheckAllow, nil, responsesOf(ask, ask, deny, ask, deny), permission.StepError},
		{"the tool denies", permission.CheckDeny, nil, responsesOf(deny, deny, deny, deny, deny), permission.StepToolCheck},
		{"a rule allows", permission.CheckAsk, []permission.Rule{rule("a", "allow", "")}, responsesOf(ask, ask, deny, ask, deny), permission.StepError},
		{"a rule asks", permission.CheckAsk, []permission.Rule{rule("k", "ask", "")}, responsesOf(ask, ask, deny, ask, deny), permission.StepRule},
		{"a rule denies", permission.CheckAllow, []permission.Rule{rule("d", "deny", "")}, responsesOf(deny, deny, deny, deny, deny), permission.StepRule},
		{"another rule fails", permission.CheckAsk, []permission.Rule{rule("k", "ask", "args.missing == 1")}, responsesOf(ask, ask, deny, ask, deny), permission.StepError},
	} {
		for _, behavior := range []message.Behavior{deny, ask} {
			doubtful := rule("q", behavior, "")
			doubtful.RuleContent = new("x")
			b := compile(t, permission.Options{Tools: []permission.Tool{{Name: "t", Kind: unclear{answer: row.answer}}}}, append(slices.Clone(row.rules), doubtful)...)
			for _, mode := range allModes {
				d := decide(b, mode, `{}`)
				if d.Behavior != row.want[mode] || mode == permission.ModeDefault && d.Step != row.step {
					t.Errorf("%s, a doubtful %s rule, mode %s: %s by %s, want %s (in default by %s)", row.name, behavior, mode, d.Behavior, d.Step, row.want[mode], row.step)
				}
			}
		}
	}
}
