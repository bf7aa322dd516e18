package node_test

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/message"
)

// An allow rule that means less than in AgentScope is told in the log, and the
// working directories reach the tools' checks.
func TestNoticesAndWorkingDirs(t *testing.T) {
	cfg := config(t)
	var err error
	if cfg.Tools, err = toolfile.Parse("tools", []byte("version: 1\ntools:\n  - {name: Write, kind: write, concurrency_safe: true}\n")); err != nil {
		t.Fatal(err)
	}
	text := "version: 1\nname: p\nrules:\n  - {name: sources, tool_name: Write, rule_content: 'src/**', behavior: allow}\n"
	if err := os.WriteFile(cfg.Policy[0], []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cfg.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg.Cwd, cfg.Mode = t.TempDir(), "accept_edits"
	n := start(t, cfg)
	if !strings.Contains(log.String(), "rule=sources") || !strings.Contains(log.String(), "working directories") {
		t.Errorf("the log does not tell what the rule means:\n%s", log.String())
	}
	propose(t, n, "inside", "Write", `{"file_path": "a.txt"}`)
	propose(t, n, "outside", "Write", `{"file_path": "/nowhere/a.txt"}`)
	bot := n.Engine().As(message.Principal{Role: message.RoleAuditor, Name: "ann"})
	for id, want := range map[message.CallID]message.Behavior{"inside": message.BehaviorAllow, "outside": message.BehaviorAsk} {
		r, err := bot.Show(t.Context(), message.ShowRequest{V: 1, Key: message.Key{Space: "default", Session: "s", Reply: "r", Call: id}})
		if err != nil || r.Call.Decision == nil || r.Call.Decision.Behavior != want {
			t.Errorf("%s: %+v, %v, want %s", id, r.Call.Decision, err, want)
		}
	}
}
