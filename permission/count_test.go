package permission_test

import (
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// If the number of calls could not be read, it does not count as absent, which rules may guard
// against. No rule with ctx can be evaluated.
func TestUnreadCountFailsClosed(t *testing.T) {
	for when, known := range map[string]message.Behavior{
		`ctx.calls_this_run <= 3`:                                        message.BehaviorAllow,
		`ctx.?calls_this_run.orValue(1) <= 3`:                            message.BehaviorAllow,
		`!has(ctx.calls_this_run) || ctx.calls_this_run <= 3`:            message.BehaviorAllow,
		`dyn(ctx)[?"calls_" + "this_run"].orValue(1) <= 3`:               message.BehaviorAllow,
		`!dyn(ctx).exists(k, k == "calls_this_run")`:                     message.BehaviorAsk,
		`args.?n.orValue(1) == 1 && ctx.?calls_this_run.orValue(1) <= 3`: message.BehaviorAllow,
	} {
		b := compile(t, permission.Options{AllowUnknownTools: true}, rule("r", message.BehaviorAllow, when))
		if !b.ReadsCallsThisRun() {
			t.Errorf("%s: ReadsCallsThisRun is false", when)
		}
		for n, want := range map[int]message.Behavior{permission.CountUnread: message.BehaviorAsk, 3: known} {
			if d := b.Decide(t.Context(), permission.Request{Tool: "t", Input: []byte(`{}`), CallsThisRun: n}); d.Behavior != want {
				t.Errorf("%s with %d: %s, want %s", when, n, d.Behavior, want)
			}
		}
	}
}

// A policy that does not use the number does not need it.
func TestUnreadCountThatNoRuleReads(t *testing.T) {
	b := compile(t, permission.Options{AllowUnknownTools: true}, rule("r", message.BehaviorAllow, `ctx.cwd == "/x" && size(ctx.working_dirs) == 0`))
	if d := b.Decide(t.Context(), permission.Request{Tool: "t", Input: []byte(`{}`), Cwd: "/x", CallsThisRun: permission.CountUnread}); d.Behavior != message.BehaviorAllow {
		t.Errorf("%s: %+v", d.Behavior, d.Errors)
	}
}

// The number is read only if an expression can use it.
func TestReadsCallsThisRun(t *testing.T) {
	for when, want := range map[string]bool{
		`ctx.now > timestamp("2026-01-01T00:00:00Z") && ctx . cwd == "/x"`: false,
		"ctx.`calls_this_run` > 3":               true,
		`dyn(ctx) == null`:                       true,
		`[ctx][0].cwd == "/x"`:                   true,
		`args.x == "context" && args.ctx.y == 1`: false,
	} {
		if b := compile(t, permission.Options{AllowUnknownTools: true}, rule("r", message.BehaviorAsk, when)); b.ReadsCallsThisRun() != want {
			t.Errorf("ReadsCallsThisRun of %s: want %v", when, !want)
		}
	}
}
