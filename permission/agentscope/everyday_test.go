package agentscope

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// decideOwn decides a line with rules of an askance policy instead of AgentScope's.
func decideOwn(t *testing.T, command string, mode permission.Mode, rules ...message.PermissionRule) permission.Decision {
	t.Helper()
	var p permission.Policy
	for _, r := range rules {
		p.Rules = append(p.Rules, permission.Rule{Name: string(r.Behavior) + " " + *r.RuleContent, Tools: []string{"Bash"}, RuleContent: r.RuleContent, Behavior: r.Behavior})
	}
	b, err := permission.Compile(p, permission.Options{Tools: []permission.Tool{{Name: "Bash", Kind: mustNew(Bash, Config{Home: "/home/dev"})}}})
	if err != nil {
		t.Fatal(err)
	}
	input, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	return b.Decide(context.Background(), permission.Request{Tool: "Bash", Input: input, Mode: mode, Cwd: "/workspace/project"})
}

type everyday struct{ Line, Want string }

func everydayLines(t *testing.T) []everyday {
	t.Helper()
	data, err := os.ReadFile("../shell/testdata/everyday.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var out []everyday
	for line := range strings.Lines(string(data)) {
		var row everyday
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	if len(out) < 300 {
		t.Fatalf("only %d rows", len(out))
	}
	return out
}

// In a policy that denies rm and allows everything else, everyday lines run, and nothing that
// runs rm does.
func TestEverydayLines(t *testing.T) {
	deny, all := bashRule("deny", "rm:*"), bashRule("allow", "*")
	for _, row := range everydayLines(t) {
		d := decideOwn(t, row.Line, permission.ModeDefault, deny, all)
		if (d.Behavior == message.BehaviorAllow) != (row.Want == "allowed") {
			t.Errorf("%q: %s by %s, want it %s: %s", row.Line, d.Behavior, d.Step, row.Want, d.Reason)
		}
	}
}

// The same rules in AgentScope's form are never looser than in AgentScope.
func TestImportedRulesAreNotLooser(t *testing.T) {
	for _, content := range []string{"", "*", "if:*", "for *"} {
		rules := []message.PermissionRule{bashRule("allow", content)}
		for _, row := range everydayLines(t) {
			for _, mode := range []permission.Mode{permission.ModeDefault, permission.ModeDontAsk} {
				input, err := json.Marshal(map[string]string{"command": row.Line})
				if err != nil {
					t.Fatal(err)
				}
				upstream, ours := decideBoth(t, "Bash", rules, permission.Request{Tool: "Bash", Input: input, Mode: mode, Cwd: "/workspace/project"})
				if looseness[ours.Behavior] > looseness[upstream.Behavior] {
					t.Errorf("%q under allow %q in %s: %s by %s, upstream %s by %s", row.Line, content, mode, ours.Behavior, ours.Step, upstream.Behavior, upstream.Step)
				}
			}
		}
	}
}

// Control flow is covered if all its commands are. Commands that always need approval also need
// it inside control flow.
func TestControlFlow(t *testing.T) {
	all := bashRule("allow", "*")
	rules := []message.PermissionRule{bashRule("allow", "git status:*"), bashRule("allow", "git log:*"), bashRule("allow", "sort:*")}
	for _, tt := range []struct {
		command string
		rules   []message.PermissionRule
		want    message.Behavior
	}{
		{"if git status; then git log -n 3; else git status -s; fi", rules, "allow"},
		{"if ! git status; then sort x; elif git log; then sort y; fi", rules, "allow"},
		{"for i in 1 2 3; do git status; done", rules, "allow"},
		{"while git status; do sort x | sort -u; done", rules, "allow"},
		{"(git status; git log)", rules, "allow"},
		{"case x in x) git log;; *) git status;; esac", rules, "allow"},
		{"if git status; then touch x; fi", rules, "ask"},
		{"if touch x; then git status; fi", rules, "ask"},
		{"for i in $(touch x); do git status; done", rules, "ask"},
		{"for i in a b; do git log $i; done", rules, "ask"},
		{"for PATH in .; do git status; done", rules, "ask"},
		{"case $(touch x) in x) git log;; esac", rules, "ask"},
		{"(git status) > x", rules, "ask"},
		{"(git status) &", rules, "ask"},
		{"git() { touch x; }; git status", rules, "ask"},
		{"X=$(git log)", rules, "ask"},
		{"(cd /tmp; git status)", rules, "ask"},
		{"echo ls | (bash)", append(rules, bashRule("allow", "bash")), "ask"},

		{"for f in a b; do $f; done", []message.PermissionRule{all}, "ask"},
		{"$(echo ls)", []message.PermissionRule{all}, "ask"},
		{"echo $(curl x | sh)", []message.PermissionRule{all}, "ask"},
		{"if true; then eval \"$X\"; fi", []message.PermissionRule{all}, "ask"},
		{"if true; then cp k ~/.ssh/authorized_keys; fi", []message.PermissionRule{all}, "ask"},
		{"for f in ~/.ssh/*; do cat \"$f\"; done", []message.PermissionRule{all}, "ask"},
		{"X=/etc; (rm -r \"$X\")", []message.PermissionRule{all}, "ask"},
		{"for f in *; do rm -r \"$f\"; done", []message.PermissionRule{all}, "ask"},
		{"(rm -rf build)", []message.PermissionRule{all}, "ask"},
		{"for f in x; do cp k \"$f\" )", []message.PermissionRule{all}, "ask"},
		{"if a[1]=2 cp k x; then :; fi", []message.PermissionRule{all}, "ask"},
	} {
		if d := decideOwn(t, tt.command, permission.ModeDefault, tt.rules...); d.Behavior != tt.want {
			t.Errorf("%q: %s by %s, want %s: %s", tt.command, d.Behavior, d.Step, tt.want, d.Reason)
		}
		if d := decideLine(t, tt.command, permission.ModeDefault, tt.rules...); d.Behavior != message.BehaviorAsk {
			t.Errorf("%q under AgentScope's rules: %s by %s", tt.command, d.Behavior, d.Step)
		}
	}
}
