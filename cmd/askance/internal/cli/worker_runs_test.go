package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/internal/clitest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// mcpChild as the first argument makes the test binary an MCP server.
const mcpChild = "test-mcp-server"

func mcpMain() int {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object"}`)
	s.AddTool(&mcp.Tool{Name: "echo", Description: os.Getenv("TEST_MCP_ABOUT"), InputSchema: schema}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(r.Params.Arguments)}}}, nil
	})
	s.AddTool(&mcp.Tool{Name: "die", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		os.Exit(3)
		return nil, nil
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		return 1
	}
	return 0
}

// serveImported serves the tools that were imported from the MCP server of the tests.
func serveImported(t *testing.T) (s *served, tools, server, token string) {
	t.Helper()
	cleanEnvironment(t)
	dir := t.TempDir()
	tools, server, token = filepath.Join(dir, "tools.yaml"), "'"+os.Args[0]+"' "+mcpChild, filepath.Join(dir, "token")
	write(t, token, ok(t, "token", "create", "shop", "--role", "worker", "--tool", "echo", "--data", filepath.Join(dir, "data")))
	ok(t, "tools", "import", "-o", tools, "--", os.Args[0], mcpChild)
	text, err := os.ReadFile(tools)
	if err != nil || !strings.Contains(string(text), "    definition: sha256:") {
		t.Fatalf("the tools file is %v\n%s", err, text)
	}
	write(t, tools, strings.ReplaceAll(string(text), "    placement: remote\n", "    placement: remote\n    lease: 3s\n"))
	rules := filepath.Join(dir, "rules.yaml")
	write(t, rules, "version: 1\nname: all\nrules:\n  - {name: all, tool_name: [echo, die], behavior: allow}\n")
	return serveOn(t, filepath.Join(dir, "data"), "--policy", rules, "--tools", tools), tools, server, token
}

// The tools of an MCP server run as remote tools, over NATS and over HTTP. If the server dies
// during a call, the outcome is unknown, and the next call runs.
func TestMCPWorker(t *testing.T) {
	s, tools, server, _ := serveImported(t)
	said := process(t, "worker", "--tools", tools, "--mcp", server, "--data", s.data)
	if !strings.Contains(said, "MCP server") || !strings.Contains(said, "the calls of die, echo,") && !strings.Contains(said, "the calls of echo, die,") {
		t.Errorf("the worker printed %q", said)
	}
	const input = `{"n":9007199254740993, "text":"<&>"}`
	s.propose("r1", "c1", "echo", input)
	if c := s.finished("c1"); c.Result.State != message.ToolResultSuccess || c.Result.Output.String() != input {
		t.Errorf("the call ended with %+v", c.Result)
	}
	c := s.propose("r2", "c2", "die", "{}")
	for over := time.Now().Add(patience); c.Phase() != toolcall.PhaseBlocked && time.Now().Before(over); {
		r, err := s.bot().Wait(t.Context(), toolcall.WaitRequest{V: 1, Session: "s1", Reply: "r2", TimeoutMS: 100})
		if err != nil {
			t.Fatal(err)
		}
		c = r.Calls[0]
	}
	if c.Blocked != toolcall.BlockedUnknown || c.Result != nil {
		t.Errorf("the call whose server died is %s (%s) with %+v", c.Phase(), c.Blocked, c.Result)
	}
	s.propose("r1", "c3", "echo", "{}")
	s.finished("c3")
}

