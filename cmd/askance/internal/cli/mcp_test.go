package cli_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/internal/clitest"
	"github.com/askance-dev/askance/toolcall"
)

// mcpServer as the first argument makes the test binary the MCP server of the page.
const mcpServer = "mcp-server"

func mcpServerMain() int {
	lines := bufio.NewScanner(os.Stdin)
	id := regexp.MustCompile(`"id":(\d+)`)
	for lines.Scan() {
		m := id.FindStringSubmatch(lines.Text())
		switch text := lines.Text(); {
		case m == nil:
		case strings.Contains(text, `"initialize"`):
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"shop","version":"1"}}}`+"\n", m[1])
		case strings.Contains(text, `"tools/list"`):
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"lookup","inputSchema":{"type":"object"}},{"name":"browse","inputSchema":{"type":"object"}}]}}`+"\n", m[1])
		case strings.Contains(text, `"hang"`):
		case strings.Contains(text, `"tools/call"`):
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"the shop answers"}]}}`+"\n", m[1])
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`+"\n", m[1])
		}
	}
	return 0
}

// TestMCPPage follows docs/howto/mcp-gateway.md with its files and its commands.
func TestMCPPage(t *testing.T) {
	cleanEnvironment(t)
	page, err := os.ReadFile(filepath.Join(clitest.Testdata, "../../../../..", "docs/howto/mcp-gateway.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, m := range regexp.MustCompile("(?s)Save this as `([a-z.]+)`:\n\n```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		write(t, filepath.Join(dir, m[1]), m[2])
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "shop-server"), "#!/bin/sh\nexec '"+self+"' "+mcpServer+"\n")
	if err := os.Chmod(filepath.Join(dir, "shop-server"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	commands := regexp.MustCompile(`(?m)^askance (\w+) (.*)$`).FindAllStringSubmatch(string(page), -1)
	if len(commands) != 2 || commands[0][1] != "serve" || commands[1][1] != "mcp" {
		t.Fatalf("the page has the commands %q", commands)
	}
	ok(t, "policy", "lint", "rules.yaml") // as the page serves them; in the test there are other tools, too
	write(t, "tools.yaml", "version: 1\ntools:\n  - {name: ship, placement: remote}\n")
	s := serveOn(t, filepath.Join(dir, "data"), append(strings.Fields(commands[0][2]), "--tools", "tools.yaml")...)

	gateway := exec.Command(self, append([]string{"mcp", "--data", s.data}, strings.Fields(commands[1][2])...)...)
	in, _ := gateway.StdinPipe()
	out, _ := gateway.StdoutPipe()
	gateway.Stderr = os.Stderr
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	ask := func(id int, method, params string) {
		t.Helper()
		if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
			t.Fatal(err)
		}
	}
	answer := func(want ...string) {
		t.Helper()
		if !lines.Scan() {
			t.Fatal("the gateway ended")
		}
		for _, w := range want {
			if !strings.Contains(lines.Text(), w) {
				t.Errorf("%s\nlacks %s", lines.Text(), w)
			}
		}
	}
	ask(1, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	answer(`"protocolVersion":"2025-06-18"`)
	ask(2, "tools/call", `{"name":"shop_lookup","arguments":{}}`)
	answer("the shop answers")
	ask(3, "tools/call", `{"name":"shop_browse","arguments":{"n":1}}`)
	id := s.asking()
	ok(t, "approve", id, "--data", s.data, "--yes", "--as", "fiona")
	answer(`"id":3`, "the shop answers")
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := gateway.Wait(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
}

// asking waits for an approval request and returns the id of its call.
func (s *served) asking() string {
	s.t.Helper()
	for {
		list := decode[toolcall.ListReply](s.t, ok(s.t, "list", "--json", "--state", "asking", "--data", s.data, "--as", "fiona"))
		if len(list.Calls) > 0 {
			return string(list.Calls[0].Call)
		}
	}
}

// TestMCPSpace: clients of --http need a runtime's token of the space in which the gateway proposes.
func TestMCPSpace(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.json")
	s := serveOn(t, filepath.Join(dir, "data"))
	token := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(ok(t, append([]string{"token", "create", "bot", "--http-tokens", tokens}, args...)...))
	}
	status := map[string]int{
		token("--role", "runtime"):                    http.StatusOK,
		token("--role", "approver"):                   http.StatusUnauthorized,
		token("--role", "runtime", "--space", "team"): http.StatusUnauthorized,
	}
	at := startMCP(t, "--data", s.data, "--http-tokens", tokens)
	for secret, want := range status {
		if got := initializeMCP(t, at, secret); got != want {
			t.Errorf("%s: %d, want %d", secret, got, want)
		}
	}
}

// startMCP starts a gateway at a free port and returns its URL.
func startMCP(t *testing.T, args ...string) string {
	t.Helper()
	at, _ := runMCP(t, args...)
	return at
}

// runMCP is startMCP, and returns the process as well.
func runMCP(t *testing.T, args ...string) (string, *exec.Cmd) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	gateway := exec.Command(self, append(append([]string{"mcp"}, args...), "--http", "127.0.0.1:0", "--", self, mcpServer)...)
	says, _ := gateway.StderrPipe()
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = gateway.Process.Kill(), gateway.Wait() })
	lines := bufio.NewScanner(says)
	at := ""
	for at == "" && lines.Scan() {
		_, at, _ = strings.Cut(lines.Text(), "MCP gateway at ")
	}
	return at, gateway
}

// TestMCPStops: a gateway that is stopped while a call runs leaves open requests open.
func TestMCPStops(t *testing.T) {
	cleanEnvironment(t)
	s := serveOn(t, filepath.Join(t.TempDir(), "data"))
	at, gateway := runMCP(t, "--data", s.data)
	call := func(arguments string) {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"browse","arguments":` + arguments + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "browse"} {
			r.Header.Set(name, value)
		}
		if res, err := http.DefaultClient.Do(r); err == nil { // the gateway may end before it answers
			_ = res.Body.Close()
		}
	}
	go call(`{"hang":1}`)
	ok(t, "approve", s.asking(), "--data", s.data, "--yes", "--as", "fiona")
	go call(`{}`)
	id := s.asking()
	if err := gateway.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := gateway.Wait(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
	list := decode[toolcall.ListReply](t, ok(t, "list", "--json", "--state", "asking", "--data", s.data, "--as", "fiona"))
	if len(list.Calls) != 1 || string(list.Calls[0].Call) != id {
		t.Errorf("the open requests are %v, want only %s", list.Calls, id)
	}
}

// initializeMCP begins a session with a token, if there is one, and returns the status.
func initializeMCP(t *testing.T, at, secret string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// TestMCPDemandsTokensOnceTheyExist: the first token ends the access of every program on the
// machine to a running gateway.
func TestMCPDemandsTokensOnceTheyExist(t *testing.T) {
	cleanEnvironment(t)
	s := serveOn(t, filepath.Join(t.TempDir(), "data"))
	at := startMCP(t, "--data", s.data)
	if got := initializeMCP(t, at, ""); got != http.StatusOK {
		t.Fatalf("without tokens: %d", got)
	}
	secret := strings.TrimSpace(ok(t, "token", "create", "bot", "--role", "runtime", "--data", s.data))
	for token, want := range map[string]int{"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, secret: http.StatusOK} {
		if got := initializeMCP(t, at, token); got != want {
			t.Errorf("with the token %q: %d, want %d", token, got, want)
		}
	}
}

// TestMCPFormEndsOnceTokensExist: a form decides in the name of --as only while no one needs a token.
func TestMCPFormEndsOnceTokensExist(t *testing.T) {
	cleanEnvironment(t)
	s := serveOn(t, filepath.Join(t.TempDir(), "data"))
	at := startMCP(t, "--data", s.data, "--as", "ann", "--form", "--hold", "1s")
	secret := ""
	call := func(more string) string {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}},"name":"browse","arguments":{}` + more + `}}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"browse"}}
		if secret != "" {
			r.Header.Set("Authorization", "Bearer "+secret)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	approve := func() string {
		t.Helper()
		m := regexp.MustCompile(`"requestState":"([^"]+)"`).FindStringSubmatch(call(""))
		if m == nil {
			t.Fatal("the gateway shows no form")
		}
		return `,"requestState":"` + m[1] + `","inputResponses":{"askance":{"action":"accept","content":{"decision":"approve"}}}`
	}
	if text := call(approve()); !strings.Contains(text, "the shop answers") {
		t.Errorf("without tokens: %s", text)
	}
	form := approve()
	secret = strings.TrimSpace(ok(t, "token", "create", "ann", "--role", "runtime", "--data", s.data))
	if text := call(form); strings.Contains(text, "the shop answers") || !strings.Contains(text, "waits for the approval of a person") {
		t.Errorf("once tokens exist: %s", text)
	}
}

