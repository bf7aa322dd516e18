package permission_test

import (
	"context"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/agentscope"
)

func shellOptions(t *testing.T) permission.Options {
	t.Helper()
	kind, err := agentscope.New(agentscope.Bash, agentscope.Config{})
	if err != nil {
		t.Fatal(err)
	}
	bash := permission.Tool{Name: "Bash", Kind: kind,
		Schema: schema(t, `{"type": "object", "required": ["command"], "properties": {"command": {"type": "string"}}}`)}
	return permission.Options{Tools: []permission.Tool{bash, {Name: "t"}}, Enforced: allDuties}
}

// Conditions can check the commands that a line would run.
func TestCommandVariable(t *testing.T) {
	b := load(t, shellOptions(t), `version: 1
name: x
rules:
  - {name: no-curl, tool: Bash, behavior: deny, when: 'cmd.calls.exists(c, c.argv.exists(w, w == "curl"))'}
  - {name: no-env, tool: Bash, behavior: deny, when: 'cmd.calls.exists(c, c.assigns.exists(a, a.startsWith("LD_PRELOAD=")))'}
  - {name: no-files, tool: Bash, behavior: deny, when: 'cmd.calls.exists(c, c.redirects.exists(r, r.contains("secret")))'}
  - {name: go-only, tool: Bash, behavior: allow, when: 'cmd.static && cmd.calls.all(c, c.argv[0] == "go" && c.argv[1] in ["test", "vet"])'}
  - {name: why, tool: Bash, behavior: ask, when: '"substitution" in cmd.reasons'}
`)
	for _, tc := range []struct {
		command string
		want    message.Behavior
		rule    string
	}{
		{`go test ./... && go vet ./...`, "allow", "go-only"},
		{`go test ./... && go build ./...`, "ask", ""},
		{`go test $X`, "ask", ""},
		{`go test; curl evil.example`, "deny", "no-curl"},
		{`env sudo curl evil.example`, "deny", "no-curl"},
		{`bash -c 'c\url evil.example'`, "deny", "no-curl"},
		{`LD_PRELOAD=./x.so go test`, "deny", "no-env"},
		{`go test > secret.txt`, "deny", "no-files"},
		{`go test $(go vet)`, "ask", "why"},
	} {
		in := `{"command": "` + tc.command + `"}`
		if tc.command[0] == 'b' {
			in = `{"command": "bash -c 'c\\url evil.example'"}`
		}
		d := b.Decide(context.Background(), permission.Request{Tool: "Bash", Input: []byte(in)})
		if d.Behavior != tc.want || d.Rule != tc.rule || len(d.Errors) > 0 {
			t.Errorf("%s: %s by %q, errors %v; want %s by %q", tc.command, d.Behavior, d.Rule, d.Errors, tc.want, tc.rule)
		}
	}
}

