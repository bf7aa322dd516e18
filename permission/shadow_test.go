package permission_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// reader is a kind that counts how often it reads a call.
type reader struct {
	prefixMatcher
	reads *atomic.Int64
}

func (reader) Name() string { return "reader" }

func (r reader) Prepare(c permission.Call) any {
	r.reads.Add(1)
	if c.Input["cmd"] == "panic" {
		panic(errors.New("unreadable"))
	}
	return c.Input["cmd"]
}

func (reader) ReadOnly(c permission.Call) bool { return c.Prepared == "ls" }

func (reader) Check(permission.Call) permission.ToolVerdict { return permission.ToolVerdict{} }

// A call is read once for the live policy and its shadow, and each decides as it would without
// the other.
func TestShadowSharesTheReading(t *testing.T) {
	reads := new(atomic.Int64)
	tools := []permission.Tool{{Name: "t", Kind: reader{reads: reads}}}
	policies := map[string]string{
		"live":   "version: 1\nname: a\nrules: [{name: a, tool: t, rule_content: git, behavior: allow}, {name: d, tool: t, rule_content: rm, behavior: deny}]\n",
		"shadow": "version: 1\nname: b\ndefaults: {mode: bypass}\nrules: [{name: k, tool: t, behavior: ask, when: 'args.cmd == \"git push\"'}]\n",
	}
	live, err := permission.NewLive(&memory{text: policies["live"]}, permission.LiveOptions{
		Options: permission.Options{Tools: tools}, Shadow: &memory{text: policies["shadow"]}})
	if err != nil {
		t.Fatal(err)
	}
	if err := live.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	alone := map[string]*permission.Bundle{}
	for name, text := range policies {
		if alone[name], err = permission.Load([]permission.File{{Name: name, Data: []byte(text)}}, permission.Options{Tools: tools}); err != nil {
			t.Fatal(err)
		}
	}
	differing := uint64(0)
	for _, input := range []string{`{"cmd": "ls"}`, `{"cmd": "git push"}`, `{"cmd": "rm x"}`, `{"cmd": "panic"}`, `{"cmd": 5}`, `[]`, `{}`} {
		for _, mode := range append(allModes, "") { // without a mode each policy uses its own
			req := permission.Request{Tool: "t", Input: []byte(input), Mode: mode}
			want, other := alone["live"].Decide(context.Background(), req), alone["shadow"].Decide(context.Background(), req)
			before := reads.Load()
			got := live.Decide(context.Background(), req)
			if n := reads.Load() - before; n > 1 && mode != "" || n > 2 {
				t.Errorf("%s in %q is read %d times", input, mode, n)
			}
			if got.Behavior != want.Behavior || got.Step != want.Step {
				t.Errorf("%s in %q: %s by %s, want %s by %s", input, mode, got.Behavior, got.Step, want.Behavior, want.Step)
			}
			if want.Behavior != other.Behavior {
				differing++
			}
		}
	}
	if s := live.Status().Shadow; s.Differing != differing || differing == 0 {
		t.Errorf("%d of %d calls differ, want %d", s.Differing, s.Compared, differing)
	}
	if d := live.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(`{"cmd": "rm y"}`), Mode: permission.ModeBypass}); d.Behavior != message.BehaviorDeny {
		t.Errorf("rm: %s by %s", d.Behavior, d.Step)
	}
}

// If a new policy or a new shadow shares no rule with the former one, the comparison restarts,
// because the old figures are about another pair.
func TestComparisonIsOfOnePair(t *testing.T) {
	p, source, _, _ := liveOn(t, policyText(ruleText("all", "allow", "")), policyText(ruleText("none", "deny", "")))
	for range 3 {
		ask(p, `{}`)
	}
	source.set(policyText(ruleText("other", "allow", "")))
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(p, `{}`)
	if s := p.Status().Shadow; s.Compared != 1 || s.Differing != 1 || len(s.Differences) != 1 || s.Differences[0].Live.Rule != "other" {
		t.Errorf("after another policy came into force: %+v", s)
	}
}

