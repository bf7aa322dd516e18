package permission_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

const benchSchema = `{"type": "object", "required": ["command", "size"], "properties": {
	"command": {"type": "string", "maxLength": 4096}, "size": {"type": "integer"}}}`

// benchBundle returns n rules, spread over 20 tools. None matches the call of benchRequest, which
// is the slowest case.
func benchBundle(tb testing.TB, n int) *permission.Bundle {
	s := schema(tb, benchSchema)
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

// A decision allocates for the arguments and its own texts, not for rules.
func TestDecisionsAllocateLittle(t *testing.T) {
	ctx := context.Background()
	for _, n := range []int{1, 1000} {
		bundle := benchBundle(t, n)
		if got := testing.AllocsPerRun(100, func() { bundle.Decide(ctx, benchRequest) }); got > 20 {
			t.Errorf("%v allocations with %d rules, at most 20 were expected", got, n)
		}
	}
}

// BenchmarkLive decides without and with a shadow policy that has the same rules. The difference
// is the cost of a second decision about a call that is already read.
func BenchmarkLive(b *testing.B) {
	file := "version: 1\nname: bench\nrules:\n"
	for i := range 200 {
		file += fmt.Sprintf("  - {name: rule%d, tool_name: tool%d, behavior: deny, when: 'args.command.startsWith(\"program%d \") && args.size < 1000'}\n", i, i%20, i)
	}
	tools := []permission.Tool{}
	for i := range 20 {
		tools = append(tools, permission.Tool{Name: fmt.Sprintf("tool%d", i), Schema: schema(b, benchSchema)})
	}
	for name, shadow := range map[string]permission.Source{"alone": nil, "shadow": &memory{text: file}} {
		b.Run(name, func(b *testing.B) {
			live, err := permission.NewLive(&memory{text: file}, permission.LiveOptions{Options: permission.Options{Tools: tools}, Shadow: shadow})
			if err != nil {
				b.Fatal(err)
			}
			if err := live.Reload(b.Context()); err != nil {
				b.Fatal(err)
			}
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				live.Decide(ctx, benchRequest)
			}
		})
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
