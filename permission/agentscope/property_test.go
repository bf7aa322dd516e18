package agentscope

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

var allModes = []permission.Mode{permission.ModeDefault, permission.ModeAcceptEdits, permission.ModeExplore, permission.ModeBypass, permission.ModeDontAsk}

var commandParts = []string{
	"ls", "ls -la", "git status", "git push origin", "npm run build", "rm -rf x", "rm a", "rm '/usr'", "touch a", `touch "/etc/x"`, "mkdir a/b",
	"mv a ../b", "cp a b", "sed -i s/a/b/ f", "sed '1e x' f", "echo $X", "echo $(id)", "tee f", "cat .env", "find . -delete", "sudo rm x", "cd /tmp",
	"python x.py", "X=1 ls", "LANG=C ls", "chmod 644 .env", "{ ls; }", "(ls)", "ls 'open", "é x", "echo \u202e", "rm *.o", "touch ~/x",
	"if true; then ls; fi", "for f in a b; do git status; done", "while ls; do git push; done", "case x in x) ls;; esac", "! ls", "[ -f a ]", "X=$(date)",
	"a[1]=2 rm a", "`)`", "fi", "cat <<E\nx\nE\n", "echo x | psql app", "until git status; do :; done", "f() { ls; }", "for ((;;)); do ls; done", "[[ -f a ]]", "time ls",
}

var joiners = []string{" && ", "; ", " | ", "\n", " & ", " || ", " > ", " "}

func genCommand(t *rapid.T) string {
	out := rapid.SampledFrom(commandParts).Draw(t, "command")
	for range rapid.IntRange(0, 3).Draw(t, "more") {
		out += rapid.SampledFrom(joiners).Draw(t, "joiner") + rapid.SampledFrom(commandParts).Draw(t, "part")
	}
	return out
}

var bashContents = []string{"ls:*", "git:*", "git push:*", "npm run:*", "rm:*", "npm", "git *", "* x", "touch:*", "echo:*", "cd:*", "x", "*", "**", "if:*", "for *", "psql:*", "* done", "! ls"}

func genRules(t *rapid.T, tool string, contents []string) []message.PermissionRule {
	var out []message.PermissionRule
	for range rapid.IntRange(0, 4).Draw(t, "rules") {
		r := message.PermissionRule{ToolName: tool, Source: "test",
			Behavior: rapid.SampledFrom([]message.Behavior{message.BehaviorAllow, message.BehaviorDeny, message.BehaviorAsk}).Draw(t, "behavior")}
		if rapid.IntRange(0, 5).Draw(t, "some") > 0 {
			content := rapid.SampledFrom(contents).Draw(t, "content")
			r.RuleContent = &content
		}
		out = append(out, r)
	}
	return out
}

// decideBoth decides one call as upstream does and as we do.
func decideBoth(t rapid.TB, tool string, rules []message.PermissionRule, req permission.Request) (upstream verdict, ours permission.Decision) {
	b, err := permission.Compile(fromRules(rules), permission.Options{
		Tools: []permission.Tool{{Name: tool, Kind: mustNew(builtin[tool], Config{Home: "/home/dev"})}}})
	if err != nil {
		t.Fatal(err)
	}
	return decideAsUpstream(t, rules, req, "/home/dev"), b.Decide(context.Background(), req)
}

// Upstream allows everything that we allow, and dont_ask never asks.
func checkNeverLooser(t rapid.TB, upstream verdict, ours permission.Decision, about any) {
	if ours.Behavior == message.BehaviorAllow && upstream.Behavior != message.BehaviorAllow {
		t.Fatalf("%v in %s: allowed by %s, upstream: %s by %s", about, ours.Mode, ours.Step, upstream.Behavior, upstream.Step)
	}
	if ours.Mode == permission.ModeDontAsk && ours.Behavior == message.BehaviorAsk {
		t.Fatalf("%v asks in dont_ask by %s", about, ours.Step)
	}
	if ours.Mode == permission.ModeExplore && ours.Behavior == message.BehaviorAllow && ours.Step != permission.StepReadOnly {
		t.Fatalf("%v is allowed in explore by %s", about, ours.Step)
	}
}

func TestNeverLooserForCommands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		command := genCommand(t)
		input, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		upstream, ours := decideBoth(t, "Bash", genRules(t, "Bash", bashContents), permission.Request{
			Tool: "Bash", Input: input, Mode: rapid.SampledFrom(allModes).Draw(t, "mode"), Cwd: "/workspace/project", WorkingDirs: []string{"/srv/data"}})
		checkNeverLooser(t, upstream, ours, command)
	})
}

