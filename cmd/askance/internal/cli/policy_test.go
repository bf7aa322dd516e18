package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/internal/clitest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// policyFolder creates the folder of files for the tests of askance policy and changes into it.
func policyFolder(t *testing.T) {
	t.Helper()
	folderOf(t, "shop")
}

// folderOf creates a folder with the files of a folder in testdata and changes into it.
func folderOf(t *testing.T, name string) {
	t.Helper()
	cleanEnvironment(t)
	from := filepath.Join(clitest.Testdata, name)
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		write(t, e.Name(), string(text))
	}
}

var duration = regexp.MustCompile(`"duration_us": \d+`)

// TestPolicy runs each command of askance policy and compares its complete output and exit code.
func TestPolicy(t *testing.T) {
	policyFolder(t)
	const small, large = `{"order":"A-1","cents":900}`, `{"order":"A-1","cents":19900}`
	for _, tc := range []struct {
		golden string
		code   int
		args   []string
	}{
		{"lint", cli.ExitFindings, []string{"lint", "bad.yaml", "--tools", "tools.yaml"}},
		{"lint-json", cli.ExitFindings, []string{"lint", "bad.yaml", "--tools", "tools.yaml", "--json"}},
		{"lint-good", cli.ExitOK, []string{"lint", "rules.yaml", "--tools", "tools.yaml", "--directory", "people.yaml", "--strict"}},
		{"lint-refused", cli.ExitFindings, []string{"lint", "refused.yaml", "--tools", "tools.yaml"}},
		{"lint-codes", cli.ExitOK, []string{"lint", "--codes"}},
		{"test", cli.ExitOK, []string{"test", "rules.yaml", "--tools", "tools.yaml", "-v", "--full"}},
		{"test-failing", cli.ExitFindings, []string{"test", "bad.yaml", "--tools", "tools.yaml"}},
		{"test-json", cli.ExitFindings, []string{"test", "bad.yaml", "--tools", "tools.yaml", "--json"}},
		{"test-refused", cli.ExitUsage, []string{"test", "refused.yaml", "--tools", "tools.yaml"}},
		{"explain", cli.ExitOK, []string{"explain", "rules.yaml", "--tools", "tools.yaml", "--tool", "refund", "--args", large}},
		{"explain-json", cli.ExitOK, []string{"explain", "rules.yaml", "--tools", "tools.yaml", "--tool", "refund", "--args", small, "--json"}},
		{"explain-test", cli.ExitOK, []string{"explain", "rules.yaml", "--tools", "tools.yaml", "--test", "huge refunds are denied"}},
		{"explain-bad-input", cli.ExitOK, []string{"explain", "rules.yaml", "--tools", "tools.yaml", "--tool", "refund", "--args", `{"cents":"x"}`}},
		{"explain-shell", cli.ExitOK, []string{"explain", "shell.yaml", "--tools", "shell-tools.yaml", "--tool", "Bash", "--args", `{"command":"git status && git log -n 3\ntouch x"}`}},
		{"explain-joint", cli.ExitOK, []string{"explain", "shell.yaml", "--tools", "shell-tools.yaml", "--tool", "Bash", "--args", `{"command":"git commit -m 'a; b' && git push origin main"}`}},
		{"replay", cli.ExitFindings, []string{"replay", "candidate.yaml", "--tools", "tools.yaml", "--calls", "calls.jsonl"}},
		{"replay-json", cli.ExitFindings, []string{"replay", "candidate.yaml", "--tools", "tools.yaml", "--calls", "calls.jsonl", "--json"}},
		{"replay-same", cli.ExitOK, []string{"replay", "rules.yaml", "--tools", "tools.yaml", "--calls", "calls.jsonl"}},
		{"diff", cli.ExitFindings, []string{"diff", "rules.yaml", "candidate.yaml", "--tools", "tools.yaml"}},
		{"fmt-diff", cli.ExitFindings, []string{"fmt", "bad.yaml", "--check", "--diff"}},
		{"import", cli.ExitOK, []string{"import", "settings.json"}},
		{"import-context", cli.ExitOK, []string{"import", "context.json", "--name", "scope"}},
		{"import-leave-out", cli.ExitOK, []string{"import", "odd.json", "--leave-out"}},
		{"import-leave-out-deny", cli.ExitUsage, []string{"import", "odd-deny.json", "--leave-out"}},
		{"import-refused", cli.ExitUsage, []string{"import", "refused.json"}},
		{"vars", cli.ExitOK, []string{"vars", "refund", "--tools", "tools.yaml"}},
		{"vars-json", cli.ExitOK, []string{"vars", "refund", "--tools", "tools.yaml", "--json"}},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			r := run(t, append([]string{"policy"}, tc.args...)...)
			if r.code != tc.code {
				t.Errorf("exit %d, want %d", r.code, tc.code)
			}
			text := "$ askance policy " + strings.Join(tc.args, " ") + "\n" + r.out + r.err
			golden(t, "policy-"+tc.golden, duration.ReplaceAllString(text, `"duration_us": 0`))
		})
	}
}

