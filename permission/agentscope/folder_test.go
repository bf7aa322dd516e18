package agentscope

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// If a line first changes the folder, its paths mean other files. No allow rule covers the
// sensitive ones among them.
func TestChangedFolderHidesNoDanger(t *testing.T) {
	var rules []message.PermissionRule
	for _, content := range []string{"cd:*", "tee:*", "rm:*", "cp:*", "touch:*", "mv:*"} {
		rules = append(rules, message.PermissionRule{ToolName: "Bash", RuleContent: &content, Behavior: message.BehaviorAllow, Source: "test"})
	}
	for command, want := range map[string]message.Behavior{
		"cd /home/dev/.ssh && tee authorized_keys": message.BehaviorAsk,
		"cd .git && tee config":                    message.BehaviorAsk,
		"cd .git/hooks && touch pre-commit":        message.BehaviorAsk,
		"cd src; cd ../.git; cp x config":          message.BehaviorAsk,
		"cd / && rm -r etc":                        message.BehaviorAsk,
		"cd /usr && rm -r ../etc":                  message.BehaviorAsk,
		"cd / && rm -r .":                          message.BehaviorAsk,
		"cd .. && mv x project/.env":               message.BehaviorAsk,
		"cd src && tee config":                     message.BehaviorAllow,
		"cd src && rm -r old":                      message.BehaviorAllow,
		"cd /workspace/project/src && touch x":     message.BehaviorAllow,
	} {
		input, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		req := permission.Request{Tool: "Bash", Input: input, Mode: permission.ModeDefault, Cwd: "/workspace/project"}
		if _, ours := decideBoth(t, "Bash", rules, req); ours.Behavior != want {
			t.Errorf("%q: %s by %s, want %s: %s", command, ours.Behavior, ours.Step, want, ours.Reason)
		}
	}
}

// Edits are allowed according to where their paths lead. A line that creates a link on its own
// paths needs approval.
func TestEditsThroughLinks(t *testing.T) {
	work, other := t.TempDir(), t.TempDir()
	for _, dir := range []string{"dir", "to", "plain"} {
		if err := os.Mkdir(filepath.Join(work, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a.txt", "b.txt"} {
		if err := os.WriteFile(filepath.Join(work, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"dir/out", "to/a.txt"} {
		if err := os.Symlink(filepath.Join(other, "x"), filepath.Join(work, link)); err != nil {
			t.Fatal(err)
		}
	}
	b := compile(t, permission.Tool{Name: "Bash", Kind: mustNew(Bash, Config{Links: permission.ResolveLinks})})
	for command, want := range map[string]message.Behavior{
		"mv dir d2 && touch d2/out":         message.BehaviorAsk,
		"cp -r dir d2 && touch d2/out":      message.BehaviorAsk,
		"cp a.txt to":                       message.BehaviorAsk,
		"cp -t to a.txt":                    message.BehaviorAsk,
		"cp b.txt to":                       message.BehaviorAllow,
		"cp a.txt b.txt":                    message.BehaviorAllow,
		"cp a.txt plain/ && touch plain/x":  message.BehaviorAllow,
		"mv a.txt c.txt && touch plain/new": message.BehaviorAllow,
	} {
		input, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		req := permission.Request{Tool: "Bash", Input: input, Mode: permission.ModeAcceptEdits, Cwd: work}
		if d := b.Decide(t.Context(), req); d.Behavior != want {
			t.Errorf("%q: %s by %s, want %s", command, d.Behavior, d.Step, want)
		}
	}
}