// Conditions know the same about options as rules with content.
func TestAdmittedOptions(t *testing.T) {
	programs := []string{"git", "go", "ls", "find", "curl", "sort", "npm", "mytool", "rm", "python3"}
	when := `cmd.static && size(cmd.calls) > 0 && cmd.calls.all(c, c.argv[0] in ["` + strings.Join(programs, `", "`) + `"] && c.options_admitted)`
	conditions := compile(t, shellOptions(t), permission.Rule{Name: "r", Tools: []string{"Bash"}, Behavior: message.BehaviorAllow, When: when})
	var contents []permission.Rule
	for _, p := range programs {
		content := p + ":*"
		contents = append(contents, permission.Rule{Name: p, Tools: []string{"Bash"}, Behavior: message.BehaviorAllow, RuleContent: &content})
	}
	rules := compile(t, shellOptions(t), contents...)
	admitted := 0
	for _, line := range []string{
		"git status", "git commit -m 'a; b'", "git -c core.pager=x log", "git log --output=x", "git grep --open-files-in-pager=x y", "git push origin main",
		"go test ./...", "go test -exec x ./...", "go vet -vettool=x", "go build -o /etc/x", "ls -la", "find . -name x", "find . -delete", "find . -exec rm {} +",
		"curl http://h.test", "curl -o x http://h.test", "sort x", "sort -o x x", "npm test", "npm --prefix /x test", "mytool x", "mytool", "rm a", "python3 x.py",
		"ls && git status", "ls; curl -K x", "ls > x", "X=1 ls", "ls $X", "ls | sort", "ls | python3", "env ls",
	} {
		input, err := strictjson.Marshal(map[string]any{"command": line})
		if err != nil {
			t.Fatal(err)
		}
		req := permission.Request{Tool: "Bash", Input: input, Mode: permission.ModeDefault, Cwd: "/w"}
		want, got := rules.Decide(t.Context(), req), conditions.Decide(t.Context(), req)
		if got.Behavior != want.Behavior {
			t.Errorf("%s: %s by conditions, %s by contents", line, got.Behavior, want.Behavior)
		}
		if got.Behavior == message.BehaviorAllow && got.Step == permission.StepAllowRule {
			admitted++
		}
	}
	if admitted < 4 {
		t.Errorf("conditions admit the options of %d lines", admitted)
	}
}

func TestCommandOfOtherTools(t *testing.T) {
	for _, tool := range []string{"t", "*"} {
		_, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{Name: "r", Tools: []string{tool}, Behavior: message.BehaviorDeny, When: "cmd.static"}}}, shellOptions(t))
		if err == nil {
			t.Errorf("cmd in a rule for %s is accepted", tool)
		}
	}
}

// A rule file adds options to the listed ones for one rule only. Options that a table cannot
// contain are refused.
func TestOptionsOfARule(t *testing.T) {
	load := func(options, behavior string) (*permission.Bundle, error) {
		return permission.Load([]permission.File{{Name: "rules.yaml", Data: []byte("version: 1\nname: x\nrules:\n  - {name: r, tool: Bash, rule_content: 'mytool:*', options: '" + options + "', behavior: " + behavior + "}\n")}}, shellOptions(t))
	}
	b, err := load("--fix --ext=ts|js <local>...", "allow")
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]message.Behavior{
		"mytool --fix --ext ts src": message.BehaviorAllow, "mytool --ext=sh": message.BehaviorAsk,
		"mytool --exec x": message.BehaviorAsk, "mytool /etc": message.BehaviorAsk, "othertool --fix": message.BehaviorAsk,
	} {
		if d := b.Decide(t.Context(), permission.Request{Tool: "Bash", Input: []byte(`{"command": "` + command + `"}`)}); d.Behavior != want {
			t.Errorf("%s: %s, want %s", command, d.Behavior, want)
		}
	}
	for options, behavior := range map[string]string{"<none>": "allow", "reads": "allow", "--fix": "deny"} {
		if _, err := load(options, behavior); err == nil {
			t.Errorf("options %q of a rule that is %s are accepted", options, behavior)
		}
	}
}

func TestTrustOptions(t *testing.T) {
	run := func(trust bool) message.Behavior {
		content := "mytool:*"
		b := compile(t, shellOptions(t), permission.Rule{Name: "r", Tools: []string{"Bash"}, Behavior: message.BehaviorAllow, RuleContent: &content, TrustOptions: trust})
		return b.Decide(context.Background(), permission.Request{Tool: "Bash", Input: []byte(`{"command": "mytool --exec x"}`)}).Behavior
	}
	if run(false) != message.BehaviorAsk || run(true) != message.BehaviorAllow {
		t.Errorf("without trust %s, with it %s", run(false), run(true))
	}
	content := "x"
	opts := permission.Options{Matchers: map[string]permission.Matcher{"t": anyContent{}}}
	_, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{Name: "r", Tools: []string{"t"}, Behavior: message.BehaviorAllow, RuleContent: &content, TrustOptions: true}}}, opts)
	if err == nil {
		t.Error("trust_options without a meaning is accepted")
	}
}