func TestPolicyUsage(t *testing.T) {
	policyFolder(t)
	for _, tc := range []struct {
		code       int
		says, args string
	}{
		{cli.ExitUsage, "no rule files", "policy lint"},
		{cli.ExitUsage, `unknown command "lnt"`, "policy lnt"},
		{cli.ExitUsage, "expected two policies, for instance: askance policy diff", "policy diff rules.yaml"},
		{cli.ExitUsage, "there is no tool nothing; the tools file declares ", "policy vars nothing --tools tools.yaml"},
		{cli.ExitUsage, "the rule files have no test", "policy explain rules.yaml --tools tools.yaml --test none"},
		{cli.ExitUsage, "name exactly one call", "policy explain rules.yaml --tools tools.yaml"},
		{cli.ExitUsage, "not a recorded call", "policy explain rules.yaml --tools tools.yaml --call {}"},
		{cli.ExitUsage, "--now is", "policy explain rules.yaml --tools tools.yaml --tool refund --now noon"},
		{cli.ExitUsage, "unknown permission mode", "policy replay rules.yaml --tools tools.yaml --calls calls.jsonl --mode yolo"},
		{cli.ExitUsage, "line 1: not a recorded call", "policy replay rules.yaml --tools tools.yaml --calls tools.yaml"},
		{cli.ExitNotFound, "no such file", "policy test missing.yaml"},
		{cli.ExitNotFound, "no such file", "policy replay rules.yaml --tools tools.yaml --calls missing.jsonl"},
		{cli.ExitUsage, "policy refused", "policy fmt refused.yaml"},
		{cli.ExitUsage, "for instance: askance policy import .claude/settings.json", "policy import"},
		{cli.ExitUsage, "neither permissions nor", "policy import empty.json"},
		{cli.ExitUsage, "split it", "policy import both.json"},
		{cli.ExitNotFound, "no such file", "policy import missing.json"},
		{cli.ExitFindings, "--strict treats as errors", "policy lint candidate.yaml --tools tools.yaml --strict"},
		{cli.ExitFindings, "--full requires", "policy test candidate.yaml --tools tools.yaml --full"},
	} {
		t.Run(tc.args, func(t *testing.T) { fails(t, tc.code, tc.says, strings.Fields(tc.args)...) })
	}
}

// TestPolicyFmtWrites: the file is replaced by a formatted one.
func TestPolicyFmtWrites(t *testing.T) {
	policyFolder(t)
	if out := ok(t, "policy", "fmt", "bad.yaml"); out != "bad.yaml\n" {
		t.Errorf("fmt printed %q", out)
	}
	if out := ok(t, "policy", "fmt", "bad.yaml", "--check"); out != "" {
		t.Errorf("fmt --check printed %q", out)
	}
	r := runWith(t, "version: 1\nrules: []\nname: x\n", "policy", "fmt", "-")
	if want := "version: 1\nname: x\nrules: []\n"; r.code != cli.ExitOK || r.out != want {
		t.Errorf("fmt - printed %q", r.out)
	}
}

