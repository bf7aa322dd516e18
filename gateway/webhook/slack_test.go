package webhook_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var update = flag.Bool("update", false, "write the golden files")

func request(tool, text, input string) *webhook.Notice {
	c := &toolcall.Call{
		Key: toolcall.Key{Space: "default", Session: "s1", Reply: "r1", Call: "c1"}, Runtime: "support-bot", Agent: "helper", Tool: tool, Input: input, State: message.ToolCallAsking, Digest: "sha256:aa",
		Request: &toolcall.ApprovalRequest{V: 1, Tool: tool, Input: input, Text: text, Rule: "big refunds", Reason: "the rule \"big refunds\" asks", Requirement: toolcall.Requirement{Quorum: 1, Deadline: noon.Add(time.Hour)}},
	}
	n := &webhook.Notice{
		Type: webhook.TypeRequestOpened, ID: "msg_default_7", Seq: 7, Timestamp: noon, Space: "default", Call: c,
		Links: &webhook.LinkSet{Request: "https://x.example/inbox/call?call=c1", Approve: "https://x.example/inbox/link?token=a", Reject: "https://x.example/inbox/link?token=b"},
	}
	if w, ok := c.Waiting(time.Now()); ok {
		n.Waiting = &w
	}
	return n
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var v any
	if err := json.Unmarshal(got, &v); err != nil {
		t.Fatalf("no JSON: %v\n%s", err, got)
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, append(b, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(b)+"\n"); d != "" {
		t.Errorf("%s:\n%s", name, d)
	}
}

func TestSlack(t *testing.T) {
	q := request("refund", "Refund 420 EUR to acme?", `{"amount":420,"to":"acme & sons"}`)
	b, err := webhook.Slack(q)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "slack-request.json", b)
	done := request("refund", "Refund 420 EUR to acme?", `{"amount":420}`)
	done.Type, done.Waiting, done.Call.State = webhook.TypeCallFinished, nil, message.ToolCallFinished
	done.Links.Approve, done.Links.Reject = "", ""
	done.Call.Votes = []toolcall.Vote{{By: toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"}, Kind: toolcall.ResponseApprove, Digest: "sha256:aa"}}
	done.Call.Result = &message.ToolResultBlock{ID: "c1", Name: "refund", State: message.ToolResultSuccess}
	if b, err = webhook.Slack(done); err != nil {
		t.Fatal(err)
	}
	golden(t, "slack-outcome.json", b)
}

// Nothing that a model writes is interpreted by Slack, and nothing is hidden.
func TestSlackHostile(t *testing.T) {
	evil := "<!channel> <@U123> <https://evil.example|click> & ```*bold* \u202egpj.exe a\u200bb :fire: @here"
	input, err := json.Marshal(map[string]string{"evil": evil, "end": "```\n<!here>"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"refund", "<!channel>", "re\u202efund"} {
		b, err := webhook.Slack(request(tool, evil, strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(input))))
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Text   string
			Blocks []struct {
				Type string
				Text struct{ Type, Text string }
			}
		}
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		all := m.Text
		for _, block := range m.Blocks {
			all += "\n" + block.Text.Text
			if block.Text.Type == "mrkdwn" && (strings.Count(block.Text.Text, "`") != 6 || !strings.HasPrefix(block.Text.Text, "```\n") || !strings.HasSuffix(block.Text.Text, "\n```")) {
				t.Errorf("the code ends early: %s", block.Text.Text)
			}
		}
		if strings.ContainsAny(all, "<>\u202e\u200b") || !strings.Contains(all, "&lt;!channel&gt;") || !strings.Contains(all, "‹U+202E›") {
			t.Errorf("some text is interpreted or hidden:\n%s", all)
		}
	}
}

// Slack accepts a message of any length.
func TestSlackLong(t *testing.T) {
	for _, piece := range []string{"<", "&", "x", "é", "😀", "`", "\n"} {
		long := strings.Repeat(piece, 100_000)
		input, err := json.Marshal(map[string]string{"long": long})
		if err != nil {
			t.Fatal(err)
		}
		b, err := webhook.Slack(request(strings.Repeat("t", 200), long, string(input)))
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Blocks []struct {
				Type     string
				Text     struct{ Text string }
				Elements []json.RawMessage
			}
		}
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		for _, block := range m.Blocks {
			limit := map[string]int{"header": 150, "section": 3000}[block.Type]
			if n := len(block.Text.Text); n > limit || len(block.Elements) > 10 || strings.Contains(block.Text.Text, "&l …") {
				t.Errorf("%q: a %s of %d bytes with %d elements", piece, block.Type, n, len(block.Elements))
			}
		}
	}
}
