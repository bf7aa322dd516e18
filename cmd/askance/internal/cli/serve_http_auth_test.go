package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// send sends one request to a server; headers are pairs.
func (s *served) send(method, path, body string, headers ...string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.http+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// approve approves the call c over HTTP.
func (s *served) approve(c *toolcall.Call, headers ...string) (int, string) {
	s.t.Helper()
	return s.send(http.MethodPost, "/v1/calls/s1/r1/"+string(c.Call)+"/response", `{"kind":"approve","digest":"`+c.Digest+`"}`, append(headers, "Idempotency-Key", fmt.Sprint(time.Now().UnixNano()))...)
}

// call returns the call c1 as the command line shows it.
func (s *served) call(args ...string) *toolcall.Call {
	s.t.Helper()
	return decode[toolcall.ShowReply](s.t, ok(s.t, append([]string{"show", "c1", "--json", "--data", s.data}, args...)...)).Call
}

// TestHTTPDemandsTokensOnceLoginsExist: after askance creds init, the running server and every
// later one refuse HTTP requests without a token.
func TestHTTPDemandsTokensOnceLoginsExist(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	c := s.propose("r1", "c1", "pay", `{"cents":500}`)
	if code, text := s.send(http.MethodGet, "/v1/whoami", ""); code != http.StatusOK || !strings.Contains(text, "http-loopback") {
		t.Fatalf("the local user: %d %s", code, text)
	}
	if code, text := s.approve(c, "X-Forwarded-For", "192.0.2.1"); code != http.StatusUnauthorized || !strings.Contains(text, "a token of the role approver (askance token create NAME --role approver) through the proxy") {
		t.Errorf("an approval through a proxy: %d %s", code, text)
	}
	ok(t, "creds", "init", "--data", s.data)
	closed := func() {
		t.Helper()
		if code, text := s.approve(c); code != http.StatusUnauthorized || !strings.Contains(text, "a token of the role approver (askance token create NAME --role approver)") {
			t.Errorf("an approval without a token: %d %s", code, text)
		}
		if code, text := s.approve(c, "Askance-As", "ann"); code != http.StatusForbidden || !strings.Contains(text, "askance token create NAME --role ROLE") {
			t.Errorf("an approval as ann: %d %s", code, text)
		}
		form := url.Values{"session": {"s1"}, "reply": {"r1"}, "call": {"c1"}, "digest": {c.Digest}, "do": {"approve"}}
		for path, body := range map[string]string{"/inbox/response": form.Encode(), "/agui": `{}`, "/agentscope/chat": `{}`, "/v1/whoami": ""} {
			method, kind := http.MethodPost, "application/json"
			switch path {
			case "/inbox/response":
				kind = "application/x-www-form-urlencoded"
			case "/v1/whoami":
				method = http.MethodGet
			}
			if code, text := s.send(method, path, body, "Content-Type", kind); code != http.StatusUnauthorized && code != http.StatusNotFound {
				t.Errorf("%s: %d %s", path, code, text)
			}
		}
	}
	closed()
	s.stop()

	r := run(t, "creds", "add", "approver", "ann", "--data", s.data)
	if r.code != cli.ExitOK {
		t.Fatal(r.err)
	}
	dir := filepath.Dir(s.data)
	s = serveOn(t, s.data, "--policy", filepath.Join(dir, "rules.yaml"), "--tools", filepath.Join(dir, "tools.yaml"))
	if !strings.Contains(s.httpAuth, "askance token create NAME --role approver") {
		t.Errorf("serve prints %q", s.httpAuth)
	}
	closed()
	if got := s.call("--as", "ann"); got.State != message.ToolCallAsking || len(got.Votes) != 0 {
		t.Errorf("the call is %s with the votes %+v", got.State, got.Votes)
	}

	token := strings.TrimSpace(ok(t, "token", "create", "ann", "--role", "approver", "--data", s.data))
	for code := 0; code != http.StatusOK; { // the running server checks the file every second
		code, _ = s.send(http.MethodGet, "/v1/whoami", "", "Authorization", "Bearer "+token)
	}
	if code, text := s.approve(c, "Authorization", "Bearer "+token); code != http.StatusOK {
		t.Fatalf("an approval with a token: %d %s", code, text)
	}
	if votes := s.call("--as", "ann").Votes; len(votes) != 1 || votes[0].By != (toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann", Auth: "http-token"}) {
		t.Errorf("the votes are %+v", votes)
	}
}

// TestLocalUserFillsNoQuorum: all processes on the machine count as one approver.
func TestLocalUserFillsNoQuorum(t *testing.T) {
	cleanEnvironment(t)
	s := serveRules(t, "version: 1\nname: two\nrules:\n  - {name: two, tool_name: pay, behavior: ask, quorum: 2}\n")
	c := s.propose("r1", "c1", "pay", `{"cents":500}`)
	for _, path := range []string{"", "?name=bob", "?user=bob"} {
		if code, text := s.send(http.MethodPost, "/v1/calls/s1/r1/c1/response"+path, `{"kind":"approve","digest":"`+c.Digest+`"}`, "Idempotency-Key", "k"+path, "X-Remote-User", "bob"); code >= 500 {
			t.Errorf("an approval with %q: %d %s", path, code, text)
		}
	}
	for _, body := range []string{`,"by":{"role":"approver","name":"bob"}`, `,"name":"bob"`} {
		if code, _ := s.send(http.MethodPost, "/v1/calls/s1/r1/c1/response", `{"kind":"approve","digest":"`+c.Digest+`"`+body+`}`, "Idempotency-Key", body); code != http.StatusBadRequest {
			t.Errorf("an approval with %s: %d", body, code)
		}
	}
	if code, text := s.approve(c, "Askance-As", "bob"); code != http.StatusForbidden || !strings.Contains(text, "askance token create") {
		t.Errorf("an approval as bob: %d %s", code, text)
	}
	got := s.call()
	if got.State != message.ToolCallAsking || len(got.Votes) != 1 || got.Votes[0].By.Auth != "http-loopback" {
		t.Errorf("the call is %s with the votes %+v", got.State, got.Votes)
	}
	if text := ok(t, "show", "c1", "--data", s.data); !strings.Contains(text, got.Votes[0].By.Name+" (loopback, not authenticated)") {
		t.Errorf("show printed\n%s", text)
	}
}

// TestHTTPOriginNeedsCredentials: serve refuses the flag without credentials.
func TestHTTPOriginNeedsCredentials(t *testing.T) {
	cleanEnvironment(t)
	data := filepath.Join(t.TempDir(), "data")
	args := []string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-origin", "https://app.example"}
	fails(t, cli.ExitUsage, "needs tokens or a provider", args...)
	plain := args[:len(args)-2]
	t.Setenv("ASKANCE_HTTP_ORIGIN", "https://app.example")
	fails(t, cli.ExitUsage, "needs tokens or a provider", plain...)
	t.Setenv("ASKANCE_HTTP_ORIGIN", "")
	settings := filepath.Join(t.TempDir(), "askance.yaml")
	if err := os.WriteFile(settings, []byte("http_origin: [https://app.example]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitUsage, "needs tokens or a provider", append(slices.Clone(plain), "--config", settings)...)
	ok(t, "creds", "init", "--data", data)
	fails(t, cli.ExitUsage, "askance token create", args...)
	ok(t, "token", "create", "ann", "--role", "approver", "--data", data)
	serveOn(t, data, "--http-origin", "https://app.example")
}

// overSocket sends one request over a Unix socket and returns the reply. The child process of
// TestHTTPSocket uses it as another user.
func overSocket(path, method, target, body string) (int, string, error) {
	var d net.Dialer
	c, err := d.Dial("unix", path)
	if err != nil {
		return 0, "", err
	}
	defer c.Close()
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(context.Background(), method, "http://localhost"+target, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "k")
	res, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// socketChild makes the test binary a client of a Unix socket.
const socketChild = "socket-child"

// socketMain is the main function of socketChild: PATH METHOD TARGET BODY.
func socketMain(args []string) int {
	code, text, err := overSocket(args[0], args[1], args[2], args[3])
	if err != nil {
		text = err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"code": code, "text": text})
	return 0
}

// asUser sends a request over a Unix socket from a process that runs as another user.
func asUser(t *testing.T, binary string, uid uint32, args ...string) (int, string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), binary, append([]string{socketChild}, args...)...)
	c.Dir = "/"
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	out, err := c.Output()
	if err != nil {
		t.Fatalf("the process of uid %d: %v", uid, err)
	}
	said := decode[struct {
		Code int
		Text string
	}](t, string(out))
	return said.Code, said.Text
}

// TestHTTPSocket: the kernel identifies the sender, and TCP requires tokens.
func TestHTTPSocket(t *testing.T) {
	cleanEnvironment(t)
	dir, err := os.MkdirTemp("", "askance") //nolint:usetesting // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "rules.yaml"), "version: 1\nname: two\nrules:\n  - {name: two, tool_name: pay, behavior: ask, quorum: 2}\n")
	write(t, filepath.Join(dir, "tools.yaml"), testTools)
	binary := filepath.Join(dir, "client")
	copyProgram(t, binary)
	path := filepath.Join(dir, "http.sock")
	const ann, eve, member = 64101, 64102, 64103
	s := serveOn(t, filepath.Join(dir, "data"), "--policy", filepath.Join(dir, "rules.yaml"), "--tools", filepath.Join(dir, "tools.yaml"),
		"--http-socket", path, "--http-socket-role", fmt.Sprint(ann, "=approver"))
	c := s.propose("r1", "c1", "pay", `{"cents":500}`)
	target, body := "/v1/calls/s1/r1/c1/response", `{"kind":"approve","digest":"`+c.Digest+`"}`

	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket: %v, %v", info.Mode(), err)
	}
	if code, text := s.approve(c); code != http.StatusUnauthorized {
		t.Errorf("an approval over TCP: %d %s", code, text)
	}
	if code, text, err := overSocket(path, http.MethodPost, target, body); code != http.StatusOK {
		t.Errorf("an approval by the owner: %d %s %v", code, text, err)
	}
	uid := os.Geteuid()
	if got := s.call().Votes; len(got) != 1 || got[0].By.Auth != fmt.Sprint("unix-peer:", uid) {
		t.Errorf("the votes are %+v", got)
	}
	if text := ok(t, "show", "c1", "--data", s.data); !strings.Contains(text, fmt.Sprintf(" (Unix socket, uid %d)", uid)) {
		t.Errorf("show printed\n%s", text)
	}
	if uid != 0 {
		return // TestUnixPeers in gateway/auth covers other users
	}
	if code, text := asUser(t, binary, ann, path, http.MethodGet, "/v1/whoami", ""); code != 0 || !strings.Contains(text, "permission denied") {
		t.Errorf("a user who may not open the socket: %d %s", code, text)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if code, text := asUser(t, binary, eve, path, http.MethodPost, target, body); code != http.StatusUnauthorized || !strings.Contains(text, "--http-socket-role") {
		t.Errorf("a user without a role: %d %s", code, text)
	}
	if code, text := asUser(t, binary, ann, path, http.MethodPost, target, body); code != http.StatusOK {
		t.Errorf("ann: %d %s", code, text)
	}
	if got := s.call().Votes; len(got) != 2 || got[1].By.Auth != fmt.Sprint("unix-peer:", ann) {
		t.Errorf("the votes are %+v", got)
	}
	s.stop()

	// Members of the group may connect, and TCP is off. The path of the earlier server is free.
	s = serveOn(t, filepath.Join(dir, "data"), "--http", "off", "--http-socket", path, "--http-socket-group", fmt.Sprint(member), "--http-socket-role", "*=auditor")
	if s.http != "" {
		t.Errorf("--http off serves at %s", s.http)
	}
	if code, text := asUser(t, binary, ann, path, http.MethodGet, "/v1/whoami", ""); code != 0 {
		t.Errorf("a user outside the group: %d %s", code, text)
	}
	if code, text := asUser(t, binary, member, path, http.MethodGet, "/v1/whoami", ""); code != http.StatusOK || !strings.Contains(text, `"auditor"`) || strings.Contains(text, `"approver"`) {
		t.Errorf("a member: %d %s", code, text)
	}
	fails(t, cli.ExitUnavailable, "listens at", "serve", "--data", filepath.Join(dir, "other"), "--listen", "127.0.0.1:0", "--http", "off", "--http-socket", path)
}

// TestSocketPermission: a client that may not open the socket says so, and not that nothing responds.
func TestSocketPermission(t *testing.T) {
	cleanEnvironment(t)
	dir, err := os.MkdirTemp("", "askance") //nolint:usetesting // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary, path, folder := filepath.Join(dir, "client"), filepath.Join(dir, "s"), filepath.Join(dir, "folder")
	copyProgram(t, binary)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := errors.Join(os.Chmod(path, 0), os.Mkdir(folder, 0), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, socket := range []string{path, filepath.Join(folder, "s")} {
		for want, args := range map[int][]string{
			cli.ExitUsage:     {"hook", "gemini", "--url", "unix://" + socket}, // blocks the call
			cli.ExitForbidden: {"list", "--server", "unix://" + socket},
		} {
			c := exec.CommandContext(t.Context(), binary, args...)
			c.Dir, c.Stdin = "/", strings.NewReader(beforeTool(dialect.Gemini, "c1", "Read"))
			if os.Geteuid() == 0 {
				c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 64104, Gid: 64104}}
			}
			text, _ := c.CombinedOutput() // the exit code is checked
			if c.ProcessState.ExitCode() != want || !strings.Contains(string(text), "no permission to open the Unix socket "+socket) || !strings.Contains(string(text), "--http-socket-group") {
				t.Errorf("%v: exit %d, want %d: %s", args, c.ProcessState.ExitCode(), want, text)
			}
		}
	}
}

