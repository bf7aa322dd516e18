package corpus_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/corpus"
	"github.com/askance-dev/askance/toolcall"
	"github.com/google/go-cmp/cmp"
)

func load(t *testing.T, when string) *permission.Bundle {
	t.Helper()
	b, err := permission.Compile(permission.Policy{Rules: []permission.Rule{
		{Name: "small", Tools: []string{"pay"}, Behavior: message.BehaviorAllow, When: when},
		{Name: "root", Tools: []string{"pay"}, Behavior: message.BehaviorDeny, When: `caller.user == "root"`},
	}}, permission.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const recorded = `{"name": "five", "tool": "pay", "args": {"n": 5}, "behavior": "allow", "rule": "small"}

{"tool": "pay", "args": {"n": 50}, "behavior": "ask", "caller": {"user": "ann", "roles": ["r"]}, "mode": "default"}
{"tool": "pay", "args": {"n": 5}, "behavior": "deny", "rule": "gone", "caller": {"user": "root"}}
{"tool": "pay"}
`

func TestReplay(t *testing.T) {
	calls, err := corpus.Read(strings.NewReader(recorded))
	if err != nil {
		t.Fatal(err)
	}
	if r := corpus.Replay(t.Context(), calls, load(t, "has(args.n) && args.n < 10")); len(r.Changes) != 0 || r.Calls != 4 || r.Unknown != 1 || r.OtherRule != 1 {
		t.Errorf("the same policy: %+v", r)
	}
	r := corpus.Replay(t.Context(), calls, load(t, "has(args.n) && args.n >= 10"))
	if len(r.Changes) != 2 || r.Looser != 1 || r.Tighter != 1 {
		t.Fatalf("changes: %+v", r)
	}
	want := &corpus.Change{Name: "five", Tool: "pay", Args: `{"n": 5}`, Before: corpus.Verdict{Behavior: "allow", Rule: "small"},
		After: corpus.Verdict{Behavior: "ask", Bundle: r.After},
		Why:   []string{"no rule allows it", "rule small (allow) does not match: args.n >= 10 is false (args.n is 5)"}}
	if diff := cmp.Diff(want, r.Changes[0]); diff != "" {
		t.Error(diff)
	}
	if c := r.Changes[1]; c.Name != "line 3" || !c.Looser || c.After.Behavior != "allow" {
		t.Errorf("change %+v", c)
	}
}

func TestDiff(t *testing.T) {
	calls, err := corpus.Read(strings.NewReader(recorded))
	if err != nil {
		t.Fatal(err)
	}
	a, b := load(t, "has(args.n) && args.n < 10"), load(t, "has(args.n)")
	if r := corpus.Diff(t.Context(), calls, a, a); len(r.Changes)+r.OtherRule != 0 {
		t.Errorf("a policy differs from itself: %+v", r)
	}
	if r := corpus.Diff(t.Context(), calls, a, b); len(r.Changes) != 1 || r.Looser != 1 || r.Before == r.After {
		t.Errorf("%+v", r)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":          "tool: pay",
		"unknown member":   `{"tool": "pay", "arg": {}}`,
		"no tool":          `{"args": {}}`,
		"unknown behavior": `{"tool": "pay", "behavior": "maybe"}`,
		"unknown mode":     `{"tool": "pay", "mode": "yolo"}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := corpus.Read(strings.NewReader("{\"tool\": \"x\"}\n" + text))
			if !errors.Is(err, corpus.ErrLine) || !strings.HasPrefix(err.Error(), "line 2: ") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestFromJournal(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key := func(id string) toolcall.Key {
		return toolcall.Key{Space: "sp", Session: "s", Reply: "r", Call: message.CallID(id)}
	}
	rule := message.PermissionRule{ToolName: "pay", Behavior: message.BehaviorAllow, Source: "suggested"}
	calls := corpus.FromJournal([]*toolcall.Call{
		{Key: key("c2"), First: 9, Tool: "pay", Input: `{"n":1}`, Runtime: "bot", ProposedAt: at.Add(time.Hour), Decision: &toolcall.Decision{Behavior: "allow", Rule: "session"}},
		{Key: key("c1"), First: 3, Tool: "pay", Input: `{"n":1}`, ProposedAt: at, Decision: &toolcall.Decision{Behavior: "ask"},
			Remember: []message.PermissionRule{rule}, Votes: []toolcall.Vote{{At: at.Add(time.Minute)}}},
		{Key: key("c0"), First: 1, Tool: "pay", Input: `{}`},
		{Key: key("c3"), First: 12, Tool: "pay", Input: `{}`, ProposedAt: at, Decision: &toolcall.Decision{Behavior: "allow", Rule: "r", Standing: "sta_1"}},
	})
	if last := calls[len(calls)-1]; last.Name != "s/r/c3" || last.Recorded.Behavior != message.BehaviorAsk {
		t.Errorf("the call that a standing approval allowed is recorded as %+v", last.Recorded)
	}
	if len(calls) != 3 || calls[0].Name != "s/r/c1" || calls[0].Request.SessionRules != nil || calls[1].Request.Caller.User != "bot" {
		t.Fatalf("%+v", calls)
	}
	if diff := cmp.Diff([]message.PermissionRule{rule}, calls[1].Request.SessionRules); diff != "" {
		t.Error(diff)
	}
}

// A replay of the recorded policy changes no decision that depends on the calls around a call.
func TestFromJournalParent(t *testing.T) {
	var rules []permission.Rule
	for name, when := range map[string]string{
		"parent": `has(call.parent) && call.parent.tool == "research" && call.parent.user == "bot" && call.parent.id == "p"`,
		"depth":  `call.depth == 2`, "agent": `has(caller.parent_agent) && caller.parent_agent == "lead"`,
		"run": `has(caller.run_id) && caller.run_id == "r2"`, "attempt": `has(ctx.attempt) && ctx.attempt == 1`,
	} {
		rules = append(rules, permission.Rule{Name: name, Tools: []string{name}, Behavior: message.BehaviorAllow, When: when})
	}
	bundle, err := permission.Compile(permission.Policy{Rules: rules}, permission.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var calls []*toolcall.Call
	for i, r := range rules {
		calls = append(calls, &toolcall.Call{Key: toolcall.Key{Space: "sp", Session: "s", Reply: "r2", Call: message.CallID(r.Name)}, First: uint64(i + 2), Tool: r.Name, Input: `{}`, Runtime: "sub",
			Parent:   &toolcall.Parent{ParentKey: toolcall.ParentKey{Session: "s", Reply: "r", Call: "p"}, Tool: "research", Runtime: "bot", Agent: "lead", Depth: 2},
			Decision: &toolcall.Decision{Behavior: message.BehaviorAllow, Rule: r.Name}})
	}
	if r := corpus.Replay(t.Context(), corpus.FromJournal(calls), bundle); r.Calls != len(rules) || len(r.Changes) != 0 {
		for _, c := range r.Changes {
			t.Errorf("%s: %v", c.Tool, c.Why)
		}
	}
}

func TestFromTests(t *testing.T) {
	p := permission.Policy{Tests: []permission.Test{{Name: "a", Call: permission.Request{Tool: "pay", Input: []byte(`{}`)}}}}
	other := permission.Policy{Tests: []permission.Test{{Name: "again", Call: permission.Request{Tool: "pay", Input: []byte(`{}`)}},
		{Name: "b", Call: permission.Request{Tool: "pay", Input: []byte(`{"n":1}`)}},
		{Name: "remembered", Call: permission.Request{Tool: "pay", Input: []byte(`{}`), SessionRules: []message.PermissionRule{{ToolName: "pay", Behavior: message.BehaviorAllow}}}},
		{Name: "within", Call: permission.Request{Tool: "pay", Input: []byte(`{}`), Depth: 1, Parent: &permission.Parent{Tool: "agent"}}}}}
	var names []string
	for _, c := range corpus.FromTests(p, other) {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "remembered", "within"}, names); diff != "" {
		t.Error(diff)
	}
}
