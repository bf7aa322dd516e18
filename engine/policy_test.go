package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/agentscope"
	"github.com/askance-dev/askance/toolcall"
)

// brief is the lease of tools whose owners the tests let die.
const brief = engine.MinLease

// steadyLease is the lease of tools whose owners must not lose it while the test acts for them,
// even on a busy machine.
const steadyLease = 2 * time.Second

// The tools of the tests. Those whose names begin with "block" run until they are released.
const (
	echo       = "echo"        // local, allowed
	again      = "again"       // as echo, idempotent, brief lease
	serial     = "serial"      // local, allowed, not concurrency-safe
	pay        = "pay"         // local; see rules
	vip        = "vip"         // local, asks, only ann may answer
	deploy     = "deploy"      // local, no rule: asks, and suggests a rule
	note       = "note"        // as deploy, not concurrency-safe
	rm         = "rm"          // local, denied
	typed      = "typed"       // local, allowed, with a schema
	block      = "block"       // local, allowed, long lease
	blockOnce  = "block_once"  // local, allowed, brief lease
	blockIdem  = "block_idem"  // as block_once, idempotent
	blockTurn  = "block_turn"  // as block, not concurrency-safe
	remote     = "remote"      // remote, allowed, long lease
	once       = "once"        // remote, allowed, brief lease
	dies       = "dies"        // as once
	idem       = "idem"        // as once, idempotent, two attempts
	steady     = "steady"      // remote, allowed, steady lease
	steadyIdem = "steady_idem" // as steady, idempotent, two attempts
	askRemote  = "ask_remote"  // remote, asks
	external   = "external"    // external, allowed
	askOut     = "ask_out"     // external, asks
	shell      = "shell"       // local, no rule: asks, and suggests a wide rule for each command
	bash       = "bash"        // as shell, with the rules that its kind suggests
)

var typedSchema = `{"type":"object","required":["n"],"additionalProperties":false,"properties":{"n":{"type":"integer"}}}`

