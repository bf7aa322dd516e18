package agui_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
)

// TestPage runs the client that AGUI.md contains.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("AGUI.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(page), "```js\n")
	code, _, found := strings.Cut(code, "```\n")
	if !found {
		t.Fatal("the page contains no client")
	}
	modules, err := filepath.Abs(filepath.Join(folder, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	code = strings.NewReplacer("'@ag-ui/client'", "'"+filepath.Join(modules, "agui-1/dist/index.mjs")+"'", "http://127.0.0.1:8787", s.URL).Replace(code)
	file := filepath.Join(t.TempDir(), "client.mjs")
	if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", file)
	cmd.Env = append(os.Environ(), "ASKANCE_TOKEN="+s.A.Token(gatewaytest.Everything))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `Pay 42 to acme? {"to":"acme","amount":42}`) || !strings.Contains(string(out), "pay: success") {
		t.Errorf("the client printed %s: %v", out, err)
	}
}
