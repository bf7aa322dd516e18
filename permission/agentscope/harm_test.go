package agentscope

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// harm describes what happens below a folder that stands in for the root when an untagged row
// runs.
type harm struct {
	run  func(row decided, root string) string // the shell line that does the same as the tool
	left string                                // the file that exists afterwards
	text string                                // its content
}

var harms = map[string]harm{
	"deny_prefix_not_first": {run: func(row decided, _ string) string { return row.argument("command") }, left: "ran", text: "git push\n"},
	"allow_glob_dotdot": {run: func(row decided, root string) string { return `printf x > "` + root + row.argument("file_path") + `"` },
		left: "etc/x", text: "x"},
	"write_in_cwd/dont_ask": {run: func(row decided, root string) string { return `printf x > "` + root + row.argument("file_path") + `"` },
		left: "workspace/project/a.py", text: "x"},
	"mv_in_cwd/dont_ask": {run: func(row decided, _ string) string { return "mkdir sub; printf x > a.txt; " + row.argument("command") },
		left: "workspace/project/sub/b.txt", text: "x"},
	"touch_quoted_outside": {run: func(row decided, root string) string {
		return strings.ReplaceAll(row.argument("command"), "/etc/", root+"/etc/")
	}, left: "etc/x"},
}

func (d decided) argument(name string) string {
	var in map[string]string
	if json.Unmarshal(d.Input, &in) != nil {
		return ""
	}
	return in[name]
}

// Why the untagged rows that we decide more strictly cannot be decided as upstream does: when
// they run in bash, each does something that no rule of the row allows, or that a rule denies.
func TestUntaggedRowsDoHarm(t *testing.T) {
	for _, row := range decisions(t) {
		if untagged[row.Name] == "" {
			continue
		}
		h, ok := harms[row.Name]
		if !ok {
			t.Errorf("%s: no case shows that upstream's decision does harm", row.Name)
			continue
		}
		root := t.TempDir()
		for _, dir := range []string{"bin", "etc", row.Cwd + "/src", row.Cwd + "/x"} {
			if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		stub := "#!/bin/sh\necho git \"$@\" > '" + root + "/ran'\n"
		if err := os.WriteFile(filepath.Join(root, "bin/git"), []byte(stub), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-c", h.run(row, root))
		cmd.Dir, cmd.Env = filepath.Join(root, row.Cwd), []string{"PATH=" + root + "/bin:/usr/bin:/bin"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", row.Name, err, out)
		}
		if got, err := os.ReadFile(filepath.Join(root, h.left)); err != nil || string(got) != h.text {
			t.Errorf("%s: the row does no harm: %q, %v", row.Name, got, err)
		}
	}
}

// Dangers that upstream does not see, such as a path in quotes, need a plain approval here, as
// there. But no allow rule of any source covers them, while upstream would let them run.
func TestUnseenDangerIsNotCovered(t *testing.T) {
	allow := func(content *string) message.PermissionRule {
		return message.PermissionRule{ToolName: "Bash", RuleContent: content, Behavior: message.BehaviorAllow, Source: "test"}
	}
	rules := []message.PermissionRule{allow(nil), allow(new("rm:*")), allow(new("echo:*")), allow(new("cp:*"))}
	for command, mode := range map[string]permission.Mode{
		`rm "/home/dev/.bashrc"`:  permission.ModeDefault,
		`rm ~/"x"/.git`:           permission.ModeAcceptEdits,
		`echo a > "x/.env"`:       permission.ModeDefault,
		`env rm -r /usr`:          permission.ModeDefault,
		`cp a "/home/dev/.npmrc"`: permission.ModeAcceptEdits,
	} {
		input, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		req := permission.Request{Tool: "Bash", Input: input, Mode: mode, Cwd: "/workspace/project", WorkingDirs: []string{"/home/dev"}}
		upstream, ours := decideBoth(t, "Bash", rules, req)
		if upstream.Behavior != message.BehaviorAllow || ours.Behavior != message.BehaviorAsk || ours.BypassImmune {
			t.Errorf("%q: upstream %s by %s, ours %s by %s, immune %v", command, upstream.Behavior, upstream.Step, ours.Behavior, ours.Step, ours.BypassImmune)
		}
		b, err := permission.Compile(permission.Policy{}, permission.Options{Tools: []permission.Tool{{Name: "Bash", Kind: mustNew(Bash, Config{Home: "/home/dev"})}}})
		if err != nil {
			t.Fatal(err)
		}
		if b.Covers(context.Background(), req, rules) == nil {
			t.Errorf("%q is covered by standing approvals", command)
		}
		req.SessionRules = rules
		if d := b.Decide(context.Background(), req); d.Behavior != message.BehaviorAsk {
			t.Errorf("%q with rules of the session: %s by %s", command, d.Behavior, d.Step)
		}
	}
}
