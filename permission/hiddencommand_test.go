package permission_test

import (
	"context"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// Values that are derived from arguments do not show hidden parts of them: neither the commands
// of a line, nor paths in the input, nor terms of them, neither in an approval request nor in an
// explanation.
func TestHiddenArgumentsByOtherNames(t *testing.T) {
	opts := shellOptions(t)
	opts.Tools = append(opts.Tools, permission.Tool{Name: "save", Schema: schema(t, `{"type": "object", "required": ["path"],
		"properties": {"path": {"type": "string", "format": "path"}, "n": {"type": "integer"}}}`)})
	b := load(t, opts, `version: 1
name: x
vocabulary:
  places: "'%s'.format([ctx.resolved])"
rules:
  - {name: hides, tool: Bash, behavior: ask, when: cmd.static, redact: [args.command], message: "'Run ' + cmd.calls[0].argv[1] + '?'"}
  - {name: looks, tool: Bash, behavior: deny, when: 'cmd.calls[0].argv[1] == "x" || cmd.calls.exists(c, c.argv.exists(w, w == "zz"))'}
  - {name: hides-path, tool: save, behavior: ask, redact: [args.path], when: "places != ''", message: "'Save in ' + places + '?'"}
  - {name: shows-path, tool: save, behavior: ask, message: "'To %s'.format([ctx.resolved]) + '?'"}
  - {name: looks-at-path, tool: save, behavior: deny, when: "ctx.resolved[args.path] == '/x' || size(ctx.resolved) == 7 || places == '/x'"}
`)
	for _, req := range []permission.Request{
		{Tool: "Bash", Input: []byte(`{"command": "mysql -pTOPSECRET && echo TOPSECRET"}`)},
		{Tool: "Bash", Input: []byte(`{"command": "echo TOPSECRET $(x"}`)},
		{Tool: "save", Input: []byte(`{"path": "/TOPSECRET/a"}`), Resolved: map[string]string{"/TOPSECRET/a": "/mnt/TOPSECRET/a"}},
		{Tool: "save", Input: []byte(`{"path": "/TOPSECRET/a", "n": "x"}`), Resolved: map[string]string{"/TOPSECRET/a": "/mnt/TOPSECRET/a"}},
	} {
		d := b.Decide(t.Context(), req)
		if d.Behavior != message.BehaviorAsk {
			t.Errorf("%s: %s", req.Input, d.Behavior)
		}
		text, err := strictjson.Marshal([]any{d, b.Explain(t.Context(), req)})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "TOPSECRET") {
			t.Errorf("%s shows a hidden value: %s", req.Input, text)
		}
	}
}

// If several rules cover a line together, the decision names only those rules and follows the
// settings of each.
func TestJointRules(t *testing.T) {
	b := load(t, shellOptions(t), `version: 1
name: x
rules:
  - {name: a-status, tool: Bash, rule_content: "npm run:*", behavior: allow, executor: {subject: exec.npm}}
  - {name: commit, tool: Bash, rule_content: "git commit:*", behavior: allow, redact: [args.command], audit: {level: full}}
  - {name: push, tool: Bash, rule_content: "git push origin main", behavior: allow, executor: {subject: exec.git}}
  - {name: spare, tool: Bash, rule_content: "git tag -l", behavior: allow}
`)
	d := b.Decide(context.Background(), permission.Request{Tool: "Bash", Input: []byte(`{"command": "git commit -m x && git push origin main"}`)})
	const reason = "rule commit: each of its parts is covered by one of the rules commit, push"
	if d.Behavior != message.BehaviorAllow || d.Rule != "commit" || d.Reason != reason {
		t.Errorf("%s by %s: %s", d.Behavior, d.Rule, d.Reason)
	}
	if len(d.Redact) != 1 || d.Redact[0] != "args.command" || d.Executor.Subject != "exec.git" || d.Audit != permission.AuditFull {
		t.Errorf("hides %v, runs on %q, keeps %s", d.Redact, d.Executor.Subject, d.Audit)
	}
}

// A matcher that names patterns it was not given covers nothing.
func TestJointMatcherIsNotBelieved(t *testing.T) {
	b := compile(t, permission.Options{Matchers: map[string]permission.Matcher{"t": liar{}}},
		permission.Rule{Name: "a", Tools: []string{"t"}, Behavior: message.BehaviorAllow, RuleContent: new("x")},
		permission.Rule{Name: "b", Tools: []string{"t"}, Behavior: message.BehaviorAllow, RuleContent: new("y")})
	if d := decide(b, permission.ModeBypass, `{}`); d.Behavior != message.BehaviorAsk || len(d.Errors) != 1 {
		t.Errorf("%s, errors %v", d.Behavior, d.Errors)
	}
}

type liar struct{ never }

func (liar) Compile(string, message.Behavior) (permission.Pattern, error) { return never{}, nil }
func (liar) Suggest(permission.Call) []message.PermissionRule             { return nil }
func (liar) Covered(permission.Call, []permission.Pattern) ([]int, error) { return []int{7}, nil }

type never struct{}

func (never) Match(permission.Call) (bool, error) { return false, nil }