// TestPolicyFmtThroughALink: the file is formatted, and the link is kept.
func TestPolicyFmtThroughALink(t *testing.T) {
	policyFolder(t)
	if err := os.Mkdir("elsewhere", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename("bad.yaml", "elsewhere/real.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere/real.yaml", "bad.yaml"); err != nil {
		t.Fatal(err)
	}
	ok(t, "policy", "fmt", "bad.yaml")
	ok(t, "policy", "fmt", "--check", "elsewhere/real.yaml")
	if target, err := os.Readlink("bad.yaml"); err != nil || target != "elsewhere/real.yaml" {
		t.Errorf("the link points to %q, %v", target, err)
	}
}

// TestPolicyRecord: lint compares the recorded schemas with the current ones.
func TestPolicyRecord(t *testing.T) {
	policyFolder(t)
	ok(t, "policy", "test", "rules.yaml", "--tools", "tools.yaml", "--record", "rules.recorded")
	ok(t, "policy", "lint", "rules.yaml", "--tools", "tools.yaml", "--recorded", "rules.recorded")
	tools, err := os.ReadFile("tools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, "tools.yaml", strings.Replace(string(tools), "maximum: 10000000", "maximum: 20000000", 1))
	r := run(t, "policy", "lint", "rules.yaml", "--tools", "tools.yaml", "--recorded", "rules.recorded")
	if r.code != cli.ExitFindings || !strings.Contains(r.out, "L20: the schema of tool refund has changed") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
}

// TestPolicyReplayOfAJournal replays from its journal what an engine decided.
func TestPolicyReplayOfAJournal(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "c1", "ship", `{"cents":5}`)
	s.propose("r1", "c2", "ship", `{"cents":500}`)
	s.finished("c1")
	dir := filepath.Dir(s.data)
	rules, tools := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "tools.yaml")
	if out := ok(t, "policy", "replay", rules, "--tools", tools, "--data", s.data); !strings.HasPrefix(out, "2 calls: 0 changed") {
		t.Errorf("the policy in force: %s", out)
	}
	stricter := filepath.Join(dir, "stricter.yaml")
	write(t, stricter, strings.Replace(testRules, "args.cents <= 100}", "args.cents <= 1}", 1))
	fails(t, cli.ExitNotFound, "no recorded call matches --session nope", "policy", "replay", rules, "--tools", tools, "--data", s.data, "--session", "nope")
	r := run(t, "policy", "replay", stricter, "--tools", tools, "--data", s.data)
	if r.code != cli.ExitFindings || !strings.Contains(r.out, "tighter s1/r1/c1  allow (small) -> ask") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	s.stop()
	if out := ok(t, "policy", "replay", rules, "--tools", tools, "--data", s.data); !strings.HasPrefix(out, "2 calls: 0 changed") {
		t.Errorf("in the folder: %s", out)
	}
}

// A call's own folder counts in a replay only if the engine's folder is known.
func TestPolicyReplayInFolders(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	rules, tools, data := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "tools.yaml"), filepath.Join(dir, "data")
	write(t, rules, "version: 1\nname: test\nrules:\n  - {name: clean, tool_name: Bash, rule_content: ./clean.sh, behavior: allow}\n")
	write(t, tools, "version: 1\ntools:\n  - {name: Bash, kind: bash, placement: external, concurrency_safe: true}\n")
	s := serveOn(t, data, "--policy", rules, "--tools", tools, "--cwd", "/srv")
	if _, err := s.bot().Propose(t.Context(), toolcall.ProposeRequest{
		V: 1, Session: "s1", Reply: "r1", Agent: "agent", Cwd: "/srv/.",
		Calls: []message.ToolCallBlock{{ID: "c1", Name: "Bash", Input: `{"command":"./clean.sh"}`}},
	}); err != nil {
		t.Fatal(err)
	}
	for _, cwd := range [][]string{nil, {"--cwd", "/srv"}} {
		if out := ok(t, append([]string{"policy", "replay", rules, "--tools", tools, "--data", data}, cwd...)...); !strings.HasPrefix(out, "1 call: 0 changed") {
			t.Errorf("%s: %s", cwd, out)
		}
	}
	if r := run(t, "policy", "replay", rules, "--tools", tools, "--data", data, "--cwd", "/other"); r.code != cli.ExitFindings || !strings.Contains(r.out, "allow (clean) -> ask") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
}

// TestPolicySchema: the printed schema is a JSON Schema.
func TestPolicySchema(t *testing.T) {
	policyFolder(t)
	s := decode[map[string]any](t, ok(t, "policy", "schema"))
	if s["$schema"] == nil || s["properties"] == nil {
		t.Errorf("not a JSON Schema: %v", s)
	}
}

func TestPolicyCompletion(t *testing.T) {
	policyFolder(t)
	for args, want := range map[string]string{
		"policy vars --tools tools.yaml ":                      "refund",
		"policy explain rules.yaml --tools tools.yaml --tool ": "refund",
		"policy explain rules.yaml --tools tools.yaml --mode ": "dont_ask",
		"policy ":      "explain",
		"policy lint ": "yaml",
	} {
		words := append([]string{"__complete"}, strings.Split(args, " ")...)
		if out := ok(t, words...); !strings.Contains(out, want) {
			t.Errorf("completion of %q:\n%s", args, out)
		}
	}
}

// TestExplainUndeclaredTool: a misspelled tool is not mistaken for a tool without rules.
func TestExplainUndeclaredTool(t *testing.T) {
	policyFolder(t)
	if out := ok(t, "policy", "explain", "rules.yaml", "--tools", "tools.yaml", "--tool", "refnud"); !strings.HasPrefix(out, "refused: the tools file does not declare refnud; did you mean refund?") {
		t.Errorf("explain prints %q", out)
	}
	if out := ok(t, "policy", "explain", "rules.yaml", "--tools", "tools.yaml", "--tool", "refund"); strings.Contains(out, "does not declare") {
		t.Errorf("explain prints %q", out)
	}
}

