package agentscope

import (
	"encoding/json"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// We allow what AgentScope allows if it is safe. Only unsafe calls are decided more strictly.
func TestAllowsWhatIsSafe(t *testing.T) {
	for _, tt := range []struct {
		mode    permission.Mode
		command string
		want    message.Behavior
	}{
		{permission.ModeDefault, "ls |& cat", message.BehaviorAllow},
		{permission.ModeDefault, "echo $((1+2))", message.BehaviorAllow},
		{permission.ModeExplore, "echo $'x'", message.BehaviorAllow},
		{permission.ModeExplore, "cat <<'E'\n$(ls)\nE", message.BehaviorAllow},
		{permission.ModeDefault, "cat <<< x", message.BehaviorAllow},
		{permission.ModeDefault, "cat < x", message.BehaviorAllow},
		{permission.ModeDefault, "cat <<EOF\nhi $X\nEOF", message.BehaviorAllow},
		{permission.ModeDefault, "printf %n PATH; git status", message.BehaviorAsk},
		{permission.ModeDefault, "git status 'unclosed", message.BehaviorAsk},
		{permission.ModeDefault, "cd x && git status", message.BehaviorAsk},
		{permission.ModeDefault, "ls | cat <(rm x)", message.BehaviorAsk},
		{permission.ModeAcceptEdits, "cp -t out a b", message.BehaviorAllow},
		{permission.ModeAcceptEdits, "cp -t /etc a b", message.BehaviorAsk},
		{permission.ModeAcceptEdits, "cp --target-directory=/etc a b", message.BehaviorAsk},
		{permission.ModeAcceptEdits, "mv -t /etc a", message.BehaviorAsk},
		{permission.ModeAcceptEdits, "cp -- -t a", message.BehaviorAllow},
		{permission.ModeAcceptEdits, "mv a é/a > rmdir ./*", message.BehaviorAsk}, // AgentScope cuts the last path to /*
		{permission.ModeAcceptEdits, "sed --in-place s/a/b/ f", message.BehaviorAllow},
		{permission.ModeAcceptEdits, "sed --in-place s/a/b/ /etc/f", message.BehaviorAsk},
		{permission.ModeAcceptEdits, "sed -ne 1p f", message.BehaviorAllow},
		{permission.ModeAcceptEdits, "sed -ne '1w x' f", message.BehaviorAsk},
	} {
		input, err := json.Marshal(map[string]string{"command": tt.command})
		if err != nil {
			t.Fatal(err)
		}
		row := decided{Name: tt.command, Mode: tt.mode, Cwd: "/workspace/project", Home: "/home/dev", Tool: "Bash", Input: input}
		got, upstream := row.decide(t), row.upstream(t)
		if got.Behavior != tt.want {
			t.Errorf("%q in %s: %s by %s, want %s", tt.command, tt.mode, got.Behavior, got.Step, tt.want)
		}
		if looseness[got.Behavior] > looseness[upstream.Behavior] {
			t.Errorf("%q in %s: %s, upstream %s", tt.command, tt.mode, got.Behavior, upstream.Behavior)
		}
	}
}

// A relative content with ** matches all folders, including the working directory itself, and
// nothing outside.
func TestContentBelow(t *testing.T) {
	for file, want := range map[string]message.Behavior{
		"/workspace/project/a.py": message.BehaviorAllow, "/workspace/project/src/a.py": message.BehaviorAllow,
		"/workspace/a.py": message.BehaviorAsk, "/workspace/project/../a.py": message.BehaviorAsk, "/workspace/project/a.pyc": message.BehaviorAsk,
	} {
		content := "**/*.py"
		input, err := json.Marshal(map[string]string{"file_path": file, "content": ""})
		if err != nil {
			t.Fatal(err)
		}
		row := decided{Name: file, Mode: permission.ModeDefault, Cwd: "/workspace/project", Tool: "Write", Input: input,
			Rules: []message.PermissionRule{{ToolName: "Write", RuleContent: &content, Behavior: message.BehaviorAllow, Source: "test"}}}
		if got := row.decide(t); got.Behavior != want {
			t.Errorf("%s: %s by %s, want %s", file, got.Behavior, got.Step, want)
		}
	}
}
