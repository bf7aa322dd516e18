package permission_test

import (
	"context"
	"errors"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

const declaredPolicy = `
version: 1
name: declared
rules:
  - {name: changed, tool_name: "*", behavior: deny, when: tool.changed}
  - {name: nested, tool_name: shop, behavior: ask, when: "call.depth > 1 || has(call.parent) && call.parent.tool == 'crawl' && call.parent.user != caller.user"}
  - {name: trusted, tool_name: shop, behavior: allow, when: "tool.claims.read_only && tool.hash == 'sha256:1'"}
tests:
  - name: a claim that is trusted
    call: {tool: shop, definition: {hash: "sha256:1", read_only: true}}
    expect: {behavior: allow, rule: trusted}
  - name: another definition
    call: {tool: shop, definition: {hash: "sha256:2", read_only: true, idempotent: true}}
    expect: {behavior: ask, rule: null}
  - name: a changed definition
    call: {tool: shop, definition: {hash: "sha256:1", changed: true, read_only: true}}
    expect: {behavior: deny, rule: changed}
  - name: deep
    call: {tool: shop, parent: {tool: crawl, depth: 2}}
    expect: {behavior: ask, rule: nested}
  - name: of another user
    call: {tool: shop, caller: {user: ann}, parent: {tool: crawl, user: eve, agent: a, session: s, reply: r, id: c}}
    expect: {behavior: ask, rule: nested}
  - name: of the same user
    call: {tool: shop, caller: {user: ann}, definition: {hash: "sha256:1", read_only: true, open_world: true, destructive: true}, parent: {tool: crawl, user: ann}}
    expect: {behavior: allow, rule: trusted}
`

// Tests of rule files say what a runtime declares and within which call it calls.
func TestDefinitionsAndParentsInTests(t *testing.T) {
	policy, err := permission.Parse(permission.File{Name: "rules.yaml", Data: []byte(declaredPolicy)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := permission.Compile(policy, permission.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range policy.Tests {
		d := b.Decide(context.Background(), tt.Call.Request())
		if d.Behavior != tt.Expect.Behavior || d.Rule != *tt.Expect.Rule || len(d.Errors) > 0 {
			t.Errorf("%s: %s by %q with %v, want %s by %q", tt.Name, d.Behavior, d.Rule, d.Errors, tt.Expect.Behavior, *tt.Expect.Rule)
		}
	}
}

// A definition that is not known allows nothing in any mode, and one of a tool that the
// policy declares is not looked at.
func TestDefinitionsFallClosed(t *testing.T) {
	for _, mode := range []permission.Mode{permission.ModeDefault, permission.ModeBypass, permission.ModeExplore, permission.ModeDontAsk} {
		rules := []permission.Rule{{Name: "all", Tools: []string{"shop", "own"}, Behavior: message.BehaviorAllow}}
		schema, err := permission.CompileSchema([]byte(`{"type":"object","maxProperties":0}`))
		if err != nil {
			t.Fatal(err)
		}
		b, err := permission.Compile(permission.Policy{Rules: rules}, permission.Options{Tools: []permission.Tool{{Name: "own"}}, AllowUnknownTools: true})
		if err != nil {
			t.Fatal(err)
		}
		decide := func(tool string, d *permission.Definition) permission.Decision {
			return b.Decide(context.Background(), permission.Request{Tool: tool, Input: []byte(`{"x":1}`), Mode: mode, Definition: d})
		}
		for name, d := range map[string]*permission.Definition{"unknown": {Hash: "sha256:1", Err: errors.New("lost")}, "unfit": {Hash: "sha256:1", Schema: schema}} {
			if got := decide("shop", d); got.Behavior == message.BehaviorAllow || len(got.Errors) == 0 {
				t.Errorf("%s, %s: %+v", mode, name, got)
			}
		}
		claims := &permission.Definition{Claims: permission.Claims{ReadOnly: true}}
		none := permission.Request{Tool: "other", Input: []byte(`{}`), Mode: mode}
		claimed := none
		claimed.Definition = claims
		if x, y := b.Decide(context.Background(), none), b.Decide(context.Background(), claimed); x.Behavior != y.Behavior || x.Step != y.Step {
			t.Errorf("%s: a claim turns %s into %s", mode, x.Step, y.Step)
		}
		if got := decide("own", &permission.Definition{Err: errors.New("lost")}); len(got.Errors) > 0 {
			t.Errorf("%s: the definition of a declared tool counts: %+v", mode, got)
		}
	}
}
