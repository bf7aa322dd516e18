package permission_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// A request that too few people could answer is denied instead.
func TestEnoughPeople(t *testing.T) {
	later := func(users ...string) []permission.Escalation {
		return []permission.Escalation{{After: time.Minute, To: permission.Approvers{Users: users}}}
	}
	ask := func(name string, quorum int, users []string, escalation []permission.Escalation) permission.Rule {
		return permission.Rule{Name: name, Tools: []string{"t"}, Behavior: message.BehaviorAsk, Quorum: quorum, Escalation: escalation,
			Approvers: permission.Approvers{Users: users}}
	}
	excluding := func(r permission.Rule) permission.Rule { r.Approvers.ExcludeRequester = true; return r }
	two := ask("any-two", 2, nil, nil)
	group := permission.Rule{Name: "group", Tools: []string{"t"}, Behavior: message.BehaviorAsk, Quorum: 2, Approvers: permission.Approvers{Groups: []string{"g"}}}
	for _, tc := range []struct {
		name  string
		rules []permission.Rule
		want  message.Behavior
		says  string
	}{
		{"one of one", []permission.Rule{ask("a", 0, []string{"ann"}, nil)}, "ask", ""},
		{"only the requester", []permission.Rule{excluding(ask("a", 0, []string{"ann"}, nil))}, "deny", "too few people"},
		{"one and the requester", []permission.Rule{excluding(ask("a", 0, []string{"ann", "bob"}, nil))}, "ask", ""},
		{"two of two", []permission.Rule{ask("a", 0, []string{"ann", "bob"}, nil), two}, "ask", ""},
		{"two of one", []permission.Rule{ask("a", 0, []string{"bob"}, nil), two}, "deny", "too few people"},
		{"two forms of one", []permission.Rule{ask("a", 0, []string{"bob", "Bob"}, nil), two}, "deny", "too few people"},
		{"another form of the requester", []permission.Rule{excluding(ask("a", 0, []string{"Ann"}, nil))}, "deny", "too few people"},
		{"two of two, and one asks", []permission.Rule{excluding(ask("a", 0, []string{"ann", "bob"}, nil)), two}, "deny", "too few people"},
		{"no person on both lists", []permission.Rule{ask("a", 0, []string{"ann"}, nil), ask("b", 0, []string{"bob"}, nil)}, "deny", "accepted by all"},
		{"each part on its own", []permission.Rule{ask("a", 0, []string{"ann"}, later("zoe")), ask("b", 0, []string{"bob"}, later("yan"))}, "ask", ""},
		{"a list and a set by themselves", []permission.Rule{ask("a", 0, []string{"ann"}, nil), ask("b", 0, []string{"bob"}, later("yan"))}, "ask", ""},
		{"each with its quorum", []permission.Rule{ask("a", 0, []string{"ann"}, later("bob")), ask("b", 3, []string{"bob", "cid", "dan"}, nil)}, "ask", ""},
		{"a list of one and two of a group", []permission.Rule{ask("a", 0, []string{"ann"}, nil), group}, "ask", ""},
		{"two of anyone, and a set of one", []permission.Rule{ask("a", 0, []string{"ann"}, later("Ann")), two}, "deny", "too few people"},
		{"escalation makes them enough", []permission.Rule{ask("a", 0, []string{"ann"}, later("bob")), two}, "ask", ""},
		{"the size of groups is unknown", []permission.Rule{excluding(group)}, "ask", ""},
	} {
		b, err := permission.Compile(permission.Policy{Rules: tc.rules}, everything())
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		d := b.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(`{}`), Caller: permission.Caller{User: "ann"}})
		if d.Behavior != tc.want || !strings.Contains(d.Message, tc.says) {
			t.Errorf("%s: %s (%s), want %s", tc.name, d.Behavior, d.Message, tc.want)
		}
	}
}

