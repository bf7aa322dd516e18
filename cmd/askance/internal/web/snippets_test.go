package web

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
)

// TestSnippets runs the clients of the pages unchanged, on loopback without tokens.
func TestSnippets(t *testing.T) {
	w := &wired{t: t, secrets: map[string]string{"": ""}}
	w.serve(Config{User: "me", DefaultTokens: filepath.Join(t.TempDir(), "tokens.json")})
	for _, c := range []struct{ page, kind, end, want string }{
		{"../../../../gateway/agui/AGUI.md", "js", "", "Pay 42 to acme?"},
		{"../../../../gateway/api/API.md", "sh", "# Follow changes.", `"kind":"approve"`},
	} {
		t.Run(c.kind, func(t *testing.T) {
			page, err := os.ReadFile(c.page)
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(page), "```"+c.kind+"\n")
			code, _, found := strings.Cut(rest, "```")
			if !found {
				t.Fatalf("%s contains no client", c.page)
			}
			if c.end != "" {
				code, _, _ = strings.Cut(code, c.end) // remove the endless stream
			}
			code = strings.ReplaceAll(code, "http://127.0.0.1:8787", w.URL)
			cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", code)
			if c.kind == "js" {
				checkTools(t, string(page), code)
				cmd = exec.CommandContext(t.Context(), "node", "--input-type=module", "-")
				cmd.Stdin = strings.NewReader(strings.ReplaceAll(code, "'@ag-ui/client'", "'agui-1'"))
				cmd.Dir = "../../../../gateway/testdata/node"
			}
			out, err := cmd.CombinedOutput()
			if text := strings.ReplaceAll(string(out), `"kind": "`, `"kind":"`); err != nil || !strings.Contains(text, c.want) {
				t.Errorf("%v, want %s in\n%s", err, c.want, text)
			}
		})
	}
}

// checkTools: the tools file of a page declares the tool that its client calls.
func checkTools(t *testing.T, page, code string) {
	t.Helper()
	_, rest, _ := strings.Cut(page, "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	tools, err := toolfile.Parse("tools.yaml", []byte(text))
	if err != nil || len(tools) != 1 || !strings.Contains(code, "call "+tools[0].Name+" {") {
		t.Errorf("the page declares %v, but its client calls another tool: %v", tools, err)
	}
}
