package permission_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/agentscope"
)

func load(t *testing.T, opts permission.Options, text string) *permission.Bundle {
	t.Helper()
	b, err := permission.Load([]permission.File{{Name: "rules.yaml", Data: []byte(text)}}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTerms(t *testing.T) {
	b := load(t, permission.Options{}, `version: 1
name: x
vocabulary:
  office_hours: ctx.now.getHours() >= 8 && ctx.now.getHours() < 18
  trusted: '["ann", "bob"]'
  limit: "500"
  here: caller.tenant == "eu"
rules:
  - {name: at-night, tool: t, behavior: deny, when: "!office_hours"}
  - {name: small, tool: t, behavior: allow, when: office_hours && caller.user in trusted && args.n < limit}
  - {name: elsewhere, tool: u, behavior: deny, when: "!here"}
`)
	noon, night := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), time.Date(2026, 11, 21, 23, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name   string
		req    permission.Request
		want   message.Behavior
		rule   string
		errors int
	}{
		{"by day", permission.Request{Tool: "t", Input: []byte(`{"n": 1}`), Now: noon, Caller: permission.Caller{User: "ann"}}, "allow", "small", 0},
		{"too much", permission.Request{Tool: "t", Input: []byte(`{"n": 500}`), Now: noon, Caller: permission.Caller{User: "ann"}}, "ask", "", 0},
		{"by night", permission.Request{Tool: "t", Input: []byte(`{"n": 1}`), Now: night, Caller: permission.Caller{User: "ann"}}, "deny", "at-night", 0},
		{"here", permission.Request{Tool: "u", Input: []byte(`{}`), Caller: permission.Caller{Tenant: "eu"}}, "ask", "", 0},
		{"elsewhere", permission.Request{Tool: "u", Input: []byte(`{}`), Caller: permission.Caller{Tenant: "us"}}, "deny", "elsewhere", 0},
		{"a term that cannot be evaluated", permission.Request{Tool: "u", Input: []byte(`{}`)}, "ask", "elsewhere", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := b.Decide(context.Background(), tc.req)
			if d.Behavior != tc.want || d.Rule != tc.rule || len(d.Errors) != tc.errors {
				t.Errorf("Decide = %s by %q, errors %v; want %s by %q, %d errors", d.Behavior, d.Rule, d.Errors, tc.want, tc.rule, tc.errors)
			}
			x := b.Explain(context.Background(), tc.req)
			if x.Decision != d.Behavior || x.Rule != d.Rule {
				t.Errorf("Explain = %s by %q", x.Decision, x.Rule)
			}
		})
	}
}

// A variable that the request does not contain cannot be compared. A rule that tries to fails
// closed.
func TestUnknownVariables(t *testing.T) {
	for _, when := range []string{`caller.tenant != "x"`, `caller.run_id != "x"`, `caller.parent_agent != "x"`, `!("x" in caller.groups)`, `ctx.attempt > 0`, `ctx.calls_this_run > 0`} {
		b := compile(t, permission.Options{}, rule("r", message.BehaviorAllow, when))
		if d := decide(b, permission.ModeBypass, `{}`); d.Behavior != message.BehaviorAsk || len(d.Errors) != 1 {
			t.Errorf("%s: %s, errors %v", when, d.Behavior, d.Errors)
		}
		req := permission.Request{Tool: "t", Input: []byte(`{}`), Attempt: 1, CallsThisRun: 3,
			Caller: permission.Caller{Tenant: "a", RunID: "b", ParentAgent: "c", Groups: []string{}}}
		if d := b.Decide(context.Background(), req); d.Behavior != message.BehaviorAllow {
			t.Errorf("%s, with a known variable: %s, errors %v", when, d.Behavior, d.Errors)
		}
	}
}

// A server's rules apply to its tools. If they deny or ask, they also apply to undeclared tools
// that are named after the server.
func TestServers(t *testing.T) {
	tools := []permission.Tool{{Name: "refund", Server: "stripe"}, {Name: "mail", Server: "post"}}
	rules := []permission.Rule{
		{Name: "a", Tools: []string{"stripe/*"}, Behavior: message.BehaviorAllow},
		{Name: "d", Tools: []string{"post/*"}, Behavior: message.BehaviorDeny},
	}
	for _, tc := range []struct {
		tool string
		want message.Behavior
	}{
		{"refund", "allow"}, {"mail", "deny"}, {"other", "ask"},
		{"mcp__post__x", "deny"}, {"post.x", "deny"}, {"postal.x", "ask"},
		{"mcp__stripe__x", "ask"}, {"stripe/x", "ask"},
	} {
		for _, loose := range []bool{false, true} {
			b := compile(t, permission.Options{Tools: tools, AllowUnknownTools: loose}, rules...)
			d := b.Decide(context.Background(), permission.Request{Tool: tc.tool, Input: []byte(`{}`)})
			if d.Behavior != tc.want {
				t.Errorf("%s, unknown tools %v: %s, want %s", tc.tool, loose, d.Behavior, tc.want)
			}
		}
	}
	// A condition that needs the definition of the tool cannot be evaluated about another tool.
	typed := permission.Rule{Name: "c", Tools: []string{"sh/*"}, Behavior: message.BehaviorDeny, When: "cmd.static", OnError: permission.OnErrorDeny}
	kind, err := agentscope.New(agentscope.Bash, agentscope.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := compile(t, permission.Options{Tools: []permission.Tool{{Name: "run", Server: "sh", Kind: kind}}}, typed)
	for tool, want := range map[string]message.Behavior{"sh.run": message.BehaviorDeny, "show.run": message.BehaviorAllow} {
		d := s.Decide(context.Background(), permission.Request{Tool: tool, Input: []byte(`{}`), Mode: permission.ModeBypass})
		if d.Behavior != want {
			t.Errorf("%s: %s, want %s", tool, d.Behavior, want)
		}
		if len(d.Errors) > 0 && d.Errors[0].Field != "when" {
			t.Errorf("%s: the error is about %s, want when", tool, d.Errors[0].Field)
		}
	}
	// A rule about such a tool by name does not exclude the tool from the server's rules.
	b := compile(t, permission.Options{}, slices.Concat(rules, []permission.Rule{{Name: "x", Tools: []string{"post.x"}, Behavior: message.BehaviorAllow}})...)
	if d := b.Decide(context.Background(), permission.Request{Tool: "post.x", Input: []byte(`{}`)}); d.Behavior != message.BehaviorDeny {
		t.Errorf("post.x: %s", d.Behavior)
	}
}
