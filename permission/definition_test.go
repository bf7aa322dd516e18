package permission_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

const declaredPolicy = `
version: 1
name: declared
rules:
  - {name: changed, tool_name: "*", behavior: deny, when: tool.changed}
  - {name: nested, tool_name: shop, behavior: ask, when: "call.depth > 1 || has(call.parent) && call.parent.tool == 'crawl' && call.parent.user != caller.user"}
  - {name: eyes, tool_name: pay, behavior: ask, approvers: {users: [ann, bob], exclude_requester: true}}
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
  - name: around which another user called
    call: {tool: pay, caller: {user: eve}, parent: {tool: crawl, user: ann, around: dan}}
    expect: {behavior: ask, rule: eyes}
  - name: around which all approvers called
    call: {tool: pay, caller: {user: eve}, parent: {tool: crawl, user: ann, around: [dan, bob]}}
    expect: {behavior: deny, rule: eyes}
`

// Tests in rule files can state what a runtime declares and which call is the parent.
func TestDefinitionsAndParentsInTests(t *testing.T) {
	policy, err := permission.Parse(permission.File{Name: "rules.yaml", Data: []byte(declaredPolicy)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := permission.Compile(policy, permission.Options{Enforced: everything().Enforced})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range policy.Tests {
		d := b.Decide(context.Background(), tt.Call)
		if d.Behavior != tt.Expect.Behavior || d.Rule != *tt.Expect.Rule || len(d.Errors) > 0 {
			t.Errorf("%s: %s by %q with %v, want %s by %q", tt.Name, d.Behavior, d.Rule, d.Errors, tt.Expect.Behavior, *tt.Expect.Rule)
		}
	}
}

// An unknown definition allows nothing in any mode. The definition of a tool that the policy
// declares is ignored.
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
			t.Errorf("%s: a claimed definition changes %s to %s", mode, x.Step, y.Step)
		}
		if got := decide("own", &permission.Definition{Err: errors.New("lost")}); len(got.Errors) > 0 {
			t.Errorf("%s: the definition of a declared tool counts: %+v", mode, got)
		}
	}
}

const hintedPolicy = `
version: 1
name: hinted
defaults: {denial: {contact: "#help"}}
rules:
  - {name: large, tool_name: pay, behavior: deny, when: args.n > 5, message: "'Too much.'", denial: {allowed: At most 5}}
  - {name: medium, tool_name: pay, behavior: ask, when: args.n > 2}
  - {name: small, tool_name: pay, behavior: allow}
`

// Agents are told only what the rule's denial and the file's default say.
func TestDenialHints(t *testing.T) {
	b, err := permission.Load([]permission.File{{Name: "rules.yaml", Data: []byte(hintedPolicy)}}, permission.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		n    string
		mode permission.Mode
		want *toolcall.DenialHint
		text string
	}{
		{"9", "", &toolcall.DenialHint{Reason: "Too much.", Allowed: "At most 5", Contact: "#help"}, `(rule large: Too much.). Allowed instead: At most 5. Contact: #help.`},
		{"4", "", &toolcall.DenialHint{Contact: "#help"}, "needs approval by rule"},
		{"4", permission.ModeDontAsk, &toolcall.DenialHint{Reason: "dont_ask mode: no approver is available", Contact: "#help"}, "available). Contact: #help."},
		{"1", "", nil, ""},
	} {
		d := b.Decide(context.Background(), permission.Request{Tool: "pay", Input: []byte(`{"n":` + row.n + `}`), Mode: row.mode})
		if (d.Denial == nil) != (row.want == nil) || d.Denial != nil && *d.Denial != *row.want || !strings.Contains(d.Message, row.text) {
			t.Errorf("n = %s in %q: %+v with %q, want %+v with %q", row.n, row.mode, d.Denial, d.Message, row.want, row.text)
		}
	}
	for name, denial := range map[string]permission.Denial{"of an allow rule": {Contact: "x"}, "too long": {Allowed: strings.Repeat("x", 501)}} {
		r := permission.Rule{Name: "r", Tools: []string{"pay"}, Behavior: message.BehaviorAllow, Denial: denial}
		if name == "too long" {
			r.Behavior = message.BehaviorDeny
		}
		if _, err := permission.Compile(permission.Policy{Rules: []permission.Rule{r}}, permission.Options{}); err == nil || !strings.Contains(err.Error(), "denial") {
			t.Errorf("a denial %s: %v", name, err)
		}
	}
}