// TestHTTPSocketFlags: combinations of flags that cannot work are refused.
func TestHTTPSocketFlags(t *testing.T) {
	cleanEnvironment(t)
	data := t.TempDir()
	file := filepath.Join(data, "file")
	write(t, file, "")
	serve := func(args ...string) []string {
		return append([]string{"serve", "--data", filepath.Join(data, "data"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, args...)
	}
	sock := filepath.Join(data, "s")
	fails(t, cli.ExitUsage, "need --http-socket", serve("--http-socket-role", "ann=approver")...)
	fails(t, cli.ExitUsage, "need --http-socket", serve("--http", "off", "--http-socket-role", "ann=approver")...)
	fails(t, cli.ExitUsage, "USER=ROLE", serve("--http-socket", sock, "--http-socket-role", "ann")...)
	fails(t, cli.ExitUsage, "no user", serve("--http-socket", sock, "--http-socket-role", "no-such-user=approver")...)
	fails(t, cli.ExitUsage, "is not a role", serve("--http-socket", sock, "--http-socket-role", "0=boss")...)
	fails(t, cli.ExitUsage, "no such group", serve("--http-socket", sock, "--http-socket-group", "no-such-group")...)
	fails(t, cli.ExitConflict, "is not a socket", serve("--http-socket", file)...)
}

// copyProgram copies the test binary to a place where other users can run it.
func copyProgram(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Link(self, to) == nil {
		return
	}
	in, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
