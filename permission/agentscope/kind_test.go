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
		strict := mustNew(name, Config{Home: "/home/dev", Reading: Strict})
		if k.Name() == strict.Name() {
			t.Errorf("%s has one name in both readings: %s", name, k.Name())
		}
	}
	if _, err := New("zsh", Config{}); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("zsh: %v", err)
	}
	if len(Names()) != 9 || !slices.IsSorted(Names()) {
		t.Errorf("kinds %v", Names())
	}
}

// Arguments of another type than the tool takes are asked about in any case,
// and no rule is said not to match. AgentScope does not look at what is read.
func TestMalformedArguments(t *testing.T) {
	for kind, input := range map[string]map[string]any{
		Bash: {"command": int64(7)}, Read: {"file_path": []any{"x"}}, Write: {"file_path": int64(1)}, Edit: {"file_path": true},
		Glob: {"path": 1.5, "pattern": "x"}, Grep: {"path": map[string]any{"a": "b"}},
	} {
		for _, r := range []Reading{Strict, Guarded} {
			k := mustNew(kind, Config{Reading: r})
			c := permission.Call{Tool: kind, Input: input, Cwd: "/w", Mode: permission.ModeAcceptEdits}
			c.Prepared = k.Prepare(c)
			if reads := kind == Read || kind == Glob || kind == Grep; k.ReadOnly(c) != (reads && r == Strict) {
				t.Errorf("%s %s: read-only %v", r, kind, k.ReadOnly(c))
			}
			if v := k.Check(c); kind != Read && v.Answer != permission.CheckAskImmune {
				t.Errorf("%s: the check answers %v", kind, v)
			}
			if got := k.Suggest(c); len(got) > 0 {
				t.Errorf("%s suggests %v", kind, got)
			}
			p, err := k.Compile("x", message.BehaviorDeny)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Match(c); err == nil {
				t.Errorf("a rule about %s is matched with %v", kind, input)
			}
		}
	}
}

// AgentScope takes for absent what Python takes for false. So does the strict
// reading; the guarded one does so with null.
func TestAbsentArguments(t *testing.T) {
	for kind, name := range map[string]string{
		Bash: "command", Read: "file_path", Write: "file_path", Edit: "file_path", Glob: "path", Grep: "path",
	} {
		for _, value := range []any{nil, false, int64(0), 0.0, []any{}, map[string]any{}} {
			for _, r := range []Reading{Strict, Guarded} {
				k := mustNew(kind, Config{Reading: r})
				c := permission.Call{Tool: kind, Input: map[string]any{name: value, "pattern": "x"}, Cwd: "/w"}
				c.Prepared = k.Prepare(c)
				taken := r == Strict || value == nil
				if v := k.Check(c); (v.Answer == permission.CheckPassthrough) != taken && (taken || kind != Read) {
					t.Errorf("%s %s %v: the check answers %v", r, kind, value, v)
				}
				if reads := kind == Read || kind == Glob || kind == Grep; k.ReadOnly(c) != (reads && taken) {
					t.Errorf("%s %s %v: read-only %v", r, kind, value, k.ReadOnly(c))
				}
				p, err := k.Compile("/w", message.BehaviorDeny)
				if err != nil {
					t.Fatal(err)
				}
				if matched, err := p.Match(c); (err == nil) != taken || matched && kind != Grep && kind != Glob {
					t.Errorf("%s %s %v: a rule matches %v, %v", r, kind, value, matched, err)
				}
			}
		}
	}
}

func TestContentOfPlainKinds(t *testing.T) {
	for _, kind := range []string{PowerShell, MCP, Function} {
		if _, err := mustNew(kind, Config{}).Compile("x", message.BehaviorDeny); err == nil {
			t.Errorf("%s: a content without a meaning is accepted", kind)
		}
		p, err := mustNew(kind, Config{Reading: Strict}).Compile("x", message.BehaviorDeny)
		if err != nil {
			t.Fatal(err)
		}
		if matched, err := p.Match(permission.Call{}); matched || err != nil {
			t.Errorf("%s: %v, %v", kind, matched, err)
		}
	}
}