// Who requested a call around this one is excluded as its requester is.
func TestEnoughPeopleAround(t *testing.T) {
	within := &permission.Parent{Tool: "agent", User: "bob", Around: []string{"cid", "dan"}}
	for _, tc := range []struct {
		users     []string
		escalates string // to whom
		excludes  bool
		want      message.Behavior
	}{
		{[]string{"Bob"}, "", true, "deny"},
		{[]string{"cid", "Dan"}, "", true, "deny"},
		{[]string{"ann", "bob"}, "dan", true, "deny"},
		{[]string{"ann", "bob"}, "eve", true, "ask"},
		{[]string{"ann", "bob", "cid", "dan", "eve"}, "", true, "ask"},
		{[]string{"bob"}, "", false, "ask"},
	} {
		r := permission.Rule{Name: "a", Tools: []string{"t"}, Behavior: message.BehaviorAsk, Approvers: permission.Approvers{Users: tc.users, ExcludeRequester: tc.excludes}}
		if tc.escalates != "" {
			r.Escalation = []permission.Escalation{{After: time.Minute, To: permission.Approvers{Users: []string{tc.escalates}}}}
		}
		b, err := permission.Compile(permission.Policy{Rules: []permission.Rule{r}}, everything())
		if err != nil {
			t.Fatal(err)
		}
		req := permission.Request{Tool: "t", Input: []byte(`{}`), Caller: permission.Caller{User: "ann"}, Parent: within, Depth: 3}
		for how, d := range map[string]permission.Decision{"decided": b.Decide(t.Context(), req), "explained": b.Explain(t.Context(), req).Decided} {
			if d.Behavior != tc.want || (tc.want == "deny") != strings.Contains(d.Message, "too few people") {
				t.Errorf("%v, then %q, excluding %t: %s %s (%s), want %s", tc.users, tc.escalates, tc.excludes, how, d.Behavior, d.Message, tc.want)
			}
		}
	}
}

// A rule that asks because it failed forbids standing approvals, and one rule that excludes
// editors is enough.
func TestWhatOneRuleForbids(t *testing.T) {
	b := load(t, everything(), `version: 1
name: x
rules:
  - {name: remembers, tool: t, behavior: ask, remember: {ttl: 1h}}
  - {name: fails, tool: t, behavior: ask, when: args.n == 1, remember: {ttl: 1h}}
  - {name: keeps-editors-out, tool: t, behavior: ask, when: "has(args.n)", approvers: {exclude_editor: true}}
  - {name: zz-last, tool: t, behavior: ask, when: "has(args.n)", remember: {ttl: 1h}}
`)
	if d := decide(b, "", `{}`); d.Behavior != message.BehaviorAsk || d.Requirement.Remember != nil || len(d.Errors) != 1 {
		t.Errorf("a rule that failed lets %+v be remembered, errors %v", d.Requirement.Remember, d.Errors)
	}
	if d := decide(b, "", `{"n": 2}`); !d.Requirement.ExcludeEditor {
		t.Errorf("requirement %+v", d.Requirement)
	}
}

// An allow rule that failed does not match, so it does not route the call.
func TestFailedAllowRoutesNothing(t *testing.T) {
	b := load(t, everything(), `version: 1
name: x
rules:
  - {name: fails, tool: t, behavior: allow, when: args.n == 1, executor: {subject: exec.a, timeout: 1s}, redact: [args.x]}
  - {name: routes, tool: t, behavior: allow, executor: {subject: exec.b}}
`)
	d := decide(b, "", `{}`)
	if d.Behavior != message.BehaviorAllow || d.Executor != (permission.Executor{Subject: "exec.b"}) || len(d.Redact) != 1 {
		t.Errorf("%s (%s) on %+v, hides %v", d.Behavior, d.Reason, d.Executor, d.Redact)
	}
}

// The defaults of a file do not apply to rules for which they make no sense.
func TestDefaultsThatDoNotFit(t *testing.T) {
	b := load(t, everything(), `version: 1
name: x
defaults: {enforcement: audit, on_expiry: escalate, expiry: 1h}
rules:
  - {name: locked, tool: t, behavior: deny, when: args.n == 1, locked: true}
  - {name: watched, tool: t, behavior: deny, when: args.n == 2}
  - {name: asks, tool: t, behavior: ask, when: args.n == 3, enforcement: enforce}
  - {name: escalates, tool: t, behavior: ask, when: args.n == 4, enforcement: enforce, escalation: [{after: 1m, to: {users: [ann]}}], approvers: {users: [bob]}}
`)
	for input, want := range map[string]message.Behavior{`{"n": 1}`: "deny", `{"n": 2}`: "ask", `{"n": 3}`: "ask"} {
		if d := decide(b, "", input); d.Behavior != want || (d.Rule == "locked") != (want == "deny") {
			t.Errorf("%s: %s by %q, want %s", input, d.Behavior, d.Rule, want)
		}
	}
	if d := decide(b, "", `{"n": 3}`); d.Requirement.OnExpiry == permission.OnExpiryEscalate {
		t.Error("a rule without escalation escalates")
	}
	if d := decide(b, "", `{"n": 4}`); d.Requirement.OnExpiry != permission.OnExpiryEscalate {
		t.Errorf("on expiry %q", d.Requirement.OnExpiry)
	}
}
