package permission_test

import (
	"context"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// modeTable is the decision table of doc.go: for each situation, the decision in default,
// accept_edits, explore, bypass and dont_ask. "+S" means suggested rules, "!" means immune.
var modeTable = []struct {
	name  string
	tool  permission.Tool
	rules []permission.Rule
	want  [5]string
}{
	{"nothing", permission.Tool{}, nil,
		[5]string{"ask+S fallback_ask", "ask+S fallback_ask", "deny fallback_explore", "allow fallback_bypass", "deny fallback_dont_ask"}},
	{"deny rule", permission.Tool{}, []permission.Rule{rule("d", "deny", ""), rule("k", "ask", ""), rule("a", "allow", "")},
		[5]string{"deny rule", "deny rule", "deny rule", "deny rule", "deny rule"}},
	{"deny rule, read-only tool", permission.Tool{ReadOnly: true}, []permission.Rule{rule("d", "deny", "")},
		[5]string{"deny rule", "deny rule", "deny rule", "deny rule", "deny rule"}},
	{"ask rule", permission.Tool{}, []permission.Rule{rule("k", "ask", ""), rule("a", "allow", "")},
		[5]string{"ask+S rule", "ask+S rule", "deny fallback_explore", "ask+S rule", "deny+S ask_converted_to_deny"}},
	{"ask rule, read-only tool", permission.Tool{ReadOnly: true}, []permission.Rule{rule("k", "ask", "")},
		[5]string{"ask+S rule", "ask+S rule", "ask+S rule", "ask+S rule", "deny+S ask_converted_to_deny"}},
	{"ask rule, tool denies", permission.Tool{Check: answers(permission.CheckDeny)}, []permission.Rule{rule("k", "ask", "")},
		[5]string{"deny tool_check", "deny tool_check", "deny fallback_explore", "deny tool_check", "deny+S ask_converted_to_deny"}},
	{"ask rule, tool asks immune", permission.Tool{Check: answers(permission.CheckAskImmune)}, []permission.Rule{rule("k", "ask", "")},
		[5]string{"ask+S rule", "ask+S rule", "deny fallback_explore", "ask+S rule", "deny+S ask_converted_to_deny"}},
	{"failing deny rule that asks", permission.Tool{}, []permission.Rule{rule("d", "deny", "args.missing == 1")},
		[5]string{"ask+S error", "ask+S error", "deny fallback_explore", "ask+S error", "deny+S ask_converted_to_deny"}},
	{"read-only tool", permission.Tool{ReadOnly: true, Check: answers(permission.CheckDeny)}, nil,
		[5]string{"allow read_only", "allow read_only", "allow read_only", "allow read_only", "allow read_only"}},
	{"tool denies", permission.Tool{Check: answers(permission.CheckDeny)}, []permission.Rule{rule("a", "allow", "")},
		[5]string{"deny tool_check", "deny tool_check", "deny fallback_explore", "deny tool_check", "deny tool_check"}},
	{"tool allows", permission.Tool{Check: answers(permission.CheckAllow)}, nil,
		[5]string{"allow tool_check", "allow tool_check", "deny fallback_explore", "allow tool_check", "allow tool_check"}},
	{"tool asks immune", permission.Tool{Check: answers(permission.CheckAskImmune)}, []permission.Rule{rule("a", "allow", "")},
		[5]string{"ask+S! tool_check", "ask+S! tool_check", "deny fallback_explore", "allow allow_rule", "deny+S ask_converted_to_deny"}},
	{"tool asks immune, no rule", permission.Tool{Check: answers(permission.CheckAskImmune)}, nil,
		[5]string{"ask+S! tool_check", "ask+S! tool_check", "deny fallback_explore", "allow fallback_bypass", "deny+S ask_converted_to_deny"}},
	{"tool lets no rule allow", permission.Tool{Check: answers(permission.CheckUncovered)}, []permission.Rule{rule("a", "allow", "")},
		[5]string{"ask+S fallback_ask", "ask+S fallback_ask", "deny fallback_explore", "allow allow_rule", "deny fallback_dont_ask"}},
	{"tool lets no rule allow, no rule", permission.Tool{Check: answers(permission.CheckUncovered)}, nil,
		[5]string{"ask+S fallback_ask", "ask+S fallback_ask", "deny fallback_explore", "allow fallback_bypass", "deny fallback_dont_ask"}},
	{"tool asks", permission.Tool{Check: answers(permission.CheckAsk)}, nil,
		[5]string{"ask+S fallback_ask", "ask+S fallback_ask", "deny fallback_explore", "allow fallback_bypass", "deny fallback_dont_ask"}},
	{"tool asks, allow rule", permission.Tool{Check: answers(permission.CheckAsk)}, []permission.Rule{rule("a", "allow", "")},
		[5]string{"allow allow_rule", "allow allow_rule", "deny fallback_explore", "allow allow_rule", "allow allow_rule"}},
	{"tool passes", permission.Tool{Check: answers(permission.CheckPassthrough)}, []permission.Rule{rule("a", "allow", "")},
		[5]string{"allow allow_rule", "allow allow_rule", "deny fallback_explore", "allow allow_rule", "allow allow_rule"}},
	{"tool panics", permission.Tool{Check: func(permission.Call) permission.ToolVerdict { panic("boom") }}, []permission.Rule{rule("a", "allow", "")},
		[5]string{"ask+S! error", "ask+S! error", "deny fallback_explore", "ask+S! error", "deny+S ask_converted_to_deny"}},
	{"tool gives an unknown answer", permission.Tool{Check: answers(99)}, []permission.Rule{rule("a", "allow", "")},
		[5]string{"ask+S! error", "ask+S! error", "deny fallback_explore", "ask+S! error", "deny+S ask_converted_to_deny"}},
	{"allow rule", permission.Tool{}, []permission.Rule{rule("a", "allow", "")},
		[5]string{"allow allow_rule", "allow allow_rule", "deny fallback_explore", "allow allow_rule", "allow allow_rule"}},
	{"allow rule that does not match", permission.Tool{}, []permission.Rule{rule("a", "allow", "args.x == 2")},
		[5]string{"ask+S fallback_ask", "ask+S fallback_ask", "deny fallback_explore", "allow fallback_bypass", "deny fallback_dont_ask"}},
}

func answers(a permission.CheckResult) func(permission.Call) permission.ToolVerdict {
	return func(permission.Call) permission.ToolVerdict { return permission.ToolVerdict{Answer: a} }
}

func TestModes(t *testing.T) {
	for _, row := range modeTable {
		row.tool.Name = "t"
		b := compile(t, permission.Options{Tools: []permission.Tool{row.tool}}, row.rules...)
		for i, mode := range allModes {
			if got := summary(decide(b, mode, `{"x": 1}`)); got != row.want[i] {
				t.Errorf("%s in %s: %s, want %s", row.name, mode, got, row.want[i])
			}
		}
	}
}

func summary(d permission.Decision) string {
	s := string(d.Behavior)
	if d.Suggested != nil {
		s += "+S"
	}
	if d.BypassImmune {
		s += "!"
	}
	return s + " " + string(d.Step)
}

func TestModeOfTheBundleIsTheDefault(t *testing.T) {
	b, err := permission.Compile(permission.Policy{Mode: permission.ModeBypass}, permission.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := decide(b, "", `{}`); d.Step != permission.StepFallbackBypass || d.Mode != permission.ModeBypass {
		t.Errorf("without a mode: %s in %s", d.Step, d.Mode)
	}
	if d := decide(b, permission.ModeDontAsk, `{}`); d.Step != permission.StepFallbackDontAsk {
		t.Errorf("with a mode: %s", d.Step)
	}
}

func TestParseMode(t *testing.T) {
	for _, m := range allModes {
		if got, err := permission.ParseMode(string(m)); err != nil || got != m {
			t.Errorf("ParseMode(%q) = %q, %v", m, got, err)
		}
	}
	for _, bad := range []string{"", "Default", "plan", "bypass "} {
		if m, err := permission.ParseMode(bad); err == nil {
			t.Errorf("ParseMode(%q) = %q", bad, m)
		}
	}
}

func TestDenialsNameToolAndRule(t *testing.T) {
	b := compile(t, permission.Options{}, rule("no-t", "deny", ""))
	d := decide(b, permission.ModeDefault, `{}`)
	for _, part := range []string{"t", "no-t", "Permission denied"} {
		if !strings.Contains(d.Message, part) {
			t.Errorf("message %q does not contain %q", d.Message, part)
		}
	}
	if d.Source != "test" || d.Reason == "" {
		t.Errorf("source %q, reason %q", d.Source, d.Reason)
	}
}

// A Bundle that was never compiled must not decide by accident.
func TestWithoutBundleEverythingIsDenied(t *testing.T) {
	for name, b := range map[string]*permission.Bundle{"nil": nil, "zero": {}} {
		for _, mode := range append(allModes, "") {
			d := decide(b, mode, `{}`)
			if d.Behavior != message.BehaviorDeny || d.Step != permission.StepNoPolicy || d.Bundle != "" {
				t.Errorf("%s bundle in %q: %s by %s of %q", name, mode, d.Behavior, d.Step, d.Bundle)
			}
		}
		if d, hit := b.Denied(context.Background(), permission.Request{Tool: "t"}); !hit || d.Behavior != message.BehaviorDeny {
			t.Errorf("%s bundle: Denied = %v, %v", name, d.Behavior, hit)
		}
		if b.Mode() != permission.ModeDefault || b.Rules() != 0 {
			t.Errorf("%s bundle: mode %s, %d rules", name, b.Mode(), b.Rules())
		}
	}
}

// The zero Decision does not allow, not even after encoding as JSON.
func TestZeroDecisionIsNotAllow(t *testing.T) {
	if (permission.Decision{}).Behavior == message.BehaviorAllow {
		t.Error("the zero decision allows")
	}
}

func TestDenied(t *testing.T) {
	b := compile(t, permission.Options{},
		rule("deny", "deny", `args.x == "deny"`), rule("fails", "deny", `args.y == 1`), rule("asks", "ask", ""))
	for _, c := range []struct {
		input string
		want  message.Behavior
		step  permission.Step
	}{
		{`{"x": "deny", "y": 0}`, message.BehaviorDeny, permission.StepRule},
		{`{"x": "ok", "y": 1}`, message.BehaviorDeny, permission.StepRule},
		{`{"x": "ok"}`, message.BehaviorAsk, permission.StepError},
		{`{"x": "ok", "y": 2}`, "", ""}, // ask rules are not consulted
		{`[]`, message.BehaviorAsk, permission.StepError},
	} {
		d, hit := b.Denied(context.Background(), permission.Request{Tool: "t", Input: []byte(c.input)})
		if d.Behavior != c.want || d.Step != c.step || hit != (c.want != "") {
			t.Errorf("Denied(%s) = %v %q %q, want %q %q", c.input, hit, d.Behavior, d.Step, c.want, c.step)
		}
	}
}

// A call that cannot be evaluated does not run, even if no deny rule applies to it.
func TestDeniedWithoutDenyRules(t *testing.T) {
	b := compile(t, permission.Options{}, rule("allows", "allow", ""))
	for _, c := range []struct {
		name  string
		ended bool // whether the context has ended
		req   permission.Request
	}{
		{"no object", false, permission.Request{Tool: "t", Input: []byte(`[]`)}},
		{"unknown mode", false, permission.Request{Tool: "t", Input: []byte(`{}`), Mode: "free"}},
		{"context that has ended", true, permission.Request{Tool: "t", Input: []byte(`{}`)}},
	} {
		ctx, end := context.WithCancel(context.Background())
		if c.ended {
			end()
		}
		d, hit := b.Denied(ctx, c.req)
		end()
		if !hit || d.Behavior == message.BehaviorAllow || d.Step == permission.StepAllowRule {
			t.Errorf("%s: %v %s by %s", c.name, hit, d.Behavior, d.Step)
		}
	}
	if d, hit := b.Denied(context.Background(), permission.Request{Tool: "t", Input: []byte(`{}`)}); hit {
		t.Errorf("a harmless call: %s by %s", d.Behavior, d.Step)
	}
}
