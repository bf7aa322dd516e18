package agentscope

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

func TestNew(t *testing.T) {
	for _, name := range Names() {
		k, err := New(name, Config{Home: "/home/dev"})
		if err != nil || !strings.Contains(k.Name(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if other := mustNew(name, Config{Home: "/home/ann"}); k.Name() == other.Name() {
			t.Errorf("%s has the same name for two homes: %s", name, k.Name())
		}
	}
	if _, err := New("zsh", Config{}); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("zsh: %v", err)
	}
	if len(Names()) != 10 || !slices.IsSorted(Names()) {
		t.Errorf("kinds %v", Names())
	}
}

// Arguments of another type than the tool takes always need approval, and no rule reports that it
// does not match.
func TestMalformedArguments(t *testing.T) {
	for kind, input := range map[string]map[string]any{
		Bash: {"command": int64(7)}, Read: {"file_path": []any{"x"}}, Write: {"file_path": int64(1)}, Edit: {"file_path": true},
		Glob: {"path": 1.5, "pattern": "x"}, Grep: {"path": map[string]any{"a": "b"}},
	} {
		k := mustNew(kind, Config{})
		c := permission.Call{Tool: kind, Input: input, Cwd: "/w", Mode: permission.ModeAcceptEdits}
		c.Prepared = k.Prepare(c)
		if k.ReadOnly(c) {
			t.Errorf("%s is read-only", kind)
		}
		if v := k.Check(c); v.Answer != permission.CheckAskImmune {
			t.Errorf("%s: the check returns %v", kind, v)
		}
		if got := k.Suggest(c); len(got) > 0 {
			t.Errorf("%s suggests %v", kind, got)
		}
		p, err := k.Compile("x", message.BehaviorDeny)
		if err != nil {
			t.Fatal(err)
		}
		if matched, err := p.Match(c); err == nil && !matched {
			t.Errorf("a rule about %s reports that it does not match %v", kind, input)
		}
	}
}

// null is an absent argument. AgentScope treats every value that Python takes for false as
// absent. No allow rule covers those, and a deny rule matches or fails.
func TestAbsentArguments(t *testing.T) {
	for kind, name := range map[string]string{
		Bash: "command", Read: "file_path", Write: "file_path", Edit: "file_path", Glob: "path", Grep: "path",
	} {
		for _, value := range []any{nil, false, int64(0), 0.0, []any{}, map[string]any{}} {
			k := mustNew(kind, Config{})
			c := permission.Call{Tool: kind, Input: map[string]any{name: value, "pattern": "x"}, Cwd: "/w"}
			c.Prepared = k.Prepare(c)
			absent := value == nil
			if v := k.Check(c); (v.Answer == permission.CheckPassthrough) != absent {
				t.Errorf("%s %v: the check returns %v", kind, value, v)
			}
			if reads := kind == Read || kind == Glob || kind == Grep; k.ReadOnly(c) != (reads && absent) {
				t.Errorf("%s %v: read-only %v", kind, value, k.ReadOnly(c))
			}
			p, err := k.Compile("/w", message.BehaviorDeny)
			if err != nil {
				t.Fatal(err)
			}
			searches := kind == Grep || kind == Glob
			if matched, err := p.Match(c); (err == nil) != (absent || searches) || matched != searches {
				t.Errorf("%s %v: a rule matches %v, %v", kind, value, matched, err)
			}
			if v := (oracle{Config{}, kind}).check(c); v.Answer != permission.CheckPassthrough {
				t.Errorf("%s %v: the oracle returns %v", kind, value, v)
			}
		}
	}
}

func TestContentOfPlainKinds(t *testing.T) {
	for _, kind := range []string{PowerShell, Cmd, MCP, Function} {
		if _, err := mustNew(kind, Config{}).Compile("x", message.BehaviorDeny); err == nil {
			t.Errorf("%s: a content without a meaning is accepted", kind)
		}
	}
}

// An MCP tool that is declared read-only is allowed. Any other needs approval, and a rule for all
// of its calls is suggested.
func TestMCP(t *testing.T) {
	for readOnly, want := range map[bool]message.Behavior{true: message.BehaviorAllow, false: message.BehaviorAsk} {
		b := compile(t, permission.Tool{Name: "mcp__s__t", Kind: mustNew(MCP, Config{}), ReadOnly: readOnly})
		d := b.Decide(context.Background(), permission.Request{Tool: "mcp__s__t", Input: []byte(`{}`), Mode: permission.ModeDefault})
		if d.Behavior != want || want == message.BehaviorAsk && (len(d.Suggested) != 1 || d.Suggested[0].RuleContent != nil) {
			t.Errorf("read-only %v: %s, suggests %v", readOnly, d.Behavior, d.Suggested)
		}
	}
}

func compile(t *testing.T, tool permission.Tool, rules ...message.PermissionRule) *permission.Bundle {
	t.Helper()
	b, err := permission.Compile(fromRules(rules), permission.Options{Tools: []permission.Tool{tool}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A Kind does the work of a check and a matcher. Together with either it would be unclear which
// one decides.
func TestKindAndCheckAreRefused(t *testing.T) {
	tool := permission.Tool{Name: "Bash", Kind: mustNew(Bash, Config{}), Check: func(permission.Call) permission.ToolVerdict { return permission.ToolVerdict{} }}
	if _, err := permission.Compile(permission.Policy{}, permission.Options{Tools: []permission.Tool{tool}}); err == nil {
		t.Error("a kind and a check are accepted together")
	}
}

func TestNotices(t *testing.T) {
	for _, tc := range []struct {
		tool, kind, content string
		behavior            message.Behavior
		want                string
	}{
		{"Bash", Bash, "npm install", message.BehaviorAllow, "in AgentScope it allows every line"},
		{"Bash", Bash, "git status:*", message.BehaviorAllow, ""},
		{"Bash", Bash, "my-own-tool:*", message.BehaviorAllow, "trust_options: true"},
		{"Bash", Bash, "rm /tmp/*", message.BehaviorAllow, "means files"},
		{"Bash", Bash, "git log *", message.BehaviorAllow, ""},
		{"Bash", Bash, "rm /tmp/*", message.BehaviorDeny, ""},
		{"Bash", Bash, "npm install", message.BehaviorDeny, ""},
		{"Write", Write, "src/**", message.BehaviorAllow, "working directories"},
		{"Write", Write, "/srv/**", message.BehaviorAllow, ""},
		{"Write", Write, "~/src/**", message.BehaviorAllow, ""},
		{"Write", Write, "../src/**", message.BehaviorAllow, ""},
		{"Grep", Grep, "src/**", message.BehaviorAllow, ""},
	} {
		b := compile(t, permission.Tool{Name: tc.tool, Kind: mustNew(tc.kind, Config{Home: "/home/dev"})},
			message.PermissionRule{ToolName: tc.tool, RuleContent: &tc.content, Behavior: tc.behavior})
		var got []string
		for _, n := range b.Notices() {
			got = append(got, n.String())
		}
		if all := strings.Join(got, "\n"); (tc.want == "") != (all == "") || !strings.Contains(all, tc.want) {
			t.Errorf("%s %q as %s: %q, want %q", tc.tool, tc.content, tc.behavior, all, tc.want)
		}
	}
}

// Several rules cover a line together, each one part of it. One rule on its own does not.
func TestJointRules(t *testing.T) {
	rule := func(content string) message.PermissionRule {
		return message.PermissionRule{ToolName: "Bash", RuleContent: &content, Behavior: message.BehaviorAllow}
	}
	tool := permission.Tool{Name: "Bash", Kind: mustNew(Bash, Config{})}
	line := permission.Request{Tool: "Bash", Input: []byte(`{"command": "npm run x && git commit -m y"}`), Mode: permission.ModeDefault, Cwd: "/w"}
	for want, rules := range map[message.Behavior][]message.PermissionRule{
		message.BehaviorAsk:   {rule("npm run:*")},
		message.BehaviorAllow: {rule("npm run:*"), rule("git commit:*")},
	} {
		if d := compile(t, tool, rules...).Decide(context.Background(), line); d.Behavior != want {
			t.Errorf("%d rules: %s by %s: %s", len(rules), d.Behavior, d.Step, d.Reason)
		}
	}
	line.SessionRules = []message.PermissionRule{rule("git commit:*")}
	if d := compile(t, tool, rule("npm run:*")).Decide(context.Background(), line); d.Behavior != message.BehaviorAllow {
		t.Errorf("with a rule of the session: %s by %s", d.Behavior, d.Step)
	}
}

// The rule that an approval request suggests covers the same call and no other.
func TestSuggestionsAnswerTheCall(t *testing.T) {
	b := compile(t, permission.Tool{Name: "Bash", Kind: mustNew(Bash, Config{})})
	ask := func(command string, rules []message.PermissionRule) permission.Decision {
		return b.Decide(context.Background(), permission.Request{Tool: "Bash", Input: []byte(`{"command": "` + command + `"}`),
			Mode: permission.ModeDefault, Cwd: "/w", SessionRules: rules})
	}
	first := ask("npm run build", nil)
	var contents []string
	for _, r := range first.Suggested {
		contents = append(contents, *r.RuleContent)
	}
	if diff := cmp.Diff([]string{"npm run build"}, contents); diff != "" {
		t.Fatal(diff)
	}
	for command, want := range map[string]message.Behavior{
		"npm run build": message.BehaviorAllow, "npm run build | tail -5": message.BehaviorAllow,
		"npm run test": message.BehaviorAsk, "npm run build --script-shell=x": message.BehaviorAsk, "npm run x && curl h | sh": message.BehaviorAsk, "npm publish": message.BehaviorAsk, "rm -rf x": message.BehaviorAsk,
	} {
		if d := ask(command, first.Suggested); d.Behavior != want {
			t.Errorf("%s: %s, want %s", command, d.Behavior, want)
		}
	}
}

// A rule with trust_options covers options that are not known for a program, but not a second
// command. For a tool without programs the key is refused.
func TestTrustOptions(t *testing.T) {
	tools := []permission.Tool{{Name: "Bash", Kind: mustNew(Bash, Config{})}, {Name: "Write", Kind: mustNew(Write, Config{})}}
	rule := func(tool string, trust bool) permission.Policy {
		content := "deploy:*"
		return permission.Policy{Rules: []permission.Rule{
			{Name: "r", Tools: []string{tool}, RuleContent: &content, Behavior: message.BehaviorAllow, TrustOptions: trust}}}
	}
	opts := permission.Options{Tools: tools}
	for _, tc := range []struct {
		command string
		trust   bool
		want    message.Behavior
	}{
		{"deploy --to x", false, message.BehaviorAsk}, {"deploy --to x", true, message.BehaviorAllow},
		{"deploy --to x; touch y", true, message.BehaviorAsk}, {"deploy $X", true, message.BehaviorAsk},
	} {
		b, err := permission.Compile(rule("Bash", tc.trust), opts)
		if err != nil {
			t.Fatal(err)
		}
		d := b.Decide(context.Background(), permission.Request{Tool: "Bash", Input: []byte(`{"command": "` + tc.command + `"}`), Cwd: "/w"})
		if d.Behavior != tc.want {
			t.Errorf("%s, trusted %v: %s, want %s", tc.command, tc.trust, d.Behavior, tc.want)
		}
	}
	if _, err := permission.Compile(rule("Write", true), opts); err == nil {
		t.Error("trust_options is accepted for a tool without programs")
	}
}

// Texts that would exhaust a parser's stack are not analysed and need approval.
func TestDeepTexts(t *testing.T) {
	for _, piece := range []string{"(", "$(", "{ ", "`", "\"$(", "${a:-", "if ", "<(", "((", "[[ (", "! ", "a|", "a&&", "case a in a) ", "<<a\n", "time ", "$((", "((-", "f() ", "'"} {
		for _, n := range []int{100, 3000, 200_000 / len(piece)} {
			k := mustNew(Bash, Config{})
			c := permission.Call{Tool: "Bash", Input: map[string]any{"command": strings.Repeat(piece, n) + " x"}, Cwd: "/w"}
			c.Prepared = k.Prepare(c)
			if k.ReadOnly(c) || k.Check(c).Answer == permission.CheckAllow {
				t.Errorf("%d times %q is allowed", n, piece)
			}
		}
	}
}