func TestMCPRefuses(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	file := func(text string) string {
		path := filepath.Join(dir, "upstreams.yaml")
		write(t, path, text)
		return path
	}
	for _, c := range []struct{ says, upstreams, more string }{
		{"expected a command", "", ""},
		{`exec: "no-such-server": executable file not found`, "upstreams: {a: {command: [no-such-server]}}", ""},
		{`exec: "` + filepath.Join(dir, "no-such-server") + `": no such file`, "upstreams: {a: {command: [./no-such-server]}}", ""}, // relative to the file
		{"unknown field", "upstreams: {a: {command: [x], comand: [y]}}", ""},
		{"is 1.10, which would become 1.1", "upstreams: {a: {command: [x, --version, 1.10]}}", ""},
		{"is not an origin", "upstreams: {a: {url: 'https://a.example'}}", "--http 127.0.0.1:0 --http-origin https://app.example/"},
		{"browsers never send the origin", "upstreams: {a: {url: 'https://a.example'}}", "--http 127.0.0.1:0 --http-origin https://app.example:443"},
		{"sends its headers over the network in plain text", "upstreams: {a: {url: 'http://example.com/mcp', headers: {A: b}}}", ""},
	} {
		args := []string{"mcp", "--data", filepath.Join(dir, "data")}
		if c.upstreams != "" {
			args = append(args, "--upstreams", file(c.upstreams))
		}
		fails(t, cli.ExitUsage, c.says, append(args, strings.Fields(c.more)...)...)
	}
}

// TestMCPRole: a token of another role is refused at the start, not with the first call.
func TestMCPRole(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	s := serveOn(t, filepath.Join(dir, "data"))
	token := filepath.Join(dir, "token")
	write(t, token, ok(t, "token", "create", "ann", "--role", "approver", "--data", s.data))
	fails(t, cli.ExitForbidden, "the token of ann lacks the role runtime", "mcp", "--server", s.http, "--token-file", token, "--data", dir, "--", "cat")
}
