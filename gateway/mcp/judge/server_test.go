package judge_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Names that have a token: two programs, an approver and an operator.
const (
	bot   = "bot"
	robot = "robot"
	ann   = "ann"
	olga  = "olga"
)

// house is an askance server with a data folder, tokens and a reader of its call stream.
type house struct {
	t      testing.TB
	dir    string
	policy string
	tokens map[string]string
	proc   *process
	url    string
	nats   string // host and port

	mu      sync.Mutex // guards the fields below
	calls   map[string]*call
	changed chan struct{}
}

// call contains what the judges read of a call.
type call struct {
	Session  string `json:"session_id"`
	Reply    string `json:"reply_id"`
	ID       string `json:"tool_call_id"`
	Tool     string `json:"tool_name"`
	Input    string
	State    string
	Phase    string
	Blocked  string
	Digest   string
	Agent    string
	Decision struct{ Rule string }
	Attempt  struct{ N int }
	Result   struct {
		State  string
		Output json.RawMessage
	}

	raw json.RawMessage
}

// newHouse starts a server with a policy.
func newHouse(t testing.TB, policy string) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), tokens: map[string]string{}, calls: map[string]*call{}, changed: make(chan struct{})}
	h.policy = filepath.Join(h.dir, "policy.yaml")
	if err := os.WriteFile(h.policy, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, role := range map[string]string{bot: "runtime", robot: "runtime", ann: "approver", olga: "operator"} {
		var made struct{ Token string }
		out := h.askance("token", "create", name, "--role", role, "--json")
		if err := json.Unmarshal([]byte(out), &made); err != nil {
			t.Fatalf("token of %s: %v in %s", name, err, out)
		}
		h.tokens[name] = made.Token
	}
	h.start("127.0.0.1:0", "127.0.0.1:0")
	return h
}

// askance runs a command on the data folder and returns its output.
func (h *house) askance(args ...string) string {
	h.t.Helper()
	p := command(h.t, nil, append([]string{bin.askance, "--data", filepath.Join(h.dir, "data")}, args...)...)
	p.cmd.Args = append(append([]string{bin.askance}, args...), "--data", filepath.Join(h.dir, "data"))
	p.cmd.Stderr = nil
	out, err := p.cmd.Output()
	if err != nil {
		h.t.Fatalf("askance %v: %v", args, err)
	}
	return string(out)
}

// start starts the server at addresses for HTTP and NATS, and follows its calls.
func (h *house) start(address, nats string) {
	h.t.Helper()
	h.proc = command(h.t, nil, bin.askance, "serve", "--data", filepath.Join(h.dir, "data"), "--policy", h.policy,
		"--listen", nats, "--http", address, "--durability", "cached")
	h.proc.cmd.Stdout = h.proc.out
	h.url = h.proc.start().says(`console +(http://\S+)`)
	h.nats = h.proc.says(`nats +nats://(\S+)`)
	go h.follow(h.url)
}

// request sends an HTTP request as a person or program.
func (h *house) request(name, method, path string, body any) (int, []byte) {
	h.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		h.t.Fatal(err)
	}
	r, err := http.NewRequest(method, h.url+path, bytes.NewReader(raw))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+h.tokens[name])
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, out
}

// follow records each change of a call, until the server ends.
func (h *house) follow(at string) {
	r, err := http.NewRequest(http.MethodGet, at+"/v1/calls/stream", http.NoBody)
	if err != nil {
		h.t.Error(err)
		return
	}
	r.Header.Set("Authorization", "Bearer "+h.tokens[olga])
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return // the server was killed
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	kind := ""
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			kind = name
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || kind != "call" {
			continue
		}
		var change struct{ Call json.RawMessage }
		c := &call{}
		if err := json.Unmarshal([]byte(data), &change); err != nil || json.Unmarshal(change.Call, c) != nil {
			if lines.Scan() { // otherwise the end of the server cut off the line
				h.t.Errorf("the stream of calls has %q: %v", data, err)
			}
			return
		}
		c.raw = change.Call
		h.mu.Lock()
		h.calls[c.path()] = c
		close(h.changed)
		h.changed = make(chan struct{})
		h.mu.Unlock()
	}
}

func (c *call) path() string {
	return url.PathEscape(c.Session) + "/" + url.PathEscape(c.Reply) + "/" + url.PathEscape(c.ID)
}

// wait waits for a call for which fits returns true, and returns it.
func (h *house) wait(what string, fits func(*call) bool) *call {
	h.t.Helper()
	timeout := make(chan struct{})
	defer time.AfterFunc(patience, func() { close(timeout) }).Stop()
	c := h.waitOr(timeout, fits)
	if c == nil {
		h.t.Fatalf("no call %s", what)
	}
	return c
}

// waitOr is like wait, but returns nil if end is closed first.
func (h *house) waitOr(end <-chan struct{}, fits func(*call) bool) *call {
	for {
		h.mu.Lock()
		more := h.changed
		for _, c := range h.calls {
			if fits(c) {
				h.mu.Unlock()
				return c
			}
		}
		h.mu.Unlock()
		select {
		case <-more:
		case <-end:
			return nil
		}
	}
}

// asked waits for an open approval request for a tool.
func (h *house) asked(tool string) *call {
	h.t.Helper()
	return h.wait("asks about "+tool, func(c *call) bool { return strings.HasSuffix(c.Tool, tool) && c.State == "asking" })
}