func tools(t testing.TB) []engine.Tool {
	schema, err := permission.CompileSchema([]byte(typedSchema))
	if err != nil {
		t.Fatal(err)
	}
	kind, err := agentscope.New(agentscope.Bash, agentscope.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tool := func(name string, change func(*engine.Tool)) engine.Tool {
		e := engine.Tool{Tool: permission.Tool{Name: name}, ConcurrencySafe: true, Backoff: 20 * time.Millisecond, MaxAttempts: 2}
		if change != nil {
			change(&e)
		}
		return e
	}
	unsafe := func(e *engine.Tool) { e.ConcurrencySafe = false }
	at := func(p toolcall.Placement, lease time.Duration, idempotent bool) func(*engine.Tool) {
		return func(e *engine.Tool) { e.Placement, e.Lease, e.Idempotent = p, lease, idempotent }
	}
	return []engine.Tool{
		tool(echo, nil), tool(again, at(toolcall.PlaceLocal, brief, true)), tool(serial, unsafe), tool(pay, nil), tool(vip, nil), tool(deploy, nil), tool(note, unsafe), tool(rm, nil),
		tool(typed, func(e *engine.Tool) { e.Schema = schema }),
		tool(block, nil), tool(blockOnce, at(toolcall.PlaceLocal, brief, false)), tool(blockIdem, at(toolcall.PlaceLocal, brief, true)), tool(blockTurn, unsafe),
		tool(remote, at(toolcall.PlaceRemote, 0, false)), tool(once, at(toolcall.PlaceRemote, brief, false)), tool(dies, at(toolcall.PlaceRemote, brief, false)), tool(idem, at(toolcall.PlaceRemote, brief, true)),
		tool(steady, at(toolcall.PlaceRemote, steadyLease, false)), tool(steadyIdem, at(toolcall.PlaceRemote, steadyLease, true)),
		tool(askRemote, at(toolcall.PlaceRemote, 0, false)), tool(external, at(toolcall.PlaceExternal, 0, false)), tool(askOut, at(toolcall.PlaceExternal, 0, false)),
		tool(shell, func(e *engine.Tool) { e.Kind = wideOffers{kind.(jointShell)} }), tool(bash, func(e *engine.Tool) { e.Kind = kind }),
	}
}

type jointShell interface {
	permission.ShellKind
	permission.JointMatcher
}

// wideOffers suggests rules that cover more than the call, so that approvers can narrow them
// and they apply to other calls.
type wideOffers struct{ jointShell }

func (w wideOffers) Suggest(c permission.Call) []message.PermissionRule {
	var out []message.PermissionRule
	for _, cmd := range w.Line(c).Commands {
		words := cmd.Args()
		content := strings.Join(words[:min(2, len(words))], " ") + ":*"
		out = append(out, message.PermissionRule{ToolName: c.Tool, RuleContent: &content, Behavior: message.BehaviorAllow, Source: "suggested"})
	}
	return out
}

// rules are the policy of the tests. pay is allowed up to 100, asks above, asks
// by another rule in foreign currency and is denied above 10,000.
func rules() []permission.Rule {
	return []permission.Rule{
		{Name: "free", Tools: []string{echo, again, serial, pay, typed, block, blockOnce, blockIdem, blockTurn, remote, once, dies, idem, steady, steadyIdem, external}, Behavior: message.BehaviorAllow},
		{Name: "big", Tools: []string{pay}, Behavior: message.BehaviorAsk, When: "args.amount > 100"},
		{Name: "foreign", Tools: []string{pay}, Behavior: message.BehaviorAsk, When: `has(args.currency) && args.currency != "EUR" && args.amount <= 100`},
		{Name: "huge", Tools: []string{pay}, Behavior: message.BehaviorDeny, When: "args.amount > 10000"},
		{Name: "only-ann", Tools: []string{vip}, Behavior: message.BehaviorAsk, Approvers: permission.Approvers{Users: []string{"ann"}}},
		{Name: "no-rm", Tools: []string{rm}, Behavior: message.BehaviorDeny},
		{Name: "look", Tools: []string{askRemote, askOut}, Behavior: message.BehaviorAsk},
	}
}

// policy is an engine.Policy whose bundle a test can replace.
type policy struct {
	now atomic.Pointer[permission.Bundle]
}

func newPolicy(t testing.TB) *policy {
	p := &policy{}
	p.use(t, rules()...)
	return p
}

func (p *policy) use(t testing.TB, rules ...permission.Rule) {
	t.Helper()
	var known []permission.Tool
	for _, e := range tools(t) {
		known = append(known, e.Tool)
	}
	b, err := permission.Compile(permission.Policy{Rules: rules}, permission.Options{Tools: known, Enforced: engine.Duties()})
	if err != nil {
		t.Fatalf("compile the policy: %v", err)
	}
	p.now.Store(b)
}

func (p *policy) Decide(ctx context.Context, r permission.Request) permission.Decision {
	return p.now.Load().Decide(ctx, r)
}

func (p *policy) Denied(ctx context.Context, r permission.Request) (permission.Decision, bool) {
	return p.now.Load().Denied(ctx, r)
}

func (p *policy) Covers(ctx context.Context, r permission.Request, rules []message.PermissionRule) error {
	return p.now.Load().Covers(ctx, r, rules)
}

func (p *policy) Values(ctx context.Context, r permission.Request, paths []string) (map[string]string, error) {
	return p.now.Load().Values(ctx, r, paths)
}

func (p *policy) Hash() string { return p.now.Load().Hash() }

func (p *policy) ReadsGroups() bool { return p.now.Load().ReadsGroups() }

func (p *policy) ReadsCallsThisRun() bool { return p.now.Load().ReadsCallsThisRun() }

func (p *policy) Redacts() bool { return p.now.Load().Redacts() }

func (p *policy) Explain(ctx context.Context, r permission.Request) *permission.Explanation {
	return p.now.Load().Explain(ctx, r)
}