func TestNeverLooserForPaths(t *testing.T) {
	pathParts := []string{"..", ".", "src", "a.py", "etc", ".env", ".ssh", "~", "", "x y", "[a]", "é"}
	contents := []string{"**", "src/**", "/workspace/project/**", "*.py", "../**", "/srv/*", "[!a]*", "./src/*", "~/**", "/**"}
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom([]string{"", "/", "/workspace/project/", "~/", "/srv/data/"}).Draw(t, "root")
		for i, part := range rapid.SliceOfN(rapid.SampledFrom(pathParts), 0, 5).Draw(t, "parts") {
			if i > 0 {
				path += "/"
			}
			path += part
		}
		tool := rapid.SampledFrom([]string{"Write", "Edit", "Read", "Glob", "Grep"}).Draw(t, "tool")
		key := map[bool]string{true: "path", false: "file_path"}[tool == "Glob" || tool == "Grep"]
		input, err := json.Marshal(map[string]string{key: path})
		if err != nil {
			t.Fatal(err)
		}
		upstream, ours := decideBoth(t, tool, genRules(t, tool, contents), permission.Request{
			Tool: tool, Input: input, Mode: rapid.SampledFrom(allModes).Draw(t, "mode"), Cwd: "/workspace/project", WorkingDirs: []string{"/srv/data"}})
		checkNeverLooser(t, upstream, ours, tool+" "+path)
	})
}

// No text makes a kind panic, which the engine would turn into an approval request, and nothing
// is allowed that upstream does not allow.
func FuzzBash(f *testing.F) {
	for _, c := range commandParts {
		f.Add(c, "git:*", byte(0))
	}
	f.Add("a && (b; c) | d <<E\n$(x)\nE", `a\*b*`, byte(1))
	f.Add("while ls; do git push;(", "git:*", byte(0))
	f.Add("((a)) ; [[ x ]] ; coproc c ; let y=1 ; time z", ":*", byte(4))
	f.Fuzz(func(t *testing.T, command, content string, mode byte) {
		call := permission.Call{Tool: "Bash", Input: map[string]any{"command": command}, Mode: allModes[int(mode)%len(allModes)], Cwd: "/workspace/project"}
		k := mustNew(Bash, Config{Home: "/home/dev"})
		call.Prepared = k.Prepare(call)
		k.Suggest(call)
		ours := k.ReadOnly(call) || k.Check(call).Answer == permission.CheckAllow
		if p, err := k.Compile(content, message.BehaviorAllow); err == nil {
			matched, err := p.Match(call)
			ours = ours || matched && err == nil
		}
		o := oracle{Config{Home: "/home/dev"}, Bash}
		matched, err := o.match(content, call)
		upstream := o.readOnly(call) || o.check(call).Answer == permission.CheckAllow || matched && err == nil
		if ours && !upstream {
			t.Errorf("%q with allow %q is allowed here, but not by upstream", command, content)
		}
	})
}

func FuzzMatchName(f *testing.F) {
	for _, p := range []string{"*", "src/**", "[a-c].txt", "[!a]", "[]]", "[", "a[", "?*?", `a\*`, "[a-", "é*"} {
		f.Add(p, "src/a.txt")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		matched := matchName(pattern, name)
		if matched && !matchName("*"+pattern, name) {
			t.Errorf("%q matches %q, but not with a star before it", pattern, name)
		}
		if !matchName("*", name) {
			t.Errorf("* does not match %q", name)
		}
	})
}

// The explanation of a decision about a command equals the decision, even if rules cover the
// command together, and every piece of the line is explained.
func TestExplainEqualsDecideForCommands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := permission.Request{Tool: "Bash", Cwd: "/work", WorkingDirs: []string{"/work"}, Mode: rapid.SampledFrom(allModes).Draw(t, "mode")}
		req.Input, _ = json.Marshal(map[string]any{"command": genCommand(t)})
		rules := genRules(t, "Bash", bashContents)
		if cut := rapid.IntRange(0, len(rules)).Draw(t, "session"); cut > 0 {
			req.SessionRules, rules = rules[:cut], rules[cut:]
		}
		b, err := permission.Compile(fromRules(rules), permission.Options{Tools: []permission.Tool{{Name: "Bash", Kind: mustNew(Bash, Config{Home: "/home/dev"})}}})
		if err != nil {
			t.Fatal(err)
		}
		x, d := b.Explain(context.Background(), req), b.Decide(context.Background(), req)
		if diff := cmp.Diff(d, x.Decided, cmpopts.IgnoreFields(permission.RuleError{}, "Err")); diff != "" {
			t.Fatalf("Explain differs from Decide (-decide +explain):\n%s", diff)
		}
		for _, p := range x.Shell {
			if !p.Covered && d.Step == permission.StepAllowRule && d.Rule != permission.SessionRuleName && len(req.SessionRules) == 0 && !bare(rules) {
				t.Fatalf("%s is allowed by %s, but %q is not covered", req.Input, d.Reason, p.Text)
			}
		}
	})
}

// bare reports whether an allow rule covers every command.
func bare(rules []message.PermissionRule) bool {
	return slices.ContainsFunc(rules, func(r message.PermissionRule) bool {
		return r.Behavior == message.BehaviorAllow && (r.RuleContent == nil || *r.RuleContent == "")
	})
}