// TestExplainFrontendTool: a tool that a rule names with frontend/ is explained, and tested without a
// doubt, under both names.
func TestExplainFrontendTool(t *testing.T) {
	policyFolder(t)
	write(t, "agent.yaml", "version: 1\nname: agent\nrules:\n  - {name: picks, tool: frontend/pick, behavior: deny}\n")
	for _, tool := range []string{"pick", "frontend/pick"} {
		if out := ok(t, "policy", "explain", "agent.yaml", "--tools", "tools.yaml", "--tool", tool); !strings.HasPrefix(out, "deny by rule picks") {
			t.Errorf("explain of %s prints %q", tool, out)
		}
		write(t, "tested.yaml", strings.Replace(read(t, "agent.yaml"), "name: agent", "name: tested", 1)+"tests:\n  - {name: one, call: {tool: "+tool+"}, expect: {behavior: deny, rule: picks}}\n")
		if out := ok(t, "policy", "test", "tested.yaml", "--tools", "tools.yaml"); strings.Contains(out, "does not declare") {
			t.Errorf("the test of %s prints %q", tool, out)
		}
	}
}

// TestLintTellsNotices: a rule that covers less than it seems to is reported on standard error,
// but not as a finding.
func TestLintTellsNotices(t *testing.T) {
	dir := t.TempDir()
	rules, tools := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "tools.yaml")
	write(t, rules, "version: 1\nname: x\nrules:\n  - {name: plan, tool: Bash, rule_content: 'pulumi preview:*', behavior: allow}\n")
	write(t, tools, "version: 1\ntools:\n  - {name: Bash, kind: bash, placement: remote, input_schema: {type: object, required: [command], properties: {command: {type: string}}}}\n")
	r := run(t, "policy", "lint", rules, "--tools", tools)
	if r.code != cli.ExitOK || !strings.Contains(r.err, "note: ") || !strings.Contains(r.err, "trust_options") {
		t.Errorf("exit %d, standard error %q", r.code, r.err)
	}
}

// TestLintNamesIgnoredFiles: lint reports files of the folder that are ignored.
func TestLintNamesIgnoredFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), "version: 1\nname: x\nrules: []\n")
	write(t, filepath.Join(dir, ".more.yaml"), "version: 1\nname: x\nrules: []\n")
	if r := run(t, "policy", "lint", dir); r.code != cli.ExitOK || !strings.Contains(r.err, "note: "+filepath.Join(dir, ".more.yaml")+" is ignored because it is hidden") {
		t.Errorf("exit %d, standard error %q", r.code, r.err)
	}
	write(t, filepath.Join(dir, "rules.yaml"), "version: 1\nname: x\nrules: []")
	if r := run(t, "policy", "lint", dir); r.code == cli.ExitOK || !strings.Contains(r.err, "may be half written: it ends within a line") {
		t.Errorf("exit %d, standard error %q", r.code, r.err)
	}
}

// A people file that may be half written is refused, as by the server.
func TestLintRefusesHalfAPeopleFile(t *testing.T) {
	dir := t.TempDir()
	rules, people := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "people.yaml")
	write(t, rules, "version: 1\nname: x\nrules: []\n")
	write(t, people, "version: 1\ngroups: {ops: [ann]}")
	fails(t, cli.ExitUsage, people+": may be half written: it ends within a line (end the file with a newline)", "policy", "lint", rules, "--directory", people)
	write(t, people, "version: 1\ngroups: {ops: [ann]}\n")
	ok(t, "policy", "lint", rules, "--directory", people)
}

// TestExplainRequirement: an explanation says how many approvals which people must give.
func TestExplainRequirement(t *testing.T) {
	policyFolder(t)
	const head = "version: 1\nname: x\nrules:\n  - {name: a, tool: refund, behavior: ask, quorum: 2, expiry: 2h, approvers: {groups: [finance]}}\n"
	for rules, want := range map[string]string{
		head: "\n  needs 2 approvals by group finance within 2h\n",
		head + "  - {name: b, tool: refund, behavior: ask, approvers: {users: [ann, bob], groups: [legal], exclude_requester: true, exclude_editor: true}}\n": "\n  needs 2 approvals by each of: group finance; 1 of ann or bob or group legal within 2h, not by the requester or a person who edits the arguments\n",
	} {
		write(t, "asks.yaml", rules)
		if out := ok(t, "policy", "explain", "asks.yaml", "--tools", "tools.yaml", "--tool", "refund", "--args", `{"order": "A-1", "cents": 1}`); !strings.Contains(out, want) {
			t.Errorf("explain prints %q", out)
		}
	}
}