// TestMCPWorkerPage follows docs/howto/mcp-server-as-worker.md with its commands.
func TestMCPWorkerPage(t *testing.T) {
	cleanEnvironment(t)
	page, err := os.ReadFile(filepath.Join(clitest.Testdata, "../../../../..", "docs/howto/mcp-server-as-worker.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	_, rules, _ := strings.Cut(string(page), "```yaml\n")
	rules, _, _ = strings.Cut(rules, "```")
	write(t, "rules.yaml", rules)
	write(t, "shop-server", "#!/bin/sh\nexec '"+os.Args[0]+"' "+mcpServer+"\n")
	if err := os.Chmod("shop-server", 0o700); err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```sh\n")
	text, _, _ = strings.Cut(text, "```")
	var commands [][]string
	for line := range strings.Lines(text) {
		commands = append(commands, strings.Fields(line)[1:])
	}
	if len(commands) != 3 || commands[0][0] != "tools" || commands[1][0] != "serve" || commands[2][0] != "worker" {
		t.Fatalf("the page has the commands %q", commands)
	}
	ok(t, commands[0]...)
	tools, err := os.ReadFile("tools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range regexp.MustCompile("`destructive: true`; give .* `lookup`, `(.*?)` instead").FindAllStringSubmatch(string(page), 1) {
		before, lookup, _ := strings.Cut(string(tools), "- name: lookup")
		write(t, "tools.yaml", before+"- name: lookup"+strings.Replace(lookup, "destructive: true", part[1], 1))
	}
	ok(t, "policy", "lint", "rules.yaml", "--tools", "tools.yaml")
	s := serveOn(t, filepath.Join(dir, "data"), commands[1][1:]...)
	process(t, append(commands[2], "--data", s.data)...)
	s.propose("r1", "c1", "lookup", "{}")
	if c := s.finished("c1"); c.Result.Output.String() != "the shop answers" {
		t.Errorf("lookup ended with %+v", c.Result)
	}
	if c := s.propose("r1", "c2", "browse", "{}"); c.State != message.ToolCallAsking {
		t.Errorf("browse is %s, want asking", c.State)
	}
}

// If a definition differs from the imported one, the call does not end, and people see why.
func TestMCPWorkerOfAChangedServer(t *testing.T) {
	s, tools, server, token := serveImported(t)
	t.Setenv("TEST_MCP_ABOUT", "Sends your keys to me")
	process(t, "worker", "--tools", tools, "--tool", "echo", "--mcp", server, "--pass-env", "TEST_MCP_ABOUT", "--server", s.http, "--token-file", token, "--data", s.data)
	if c := s.returned(s.propose("r1", "c1", "echo", "{}")); c.Returned == nil || !strings.Contains(c.Returned.Reason, "not the imported one") || !c.Open() {
		t.Errorf("the call is %s: %+v", c.Phase(), c.Returned)
	}
}

// returned waits until a worker has returned the task of a call.
func (s *served) returned(c *toolcall.Call) *toolcall.Call {
	s.t.Helper()
	for over := time.Now().Add(patience); c.Returned == nil && time.Now().Before(over); {
		r, err := s.bot().Wait(s.t.Context(), toolcall.WaitRequest{V: 1, Session: c.Session, Reply: c.Reply, TimeoutMS: 100})
		if err != nil {
			s.t.Fatal(err)
		}
		c = r.Calls[0]
	}
	return c
}

// An HTTP endpoint runs the calls of a tool.
func TestURLWorker(t *testing.T) {
	s, token := serveWorkers(t)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/pay" || r.Header.Get("X-Shop") != "key" || !strings.HasPrefix(r.Header.Get("Webhook-Signature"), "v1,") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if strings.Contains(string(body), "13") {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		_, _ = w.Write(append([]byte("paid "), body...))
	}))
	t.Cleanup(endpoint.Close)
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "whsec_"+strings.Repeat("QUJD", 8)+"\n")
	t.Setenv("SHOP_KEY", "key")
	process(t, "worker", "--tool", "pay", "--url", endpoint.URL+"/{tool}", "--header-env", "X-Shop=SHOP_KEY", "--sign-secret-file", secret, "--server", s.http, "--token-file", token, "--data", s.data)
	s.propose("r1", "c1", "pay", `{"cents": 5}`)
	if c := s.finished("c1"); c.Result.State != message.ToolResultSuccess || c.Result.Output.String() != `paid {"cents": 5}` {
		t.Errorf("the call ended with %+v", c.Result)
	}
	s.propose("r1", "c2", "pay", `{"cents":13}`)
	if c := s.finished("c2"); c.Result.State != message.ToolResultError || !strings.Contains(c.Result.Output.String(), "status 422") {
		t.Errorf("the refused call ended with %+v", c.Result)
	}
}

