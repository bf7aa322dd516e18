package permission_test

import (
	gocmp "cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
)

// memory is a Source whose files are set by a test.
type memory struct {
	mu    sync.Mutex
	name  string // "" means memory
	layer permission.Layer
	text  string
	err   error
}

func (m *memory) set(text string) { m.mu.Lock(); m.text = text; m.mu.Unlock() }

func (m *memory) rename(name string) { m.mu.Lock(); m.name = name; m.mu.Unlock() }

func (m *memory) move(layer permission.Layer) { m.mu.Lock(); m.layer = layer; m.mu.Unlock() }

func (m *memory) Read(context.Context) ([]permission.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return []permission.File{{Name: gocmp.Or(m.name, "memory"), Data: []byte(m.text), Layer: m.layer}}, m.err
}

func policyText(rules ...string) string {
	return "version: 1\nname: p\nrules:\n" + strings.Join(rules, "\n") + "\n"
}

func ruleText(name, behavior, when string) string {
	if when == "" {
		when = `ctx.mode != ""`
	}
	return fmt.Sprintf("  - {name: %s, tool_name: t, behavior: %s, when: '%s'}", name, behavior, when)
}

func liveOn(t *testing.T, live, shadow string) (*permission.Live, *memory, *memory, *[]error) {
	t.Helper()
	l, s := &memory{text: live}, &memory{text: shadow}
	alarms := new([]error)
	opts := permission.LiveOptions{Options: permission.Options{Tools: []permission.Tool{{Name: "t"}}},
		Alarm: func(err error) { *alarms = append(*alarms, err) }}
	if shadow != "" {
		opts.Shadow = s
	}
	p, err := permission.NewLive(l, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p, l, s, alarms
}

func ask(p *permission.Live, input string) permission.Decision {
	return p.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(input), Mode: permission.ModeDefault,
		Caller: permission.Caller{Session: "s", Reply: "r"}, Now: time.Unix(1_700_000_000, 0).UTC()})
}

func TestStatusCountsByRule(t *testing.T) {
	p, source, _, _ := liveOn(t, policyText(ruleText("d", "deny", "args.x == 1"), ruleText("a", "allow", ""),
		"  - {name: w, tool_name: t, behavior: deny, enforcement: audit, when: 'args.x == 2'}"), "")
	for range 3 {
		ask(p, `{"x": 1}`)
	}
	ask(p, `{"x": 2}`)
	ask(p, `{}`)
	ask(p, `[]`)
	s := p.Status()
	// {} and [] fail in d, which then asks, so d also decides those calls.
	want := []api.PolicyRuleCount{{Rule: "a", Decided: 1}, {Rule: "d", Decided: 5, Failed: 2}, {Rule: "w", Watched: 1, Failed: 2}}
	if diff := cmp.Diff(want, s.ByRule, cmpopts.IgnoreFields(api.PolicyRuleCount{}, "Behavior", "Since", "File", "Line")); diff != "" {
		t.Error(diff)
	}
	if s.Calls != 6 || s.Failures != 1 || s.Loads != 1 || s.Refused != 0 || s.Alarm != "" || s.Bundle != p.Hash() || s.Rules != 3 || s.Loaded.IsZero() || s.Shadow != nil {
		t.Errorf("%+v", s)
	}
	source.set(policyText(ruleText("a", "allow", "")))
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := p.Status(); len(s.ByRule) != 1 || s.ByRule[0].Rule != "a" || s.ByRule[0].Decided != 1 {
		t.Errorf("after other rules were removed: %+v", s.ByRule)
	}
	if _, err := strictjson.Marshal(s); err != nil {
		t.Error(err)
	}
}

// A denial before a call starts counts as a decision of its rule.
func TestStatusCountsDenials(t *testing.T) {
	p, _, _, _ := liveOn(t, policyText(ruleText("d", "deny", "args.x == 1")), "")
	for _, input := range []string{`{"x": 1}`, `{"x": 2}`} {
		p.Denied(t.Context(), permission.Request{Tool: "t", Input: []byte(input)})
	}
	if s := p.Status(); s.Calls != 1 || len(s.ByRule) != 1 || s.ByRule[0].Decided != 1 {
		t.Errorf("%d calls, %+v", s.Calls, s.ByRule)
	}
}

