package gatewaytest

import (
	"context"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// The tools of a world.
const (
	Echo   = "echo"        // local, allowed: answers with its input
	Slow   = "slow"        // local, allowed: says "step 1" and waits for Space.Release
	Pay    = "pay"         // local, asks any approver; {"to": string, "amount": integer}; may be remembered
	Deploy = "deploy"      // local, asks two of the group ops: Ann and Bob
	Login  = "login"       // local, asks; args.password is hidden
	Drop   = "drop"        // local, denied
	Job    = "job"         // remote, allowed; see Space.Work
	Frail  = "frail"       // remote, allowed, with the shortest lease; see Space.Lose
	Ship   = "ship"        // remote, asks
	Lookup = "lookup"      // external, allowed: the runtime reports the result
	Browse = "browse"      // external, asks
	Other  = "unknown.not" // not declared: refused
)

// Rules is the policy of both spaces.
const Rules = `version: 1
name: world
rules:
  - {name: free, tool: [echo, slow, job, frail, lookup], behavior: allow}
  - name: money
    tool: pay
    behavior: ask
    message: '"Pay " + string(args.amount) + " to " + args.to + "?"'
    remember: {scope: [args.to], ttl: 720h}
  - {name: release, tool: deploy, behavior: ask, quorum: 2, approvers: {groups: [ops]}}
  - {name: account, tool: login, behavior: ask, redact: [args.password]}
  - {name: sensitive, tool: [ship, browse], behavior: ask}
  - {name: never, tool: drop, behavior: deny, message: '"tables are not dropped here"'}
`

const paySchema = `{"type":"object","properties":{"to":{"type":"string","minLength":1},"amount":{"type":"integer","minimum":1,"maximum":1000000}},"required":["to","amount"],"additionalProperties":false}`

const loginSchema = `{"type":"object","properties":{"user":{"type":"string"},"password":{"type":"string"}},"required":["user","password"]}`

// people are the groups of both spaces.
var people = engine.StaticDirectory{Ann: {"ops", "finance"}, Bob: {"ops"}}

func tools(t testing.TB) []engine.Tool {
	t.Helper()
	var out []engine.Tool
	for _, of := range []struct {
		name, about string
		place       toolcall.Placement
		schema      string
	}{
		{Echo, "Repeats its input.", toolcall.PlaceLocal, ""},
		{Slow, "Takes its time.", toolcall.PlaceLocal, ""},
		{Pay, "Pays a person.", toolcall.PlaceLocal, paySchema},
		{Deploy, "Puts a version into production.", toolcall.PlaceLocal, ""},
		{Login, "Logs in somewhere.", toolcall.PlaceLocal, loginSchema},
		{Drop, "Drops a table.", toolcall.PlaceLocal, ""},
		{Job, "Runs elsewhere.", toolcall.PlaceRemote, ""},
		{Frail, "Runs elsewhere, and may not come back.", toolcall.PlaceRemote, ""},
		{Ship, "Ships an order.", toolcall.PlaceRemote, ""},
		{Lookup, "Looks something up in the frontend.", toolcall.PlaceExternal, ""},
		{Browse, "Opens a page in the frontend.", toolcall.PlaceExternal, ""},
	} {
		tool := engine.Tool{Tool: permission.Tool{Name: of.name}, Description: of.about, Placement: of.place, ConcurrencySafe: true}
		if of.name == Frail {
			tool.Lease = engine.MinLease
		}
		if of.schema != "" {
			s, err := permission.CompileSchema([]byte(of.schema))
			if err != nil {
				t.Fatalf("schema of %s: %v", of.name, err)
			}
			tool.Schema = s
		}
		out = append(out, tool)
	}
	return out
}

// CompilePolicy compiles rules for the given tools.
func CompilePolicy(t testing.TB, rules string, tools []engine.Tool) *permission.Bundle {
	t.Helper()
	parsed, err := permission.Parse(permission.File{Name: "world.yaml", Data: []byte(rules)})
	if err != nil {
		t.Fatalf("policy: %v", err)
	}
	opts := permission.Options{Enforced: engine.Duties()}
	for _, tool := range tools {
		opts.Tools = append(opts.Tools, tool.Tool)
	}
	b, err := permission.Compile(parsed, opts)
	if err != nil {
		t.Fatalf("policy: %v", err)
	}
	return b
}

// local runs the local tools; slow ones wait for released.
func local(t testing.TB, released <-chan struct{}, more []engine.Tool) *executor.Registry {
	t.Helper()
	r := new(executor.Registry)
	echo := func(_ context.Context, task executor.Task) (executor.Output, error) {
		return executor.Text(string(task.Input)), nil
	}
	slow := func(ctx context.Context, task executor.Task) (executor.Output, error) {
		task.Progress("step 1")
		select {
		case <-released:
			task.Progress("step 2")
			return executor.Text("done"), nil
		case <-ctx.Done():
			return executor.Output{}, context.Cause(ctx)
		}
	}
	all := map[string]executor.Handler{Echo: echo, Pay: echo, Deploy: echo, Login: echo, Drop: echo, Slow: slow}
	for _, tool := range more {
		if tool.Placement == toolcall.PlaceLocal {
			all[tool.Name] = echo
		}
	}
	for tool, h := range all {
		if err := r.Register(tool, h); err != nil {
			t.Fatalf("register %s: %v", tool, err)
		}
	}
	return r
}