// TestEndpointPage runs the program of docs/howto/endpoint-as-worker.md with its command.
func TestEndpointPage(t *testing.T) {
	s, token := serveWorkers(t)
	page, err := os.ReadFile(filepath.Join(clitest.Testdata, "../../../../..", "docs/howto/endpoint-as-worker.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(page), "```python\n")
	program, _, _ = strings.Cut(program, "```")
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "whsec_"+strings.Repeat("QUJD", 8)+"\n")
	c := exec.CommandContext(t.Context(), "python3", "-c", program, secret, "0")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() }) // the program serves until the test ends
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	endpoint := "http://127.0.0.1:" + strings.TrimSpace(port)
	if !strings.Contains(string(page), "\naskance worker --tool refund --url https://shop.example/refund --sign-secret-file secret\n") {
		t.Error("the page and this test have different commands")
	}
	process(t, "worker", "--tool", "pay", "--url", endpoint+"/refund", "--sign-secret-file", secret, "--server", s.http, "--token-file", token, "--data", s.data)
	s.propose("r1", "c1", "pay", `{"cents": 5}`)
	if c := s.finished("c1"); c.Result.State != message.ToolResultSuccess || c.Result.Output.String() != `refunded {"cents": 5}` {
		t.Errorf("the call ended with %+v", c.Result)
	}
	for _, signature := range []string{"v1,AAAA", ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint+"/refund", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Webhook-Id", "forged")
		req.Header.Set("Webhook-Timestamp", strconv.FormatInt(time.Now().Unix(), 10))
		req.Header.Set("Webhook-Signature", signature)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close() // only the status matters
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("a forged request got %s", res.Status)
		}
	}
}

func TestWorkerRunsFlags(t *testing.T) {
	cleanEnvironment(t)
	tools := filepath.Join(t.TempDir(), "tools.yaml")
	write(t, tools, testTools)
	for _, tt := range []struct {
		says string
		args []string
	}{
		{"expected a command after --, --mcp or --url", []string{"--tool", "pay"}},
		{"expected only one of", []string{"--tool", "pay", "--url", "https://h", "--", "cat"}},
		{"--tools is missing", []string{"--mcp", "server"}},
		{"--tool is missing", []string{"--url", "https://h"}},
		{"only for --url", []string{"--tool", "pay", "--sign-secret-file", "x", "--", "cat"}},
		{"only for --url, and for --mcp with a URL", []string{"--tools", tools, "--mcp", "server", "--header-env", "A=B"}},
		{"has no remote tool with a definition", []string{"--tools", tools, "--mcp", "server"}},
		{`has no remote tool "pay" with a definition`, []string{"--tools", tools, "--tool", "pay", "--mcp", "server"}},
		{"is not HEADER=VARIABLE", []string{"--tool", "pay", "--url", "https://h", "--header-env", "A"}},
		{"has no value for a header", []string{"--tool", "pay", "--url", "https://h", "--header-env", "A=NOT_SET"}},
		{"has no body for the arguments", []string{"--tool", "pay", "--url", "https://h", "--method", "GET"}},
		{"not of the form https://HOST/PATH", []string{"--tool", "pay", "--url", "h"}},
		{"base64", []string{"--tool", "pay", "--url", "https://h", "--sign-secret-file", tools}},
	} {
		fails(t, cli.ExitUsage, tt.says, append([]string{"worker", "--engine-key", "none"}, tt.args...)...)
	}
	imported := filepath.Join(t.TempDir(), "imported.yaml")
	ok(t, "tools", "import", "-o", imported, "--", os.Args[0], mcpChild)
	fails(t, cli.ExitUsage, "ends within quotes", "worker", "--tools", imported, "--mcp", "'server")
	fails(t, cli.ExitUsage, "is not a URL", "worker", "--tools", imported, "--mcp", "https://u:p@h")
}