func TestStatusShowsARefusedPolicy(t *testing.T) {
	p, source, _, alarms := liveOn(t, policyText(ruleText("a", "allow", "")), "")
	good := p.Hash()
	source.set("rules: [")
	for range 2 {
		if err := p.Reload(t.Context()); err == nil {
			t.Fatal("a bad policy is accepted")
		}
	}
	if s := p.Status(); s.Alarm == "" || s.Refused != 2 || s.Loads != 1 || s.Bundle != good {
		t.Errorf("%+v", s)
	}
	source.set(policyText(ruleText("a", "deny", "")))
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := p.Status(); s.Alarm != "" || s.Loads != 2 || s.Bundle == good {
		t.Errorf("%+v", s)
	}
	if len(*alarms) != 2 || (*alarms)[0] == nil || (*alarms)[1] != nil {
		t.Errorf("alarms %v", *alarms)
	}
}

func TestShadowDecidesNothingAndIsCompared(t *testing.T) {
	p, _, shadow, alarms := liveOn(t, policyText(ruleText("all", "allow", "")),
		policyText(ruleText("big", "deny", "args.x > 10"), ruleText("rest", "allow", "")))
	for x := range 15 {
		if d := ask(p, fmt.Sprintf(`{"x": %d}`, x)); d.Behavior != message.BehaviorAllow || d.Rule != "all" || d.Bundle != p.Hash() {
			t.Errorf("%d: %s by %s", x, d.Behavior, d.Rule)
		}
	}
	ask(p, `{}`) // fails in the shadow, which then asks
	s := p.Status().Shadow
	if s == nil || s.Compared != 16 || s.Differing != 5 || s.Unlisted != 0 || s.Bundle == p.Hash() || s.Rules != 2 {
		t.Fatalf("%+v", s)
	}
	at := time.Unix(1_700_000_000, 0).UTC()
	live := api.PolicyVerdict{Behavior: message.BehaviorAllow, Step: string(permission.StepAllowRule), Rule: "all"}
	want := []api.PolicyDifference{
		{Tool: "t", Mode: permission.ModeDefault, Live: live, Shadow: api.PolicyVerdict{Behavior: message.BehaviorDeny, Step: string(permission.StepRule), Rule: "big"}, Count: 4, Last: at, Session: "s", Reply: "r"},
		{Tool: "t", Mode: permission.ModeDefault, Live: live, Shadow: api.PolicyVerdict{Behavior: message.BehaviorAsk, Step: string(permission.StepError), Rule: "big"}, Count: 1, Last: at, Session: "s", Reply: "r"},
	}
	if diff := cmp.Diff(want, s.Differences); diff != "" {
		t.Error(diff)
	}

	shadow.set("nonsense")
	if err := p.Reload(t.Context()); err != nil {
		t.Errorf("because of a bad shadow the live policy is refused: %v", err)
	}
	s = p.Status().Shadow
	var se *permission.ShadowError
	if s.Alarm == "" || s.Compared != 16 || len(*alarms) != 1 || !errors.As((*alarms)[0], &se) {
		t.Errorf("%+v, alarms %v", s, *alarms)
	}
	shadow.set(policyText(ruleText("none", "deny", "")))
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := p.Status().Shadow; s.Compared != 0 || s.Differing != 0 || len(s.Differences) != 0 || s.Alarm != "" {
		t.Errorf("after a new shadow: %+v", s)
	}
	ask(p, `{"x": 1}`)
	if s := p.Status().Shadow; s.Compared != 1 || s.Differing != 1 || len(s.Differences) != 1 || s.Differences[0].Shadow.Rule != "none" {
		t.Errorf("with a new shadow: %+v", s)
	}
}

// The list of differences is limited; their count is not.
func TestShadowListIsBounded(t *testing.T) {
	many := make([]string, 0, 250)
	for i := range 250 {
		many = append(many, ruleText(fmt.Sprintf("r%03d", i), "deny", fmt.Sprintf("args.x == %d", i)))
	}
	p, _, _, _ := liveOn(t, policyText(ruleText("all", "allow", "")), policyText(many...))
	for i := range 250 {
		ask(p, fmt.Sprintf(`{"x": %d}`, i))
	}
	if s := p.Status().Shadow; s.Differing != 250 || len(s.Differences) != 200 || s.Unlisted != 50 {
		t.Errorf("%d differing, %d listed, %d unlisted", s.Differing, len(s.Differences), s.Unlisted)
	}
}

func TestWatchReloadsTheShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, shadow, _ := liveOn(t, policyText(ruleText("all", "allow", "")), policyText(ruleText("a", "allow", "")))
		before := p.Status().Shadow.Bundle
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Watch(ctx, time.Second) }()
		shadow.set(policyText(ruleText("b", "deny", "")))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if s := p.Status().Shadow; s.Bundle == before {
			t.Error("the shadow is not watched")
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// Status, decisions and reloads run concurrently.
func TestStatusWhileDeciding(t *testing.T) {
	p, source, shadow, _ := liveOn(t, policyText(ruleText("all", "allow", "")), policyText(ruleText("none", "deny", "")))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				if d := ask(p, `{}`); d.Behavior != message.BehaviorAllow {
					t.Errorf("%s by %s", d.Behavior, d.Step)
				}
			}
		})
	}
	over := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for !t.Failed() {
			s, decided := p.Status(), uint64(0)
			for _, r := range s.ByRule {
				if decided += r.Decided; r.Behavior == "" {
					t.Errorf("the rule %s is not of the policy %s", r.Rule, s.Bundle)
				}
			}
			text, _ := p.Text(s.Bundle)
			if s.Versions[0].Bundle != s.Bundle || text.Files[0].PolicyFile != s.Files[0] || uint64(len(s.Versions)) != s.Loads || s.Calls < decided {
				t.Errorf("%d decided: %+v", decided, s)
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	for i := range 18 {
		source.set(policyText(ruleText(fmt.Sprint("all", i), "allow", "")))
		shadow.set(policyText(ruleText(fmt.Sprint("none", i), "deny", "")))
		if err := p.Reload(t.Context()); err != nil {
			t.Error(err)
		}
		for range 50 {
			s, listed := p.Status().Shadow, uint64(0)
			for _, d := range s.Differences {
				listed += d.Count
			}
			if s.Differing != listed || s.Compared < s.Differing {
				t.Errorf("%d listed: %+v", listed, s)
			}
		}
	}
	wg.Wait()
	close(over)
	reader.Wait()
	if s := p.Status(); s.Calls != 800 {
		t.Errorf("%d calls", s.Calls)
	}
}

// A rule that warns or audits makes no call stricter or looser. The decision is the same as
// without it, even if the rule fails.
func TestWatchedRulesDecideNothing(t *testing.T) {
	base := []permission.Rule{rule("a", message.BehaviorAllow, `args.x == 1`), rule("d", message.BehaviorDeny, `args.x == 2`), rule("q", message.BehaviorAsk, `args.x == 3`)}
	for _, level := range []permission.Enforcement{permission.EnforcementWarn, permission.EnforcementAudit} {
		for _, behavior := range behaviors {
			for _, when := range []string{"", "args.missing == 1", "false && true"} {
				w := rule("watched", behavior, when)
				w.Enforcement = level
				if behavior == message.BehaviorAllow && level == permission.EnforcementWarn && when == "" {
					w.When = `tool.name == "t"`
				}
				with, without := compile(t, permission.Options{}, append([]permission.Rule{w}, base...)...), compile(t, permission.Options{}, base...)
				for _, mode := range allModes {
					for _, in := range []string{`{"x": 1}`, `{"x": 2}`, `{"x": 3}`, `{"x": 4}`, `{}`, `[]`} {
						a, b := decide(with, mode, in), decide(without, mode, in)
						if hit := len(a.Watched) == 1; hit != (when != "false && true" || in == `[]`) {
							t.Errorf("%s %s rule %q on %s: watched %+v", level, behavior, when, in, a.Watched)
						}
						a.Watched, a.Bundle, b.Bundle = nil, "", ""
						if diff := cmp.Diff(b, a, sameErrors); diff != "" {
							t.Errorf("%s %s rule %q on %s in %s:\n%s", level, behavior, when, in, mode, diff)
						}
					}
				}
			}
		}
	}
}