// An MCP tool that is declared read-only is allowed, any other asks and offers
// a rule for all of its calls.
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

// A Kind does the work of a check and a matcher; with one of them beside it
// nobody could tell which decides.
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
		reading             Reading
		want                string
	}{
		{"Bash", Bash, "npm install", message.BehaviorAllow, Guarded, "in AgentScope it allows every line"},
		{"Bash", Bash, "git status:*", message.BehaviorAllow, Guarded, ""},
		{"Bash", Bash, "my-own-tool:*", message.BehaviorAllow, Guarded, "add trust_options"},
		{"Bash", Bash, "rm /tmp/*", message.BehaviorAllow, Guarded, "stands for files"},
		{"Bash", Bash, "git log *", message.BehaviorAllow, Guarded, ""},
		{"Bash", Bash, "rm /tmp/*", message.BehaviorDeny, Guarded, ""},
		{"Bash", Bash, "npm install", message.BehaviorDeny, Guarded, ""},
		{"Bash", Bash, "npm install", message.BehaviorAllow, Strict, ""},
		{"Write", Write, "src/**", message.BehaviorAllow, Guarded, "working directories"},
		{"Write", Write, "/srv/**", message.BehaviorAllow, Guarded, ""},
		{"Write", Write, "src/**", message.BehaviorAllow, Strict, ""},
		{"Write", Write, "~/src/**", message.BehaviorAllow, Guarded, ""},
		{"Write", Write, "../src/**", message.BehaviorAllow, Guarded, ""},
		{"Grep", Grep, "src/**", message.BehaviorAllow, Guarded, ""},
	} {
		b := compile(t, permission.Tool{Name: tc.tool, Kind: mustNew(tc.kind, Config{Reading: tc.reading})},
			message.PermissionRule{ToolName: tc.tool, RuleContent: &tc.content, Behavior: tc.behavior})
		var got []string
		for _, n := range b.Notices() {
			got = append(got, n.String())
		}
		if all := strings.Join(got, "\n"); (tc.want == "") != (all == "") || !strings.Contains(all, tc.want) {
			t.Errorf("%s %q as %s in %s: %q, want %q", tc.tool, tc.content, tc.behavior, tc.reading, all, tc.want)
		}
	}
}

// Several rules cover a line together, each a part of it, and one alone does
// not.
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

// The rules that a question suggests answer other calls, as the engine groups
// them, but none that hides more behind the same beginning.
func TestSuggestionsAnswerOtherCalls(t *testing.T) {
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
	if diff := cmp.Diff([]string{"npm run:*"}, contents); diff != "" {
		t.Fatal(diff)
	}
	for command, want := range map[string]message.Behavior{
		"npm run test": message.BehaviorAllow, "npm run x && curl h | sh": message.BehaviorAsk, "npm publish": message.BehaviorAsk, "rm -rf x": message.BehaviorAsk,
	} {
		if d := ask(command, first.Suggested); d.Behavior != want {
			t.Errorf("%s: %s, want %s", command, d.Behavior, want)
		}
	}
}

// A rule with trust_options covers what is not known of a program, and still no
// second command. For a tool without programs the key is refused.
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

// Texts that a parser would follow down until its stack ends are not analysed,
// and end in a question.
func TestDeepTexts(t *testing.T) {
	for _, piece := range []string{"(", "$(", "{ ", "`", "\"$(", "${a:-", "if ", "<(", "((", "[[ (", "! ", "a|", "a&&", "case a in a) ", "<<a\n", "time ", "$((", "((-", "f() ", "'"} {
		for _, n := range []int{100, 3000, 200_000 / len(piece)} {
			for _, r := range []Reading{Strict, Guarded} {
				k := mustNew(Bash, Config{Reading: r})
				c := permission.Call{Tool: "Bash", Input: map[string]any{"command": strings.Repeat(piece, n) + " x"}, Cwd: "/w"}
				c.Prepared = k.Prepare(c)
				if k.ReadOnly(c) || k.Check(c).Answer == permission.CheckAllow {
					t.Errorf("%d times %q is allowed in the %s reading", n, piece, r)
				}
			}
		}
	}
}