// finished waits until a call is finished.
func (h *house) finished(c *call) *call {
	h.t.Helper()
	return h.wait(c.path()+" is finished", func(x *call) bool { return x.path() == c.path() && x.State == "finished" })
}

// count returns the number of calls of a tool, in any state.
func (h *house) count(tool string) (n int) {
	h.t.Helper()
	var list struct{ Calls []*call }
	status, out := h.request(olga, http.MethodGet, "/v1/calls?all=true", nil)
	if err := json.Unmarshal(out, &list); err != nil || status != http.StatusOK {
		h.t.Fatalf("list the calls: %d %s %v", status, out, err)
	}
	for _, c := range list.Calls {
		if strings.HasSuffix(c.Tool, tool) {
			n++
		}
	}
	return n
}

// respond answers the approval request of a call as ann. more are members of the response.
func (h *house) respond(c *call, kind string, more map[string]any) {
	h.t.Helper()
	body := map[string]any{"digest": c.Digest, "kind": kind}
	maps.Copy(body, more)
	if status, out := h.request(ann, http.MethodPost, "/v1/calls/"+c.path()+"/response", body); status != http.StatusOK {
		h.t.Fatalf("%s of %s: %d %s", kind, c.path(), status, out)
	}
}

// gateway is an askance mcp process that serves HTTP.
type gateway struct {
	*process
	url string
}

// upstreams writes the configuration file of the upstreams, keyed by alias.
func (h *house) upstreams(servers map[string]map[string]any) string {
	h.t.Helper()
	raw, err := json.Marshal(map[string]any{"upstreams": servers})
	if err != nil {
		h.t.Fatal(err)
	}
	f, err := os.CreateTemp(h.dir, "upstreams-*.json")
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(raw); err != nil {
		h.t.Fatal(err)
	}
	return f.Name()
}

// mcp returns the command of a gateway that connects to the server as a program.
func (h *house) mcp(name string, flags ...string) []string {
	return append([]string{bin.askance, "mcp", "--data", filepath.Join(h.dir, "data"), "--as", name, "--inbox", h.url}, flags...)
}

// policy allows the named tools. The beginning of other names decides whether ann is asked or the
// call is denied.
func policy(allowed ...string) string {
	return fmt.Sprintf(`version: 1
name: judges
rules:
  - {name: allowed, tool: [%s], behavior: allow}
  - {name: asked, tool: "*", behavior: ask, when: "tool.name.startsWith('ask')", approvers: {users: [ann]}}
  - {name: denied, tool: "*", behavior: deny, when: "tool.name.startsWith('deny')", message: "'not in this house'"}
`, strings.Join(append(allowed, "none"), ", "))
}

// gateway starts an HTTP gateway in front of one upstream.
func (h *house) gateway(name string, u *upstream, flags ...string) *gateway {
	h.t.Helper()
	return h.gatewayOf(name, h.upstreams(map[string]map[string]any{"": {"url": u.url}}), flags...)
}

// gatewayOf starts an HTTP gateway in front of a file of upstreams.
func (h *house) gatewayOf(name, file string, flags ...string) *gateway {
	h.t.Helper()
	p := command(h.t, nil, h.mcp(name, append([]string{"--http", "127.0.0.1:0", "--upstreams", file}, flags...)...)...)
	return &gateway{p, p.start().says(`MCP gateway at (\S+)`)}
}

// open starts an HTTP gateway that needs no token, because the suite cannot send one, and returns
// its URL.
func (h *house) open(file string, flags ...string) string {
	h.t.Helper()
	dir, err := os.MkdirTemp(h.dir, "open-") // without a token file
	if err != nil {
		h.t.Fatal(err)
	}
	argv := append([]string{bin.askance, "mcp", "--nats", "nats://" + h.nats, "--data", dir, "--as", bot, "--inbox", h.url, "--http", "127.0.0.1:0", "--upstreams", file}, flags...)
	p := command(h.t, nil, argv...)
	return strings.Replace(p.start().says(`MCP gateway at (\S+)`), "127.0.0.1", "localhost", 1)
}

// stdio starts a gateway in front of a stdio upstream and returns a client.
func (h *house) stdio(t testing.TB, name string, u *upstream, legacy bool, capabilities string, flags ...string) (*peer, *process) {
	t.Helper()
	return h.stdioOf(t, name, legacy, capabilities, flags, bin.self, relayArg, u.socket)
}

// stdioOf starts a gateway in front of a command and returns a client.
func (h *house) stdioOf(t testing.TB, name string, legacy bool, capabilities string, flags []string, server ...string) (*peer, *process) {
	t.Helper()
	proc := command(t, nil, slices.Concat(h.mcp(name, flags...), []string{"--"}, server)...)
	in, err := proc.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, stdout := io.Pipe()
	proc.cmd.Stdout = stdout
	proc.start()
	go func() { <-proc.done; _ = stdout.Close() }()
	p := &peer{t: t, legacy: legacy, capabilities: capabilities, pipe: newPipe(t, in, out)}
	if legacy {
		p.initialize()
	}
	return p, proc
}

// peer is a client of a gateway over HTTP.
func (g *gateway) peer(t testing.TB, h *house, name string, legacy bool, capabilities string) *peer {
	t.Helper()
	p := &peer{t: t, legacy: legacy, capabilities: capabilities, url: g.url, token: h.tokens[name]}
	if legacy {
		p.initialize()
	}
	return p
}