// No comparison is made with a missing policy, or with a decision that only the context caused.
func TestWhatIsNotCompared(t *testing.T) {
	empty, err := permission.NewLive(&memory{text: "nonsense"}, permission.LiveOptions{
		Options: permission.Options{Tools: []permission.Tool{{Name: "t"}}}, Shadow: &memory{text: policyText(ruleText("a", "allow", ""))}})
	if err != nil {
		t.Fatal(err)
	}
	if err := empty.Reload(t.Context()); err == nil {
		t.Fatal("an invalid policy is accepted")
	}
	ask(empty, `{}`)
	if s := empty.Status().Shadow; s.Compared != 0 || s.Rules != 1 {
		t.Errorf("before there is a policy: %+v", s)
	}
	p, _, _, _ := liveOn(t, policyText(ruleText("all", "allow", "")), policyText(ruleText("none", "deny", "")))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	p.Decide(gone, permission.Request{Tool: "t", Input: []byte(`{}`)})
	if s := p.Status().Shadow; s.Compared != 0 {
		t.Errorf("with a context that has ended: %+v", s)
	}
	if err := error(&permission.ShadowError{Err: context.Canceled}); err.Error() != "shadow policy: context canceled" || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	half, err := permission.NewLive(&memory{text: policyText(ruleText("all", "allow", ""))}, permission.LiveOptions{
		Options: permission.Options{Tools: []permission.Tool{{Name: "t"}}}, Shadow: &memory{text: "nonsense"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := half.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(half, `{}`)
	if s := half.Status().Shadow; s.Compared != 0 || s.Alarm == "" {
		t.Errorf("before there is a shadow: %+v", s)
	}
}

// The most frequent differences come first. Equally frequent ones are ordered by tool, mode,
// rules and steps.
func TestDifferencesAreSorted(t *testing.T) {
	text := "version: 1\nname: p\nrules:\n"
	for _, r := range []struct{ name, tools, behavior, when string }{
		{"a", "[t, u]", "allow", "args.x < 10"}, {"b", "[t, u]", "allow", "args.x >= 10"},
	} {
		text += fmt.Sprintf("  - {name: %s, tool: %s, behavior: %s, when: '%s'}\n", r.name, r.tools, r.behavior, r.when)
	}
	candidate := "version: 1\nname: p\nrules:\n  - {name: d, tool: [t, u], behavior: deny, when: 'args.x % 10 < 5'}\n" +
		"  - {name: q, tool: [t, u], behavior: ask, when: 'args.x % 10 == 5 || (args.x % 10 > 5 && args.missing)'}\n"
	live, err := permission.NewLive(&memory{text: text}, permission.LiveOptions{
		Options: permission.Options{Tools: []permission.Tool{{Name: "t"}, {Name: "u"}}}, Shadow: &memory{text: candidate}})
	if err != nil {
		t.Fatal(err)
	}
	if err := live.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	call := func(tool string, mode permission.Mode, x int) {
		live.Decide(context.Background(), permission.Request{Tool: tool, Mode: mode, Input: fmt.Appendf(nil, `{"x": %d}`, x)})
	}
	// Each kind once, in an order that is different from the expected ones.
	for _, x := range []int{16, 6, 15, 5, 11, 1} {
		for _, mode := range []permission.Mode{permission.ModeDefault, permission.ModeBypass} {
			for _, tool := range []string{"u", "t"} {
				call(tool, mode, x)
			}
		}
	}
	for range 2 {
		call("u", permission.ModeDefault, 16)
	}
	call("u", permission.ModeDefault, 15)
	var got []string
	for _, d := range live.Status().Shadow.Differences {
		got = append(got, fmt.Sprint(d.Count, " ", d.Tool, " ", d.Mode, " ", d.Live.Rule, " ", d.Shadow.Rule, " ", d.Shadow.Step))
	}
	want := []string{"3 u default b q error", "2 u default b q rule"}
	for _, tool := range []string{"t", "u"} {
		for _, mode := range []string{"bypass", "default"} {
			for _, rule := range []string{"a", "b"} {
				for _, other := range []string{"d rule", "q error", "q rule"} {
					if tool != "u" || mode != "default" || rule != "b" || other == "d rule" {
						want = append(want, fmt.Sprint("1 ", tool, " ", mode, " ", rule, " ", other))
					}
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The counts of a rule, also of the shadow, survive reloads that do not change the rule.
func TestCountsSurviveReloads(t *testing.T) {
	liveRules := []string{ruleText("small", "allow", "args.x < 10"), ruleText("big", "ask", "args.x >= 10")}
	candidate := []string{ruleText("one", "deny", "args.x == 1"), ruleText("most", "deny", "args.x == 11")}
	p, source, shadow, _ := liveOn(t, policyText(liveRules...), policyText(candidate...))
	for range 3 {
		ask(p, `{"x": 1}`)
		ask(p, `{"x": 11}`)
		ask(p, `{"x": 2}`) // no rule of the shadow asks
	}
	figures := func() string {
		s := p.Status().Shadow
		out := fmt.Sprintf("%d of %d:", s.Differing, s.Compared)
		for _, d := range s.Differences {
			out += fmt.Sprintf(" %s/%s=%d", d.Live.Rule, d.Shadow.Rule, d.Count)
		}
		return out
	}
	for _, step := range []struct {
		name    string
		set     func()
		want    string
		decided uint64 // decided by the rule small
	}{
		{"nothing", func() {}, "9 of 9: big/most=3 small/=3 small/one=3", 6},
		{"a rule more in force", func() { source.set(policyText(append(liveRules, ruleText("more", "deny", "args.x == 99"))...)) }, "9 of 9: big/most=3 small/=3 small/one=3", 6},
		{"a rule more in the shadow", func() { shadow.set(policyText(append(candidate, ruleText("more", "deny", "args.x == 2"))...)) }, "6 of 9: big/most=3 small/one=3", 6},
		{"another rule of the shadow", func() { shadow.set(policyText(candidate[0], ruleText("most", "deny", "args.x > 10"))) }, "3 of 9: small/one=3", 6},
		{"another rule in force", func() { source.set(policyText(ruleText("small", "allow", "args.x < 9"), liveRules[1])) }, "0 of 9:", 0},
		{"nothing in common", func() { shadow.set(policyText(ruleText("new", "deny", ""))) }, "0 of 0:", 0},
	} {
		step.set()
		if err := p.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := figures(); got != step.want {
			t.Errorf("after %s: %s, want %s", step.name, got, step.want)
		}
		for _, r := range p.Status().ByRule {
			if r.Rule == "small" && (r.Decided != step.decided || r.Behavior != message.BehaviorAllow || r.Since.IsZero()) {
				t.Errorf("after %s: %+v, want %d", step.name, r, step.decided)
			}
		}
	}
}
