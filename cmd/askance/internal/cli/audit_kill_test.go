package cli_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message"
)

// A server that is killed again and again while it signs loses nothing of the
// proof, and the next one goes on.
func TestAuditSurvivesKills(t *testing.T) {
	clean(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), testRules)
	write(t, filepath.Join(dir, "tools.yaml"), testTools)
	data := filepath.Join(dir, "data")
	for life := range 3 {
		s, kill := serveProcess(t, data, "--durability", "cached",
			"--checkpoint-every", "1ms", "--checkpoint-records", "1", "--policy", filepath.Join(dir, "rules.yaml"), "--tools", filepath.Join(dir, "tools.yaml"))
		bot := s.bot()
		for i := range 15 {
			if _, err := bot.Propose(t.Context(), message.ProposeRequest{V: 1, Session: "s1", Reply: message.ReplyID(fmt.Sprint("r", life)), Calls: []message.ToolCallBlock{{ID: message.CallID(fmt.Sprint("c", i)), Name: "pay", Input: `{"cents":500}`}}}); err != nil {
				t.Fatal(err)
			}
		}
		kill()
		if r := report(t, cli.ExitOK, "--data", data); r.Checkpoints == 0 || r.Facts < uint64(15*(life+1)) || r.Chained != r.Facts {
			t.Errorf("after kill %d: %+v", life+1, r)
		}
	}
	ok(t, "audit", "checkpoint", "--data", data)
	if r := report(t, cli.ExitOK, "--data", data); r.Uncovered != 0 || r.Checkpoints < 3 {
		t.Errorf("in the end: %+v", r)
	}
}
