package permission_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// benchBundle has n rules, spread over 20 tools; none of them matches the call
// of benchRequest, which is the slowest case.
func benchBundle(tb testing.TB, n int) *permission.Bundle {
	s := schema(tb, `{"type": "object", "required": ["command", "size"], "properties": {
		"command": {"type": "string", "maxLength": 4096}, "size": {"type": "integer"}}}`)
	var opts permission.Options
	for i := range 20 {
		opts.Tools = append(opts.Tools, permission.Tool{Name: fmt.Sprintf("tool%d", i), Schema: s})
	}
	behaviors := []message.Behavior{message.BehaviorDeny, message.BehaviorAsk, message.BehaviorAllow}
	var rules []permission.Rule
	for i := range n {
		rules = append(rules, permission.Rule{
			Name: fmt.Sprintf("rule%04d", i), Tools: []string{fmt.Sprintf("tool%d", i%20)}, Behavior: behaviors[i/20%3],
			When: fmt.Sprintf(`args.command.startsWith("program%d ") && args.size < 1000`, i),
		})
	}
	return compile(tb, opts, rules...)
}

var benchRequest = permission.Request{Tool: "tool0", Input: []byte(`{"command": "git status --short", "size": 18}`)}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			bundle := benchBundle(b, n)
			ctx := context.Background()
			if d := bundle.Decide(ctx, benchRequest); d.Step != permission.StepFallbackAsk || len(d.Errors) > 0 {
				b.Fatalf("%s, %v", d.Step, d.Errors)
			}
			b.ReportAllocs()
			for b.Loop() {
				bundle.Decide(ctx, benchRequest)
			}
		})
	}
}

// A decision allocates for the arguments and for its own texts, not for rules.
func TestDecisionsAllocateLittle(t *testing.T) {
	ctx := context.Background()
	for _, n := range []int{1, 1000} {
		bundle := benchBundle(t, n)
		if got := testing.AllocsPerRun(100, func() { bundle.Decide(ctx, benchRequest) }); got > 20 {
			t.Errorf("%v allocations with %d rules, at most 20 were expected", got, n)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchBundle(b, n)
			}
		})
	}
}
