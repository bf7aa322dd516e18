// Package hook is the part of askance that runs at a coding agent: the command that its
// hooks start, and the settings that make the agent start it.
//
// All agents run the tool if a hook fails in any way except exit code 2. Therefore the
// command accepts an answer only from a server that proves to be askance, and reports
// everything else as an error.
package hook

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askance-dev/askance/cmd/askance/internal/remote"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agenthook"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// Finding is one thing that a check found.
type Finding struct {
	OK   bool   `json:"ok"`
	Text string `json:"text"`
}

// nowhere is an address at which nothing answers: port 9 of this machine.
const nowhere = "http://127.0.0.1:9"

// checkWithin bounds one run of a hook.
const checkWithin = 30 * time.Second

// Check tests the hooks of a settings file: that they are installed, that the first decides
// a dry-run event, and that it blocks if askance does not run.
func Check(ctx context.Context, d dialect.Dialect, text string) []Finding {
	var out []Finding
	add := func(ok bool, format string, args ...any) {
		out = append(out, Finding{ok, fmt.Sprintf(format, args...)})
	}
	doc, err := parseDocument(text)
	if err != nil {
		add(false, "the settings cannot be read: %v", err)
		return out
	}
	var first *entry
	for i, event := range Events(d) {
		e := doc.entry(d, event)
		if i == 0 {
			first = e
		}
		if e == nil {
			add(false, "%s: the hook is missing; run askance hook install %s", event, d)
		} else {
			add(true, "%s: the hook is installed", event)
		}
	}
	if first == nil {
		return out
	}
	for _, gap := range doc.gaps(d) {
		add(false, "%s", gap)
	}
	switch {
	case d != dialect.ClaudeCode:
	case first.OnFailure == "block":
		add(true, `onFailure is "block"`)
	default:
		add(false, `onFailure is not "block": a killed or missing hook lets tools run`)
	}
	if first.Type != "command" {
		add(true, "an HTTP hook cannot be tested here; Claude Code posts its events to %s", first.URL)
		return out
	}
	if own, known := ownTimeout(first.Command); known {
		limit := time.Duration(first.Timeout) * time.Second
		if d == dialect.Gemini {
			limit = time.Duration(first.Timeout) * time.Millisecond
		}
		add(own <= limit, "the hook answers before the agent's timeout: --timeout %s, settings %s", own, limit)
	}
	out = append(out, runDry(ctx, d, first.Command)...)
	return out
}

var timeoutFlag = regexp.MustCompile(`--timeout[ =](\S+)`)

func ownTimeout(command string) (time.Duration, bool) {
	m := timeoutFlag.FindStringSubmatch(command)
	if m == nil {
		return 0, false
	}
	own, err := time.ParseDuration(m[1])
	return own, err == nil
}

// entry returns the hook of askance for an event; nil if there is none.
func (d *document) entry(dia dialect.Dialect, event string) *entry {
	path := d.ours(dia, event)
	if path == nil {
		return nil
	}
	e, _ := d.read(path[len(path)-1]) // it is ours, so it can be read
	return &e
}

// gaps says which calls the first hook of askance does not block, although it is installed.
func (d *document) gaps(dia dialect.Dialect) (out []string) {
	path := d.ours(dia, Events(dia)[0])
	var all struct {
		Disabled bool `json:"disableAllHooks"`
		Gemini   struct {
			Enabled  *bool    `json:"enabled"`
			Disabled []string `json:"disabled"` // names or commands of hooks
		} `json:"hooksConfig"`
	}
	var of struct {
		Matcher string `json:"matcher"`
	}
	var h struct {
		Name    string `json:"name"`
		Command string `json:"command"`
		If      string `json:"if"`
		Async   bool   `json:"async"`
	}
	for _, part := range []struct {
		n    *node
		into any
	}{{d.root, &all}, {path[len(path)-3], &of}, {path[len(path)-1], &h}} {
		if err := strictjson.UnmarshalOpen([]byte(d.clean[part.n.start:part.n.end]), part.into); err != nil {
			out = append(out, "the settings of the hook cannot be read: "+err.Error())
		}
	}
	if of.Matcher != "" && of.Matcher != "*" && of.Matcher != ".*" {
		out = append(out, "the matcher "+strconv.Quote(of.Matcher)+" leaves out tools, which run unasked")
	}
	add := func(gap bool, text string) {
		if gap {
			out = append(out, text)
		}
	}
	switch dia {
	case dialect.ClaudeCode:
		add(all.Disabled, "disableAllHooks is true: no hook runs, and tools run unasked")
		add(h.If != "", "the hook has a condition (if): other calls run unasked")
		add(h.Async, "the hook is async: the agent does not wait for the decision")
	case dialect.Codex:
		add(h.Async, "the hook is async: Codex skips it, and tools run unasked")
	case dialect.Gemini:
		add(all.Gemini.Enabled != nil && !*all.Gemini.Enabled, "hooksConfig.enabled is false: no hook runs, and tools run unasked")
		add(slices.Contains(all.Gemini.Disabled, h.Name) || slices.Contains(all.Gemini.Disabled, h.Command), "hooksConfig.disabled names the hook: it does not run, and tools run unasked")
	}
	return out
}

// runDry starts the hook as the agent does, with an event that is not recorded.
func runDry(ctx context.Context, d dialect.Dialect, command string) []Finding {
	cwd, _ := os.Getwd() // the server refuses an empty one
	event := fmt.Sprintf(`{"session_id":"askance-hook-check","hook_event_name":%q,"tool_name":"Bash","tool_input":{"command":"true"},"tool_use_id":"check","cwd":%q}`, Events(d)[0], cwd)
	code, stdout, stderr := runShell(ctx, command+" --dry-run", event)
	why := strings.TrimPrefix(firstLine(stderr, "exit code "+strconv.Itoa(code)), "error: ")
	works := Finding{Text: "the hook fails: " + strings.TrimPrefix(why, "this tool call is blocked: ")}
	switch {
	case code == 0 && stdout == "":
		works = Finding{true, "the hook decides: the policy allows Bash \"true\" in a dry run"}
	case code == 0 && strictjson.Check([]byte(stdout)) == nil:
		works = Finding{true, "the hook decides: " + strings.TrimSpace(stdout)}
	case code == 0:
		works = Finding{false, "the hook prints output that agents cannot read: " + firstLine(stdout, "")}
	}
	code, stdout, stderr = runShell(ctx, command+" --dry-run --url "+nowhere, event)
	closed := Finding{code == 2 && stdout == "" && strings.TrimSpace(stderr) != "", "without askance the hook blocks: exit code 2 and a reason"}
	if !closed.OK {
		closed.Text = fmt.Sprintf("without askance the hook does not block: exit code %d", code)
	}
	return []Finding{works, closed}
}

func firstLine(text, otherwise string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return cmp.Or(line, otherwise)
}

// runShell runs a command line as agents do.
func runShell(ctx context.Context, command, stdin string) (code int, stdout, stderr string) {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", command)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		return -1, "", err.Error()
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}

// Version returns the version of the agent's program; "" if it is not installed.
func Version(ctx context.Context, d dialect.Dialect) string {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, agents[d].program, "--version").Output()
	if err != nil {
		return ""
	}
	return versionNumber.FindString(string(out))
}

var versionNumber = regexp.MustCompile(`\d+\.\d+\.\d+`)

// knownOnFailure is the oldest version of Claude Code that is known to have onFailure.
var knownOnFailure = []int{2, 1, 330}

// Warnings says what the settings cannot prevent with this version of the agent.
func Warnings(d dialect.Dialect, version string) []string {
	switch d {
	case dialect.Codex:
		return []string{
			"Codex runs only hooks that its user trusts: start codex, open /hooks and trust the hooks of askance. Untrusted hooks are skipped, and tools run.",
			"Codex has no onFailure: a hook that is killed or missing lets the tool run. Hooks that requirements.toml manages cannot be turned off by a project.",
		}
	case dialect.Gemini:
		return []string{
			"Gemini CLI has no onFailure: a hook that is killed lets the tool run.",
			"Gemini CLI runs a project's hooks only in trusted folders.",
		}
	case dialect.ClaudeCode:
	}
	var parts []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return []string{"The version of Claude Code is unknown. onFailure exists in 2.1.330 and later; without it, a hook that is killed or missing lets the tool run."}
		}
		parts = append(parts, n)
	}
	if slices.Compare(parts, knownOnFailure) < 0 {
		return []string{"Claude Code " + version + " may not have onFailure, which exists in 2.1.330 and later: a hook that is killed or missing lets the tool run. Update it."}
	}
	return nil
}

// CodexTrust asks Codex whether its user trusts the hooks of askance in a folder. An
// untrusted hook does not run, and Codex does not say so.
func CodexTrust(ctx context.Context, folder string) (Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	c := exec.CommandContext(ctx, "codex", "app-server")
	in, err := c.StdinPipe()
	if err != nil {
		return Finding{}, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return Finding{}, err
	}
	if err := c.Start(); err != nil {
		return Finding{}, err
	}
	defer func() { cancel(); _ = c.Wait() }() // it was killed
	cwd, err := strictjson.Marshal(folder)
	if err != nil {
		return Finding{}, err
	}
	if _, err := fmt.Fprintf(in, `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"askance","version":"1"}}}
{"method":"initialized"}
{"id":2,"method":"hooks/list","params":{"cwds":[%s]}}
`, cwd); err != nil {
		return Finding{}, err
	}
	return readTrust(out)
}

// readTrust finds the trust of the hooks of askance in the replies of Codex.
func readTrust(out io.Reader) (Finding, error) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var reply struct {
			ID     any `json:"id"`
			Result struct {
				Data []struct {
					Hooks []struct {
						Command string `json:"command"`
						Event   string `json:"eventName"`
						Trust   string `json:"trustStatus"`
						Enabled bool   `json:"enabled"`
					} `json:"hooks"`
				} `json:"data"`
			} `json:"result"`
		}
		if strictjson.UnmarshalOpen(lines.Bytes(), &reply) != nil || fmt.Sprint(reply.ID) != "2" {
			continue
		}
		for _, d := range reply.Result.Data {
			for _, h := range d.Hooks {
				if h.Event == "preToolUse" && strings.Contains(h.Command, " hook codex") {
					return Finding{h.Enabled && (h.Trust == "trusted" || h.Trust == "managed"), "Codex says that the hook is " + h.Trust}, nil
				}
			}
		}
		return Finding{false, "Codex does not list the hook"}, nil
	}
	return Finding{}, errors.New("codex app-server returned no list of hooks")
}

// Client relays events of one agent to a gateway.
type Client struct {
	Dialect dialect.Dialect
	URL     string // of the gateway, or "unix:" and the path of its socket
	Token   string // "": the gateway is open to this machine
	// Timeout is how long the agent lets the hook run. An answer comes dialect.Margin before it.
	Timeout time.Duration
	Pass    bool // leave allowed calls to the agent's own rules
	DryRun  bool // decide and record nothing
}

// Bounds of a relay.
const (
	maxAnswer = 2 << 20
	grace     = 2 * time.Second // for which a gateway may be unreachable, such as during a restart
	pause     = 200 * time.Millisecond
)

// Answer relays one event and returns what the agent must read, or nothing. The timeout counts from began.
func (c Client) Answer(ctx context.Context, event []byte, began time.Time) ([]byte, error) {
	if c.Timeout <= dialect.Margin {
		return nil, blocked(message.CodeInvalid, "--timeout is "+c.Timeout.String(), "pass the agent's own timeout of the hook, over "+dialect.Margin.String())
	}
	ev, err := dialect.Decode(c.Dialect, event)
	if err != nil {
		e := message.AsError("", err)
		return nil, blocked(e.Code, e.What, e.Hint)
	}
	ctx, cancel := context.WithDeadline(ctx, began.Add(c.Timeout-dialect.Margin/2))
	defer cancel()
	invocation := rand.Text()
	var away time.Time // since when the gateway is unreachable
	for {
		sent := time.Now()
		answer, again, err := c.send(ctx, ev, event, invocation, max(time.Until(began.Add(c.Timeout-dialect.Margin)), time.Millisecond))
		if err == nil || !again {
			return answer, err
		}
		if away.IsZero() || time.Since(sent) > grace {
			away = time.Now()
		}
		if time.Since(away) > grace {
			return nil, err
		}
		if sleep.For(ctx, pause) != nil {
			return nil, err
		}
	}
}

// blocked returns an error that blocks the call: the agent shows it to its model.
func blocked(code message.Code, what, hint string) error {
	return &message.Error{Code: code, Op: "askance hook", What: "this tool call is blocked: " + what, Hint: hint}
}

// send sends the event once. again reports whether the gateway may answer later.
func (c Client) send(ctx context.Context, ev *dialect.Event, event []byte, invocation string, hold time.Duration) (answer []byte, again bool, err error) {
	o := agenthook.Options{Hold: hold, Pass: c.Pass, DryRun: c.DryRun, Status: true}
	base, transport := remote.Open(c.URL)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+agenthook.Path(c.Dialect)+"?"+o.Query().Encode(), bytes.NewReader(event))
	if err != nil {
		return nil, false, blocked(message.CodeInvalid, "the URL of the gateway cannot be used", "correct --url or ASKANCE_URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(agenthook.InvocationHeader, invocation)
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if unsafe, ok := errors.AsType[*message.Error](err); ok {
		return nil, false, blocked(unsafe.Code, unsafe.What, unsafe.Hint)
	}
	if err != nil {
		return nil, true, c.unreachable(ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil || len(b) > maxAnswer {
		return nil, true, c.unreachable(ctx, err)
	}
	return c.read(res, ev, b, invocation)
}

// TokenHint says how to pass a token. role is the value of --role, and flags may follow it.
func TokenHint(role string) string {
	return "pass --token-file or set ASKANCE_TOKEN; to create a token: askance token create NAME --role " + role
}

func (c Client) unreachable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) { // the agent or a person stopped the hook
		return blocked(message.CodeUnavailable, "the hook was stopped before a decision", "make the call again")
	}
	what := "askance does not respond at " + c.URL
	if errors.Is(err, context.DeadlineExceeded) {
		what += " in time"
	}
	return blocked(message.CodeUnavailable, what, "start askance serve, or pass its URL with --url; then make the call again")
}

// read accepts only an answer that is complete, from askance, and known to the agent.
func (c Client) read(res *http.Response, ev *dialect.Event, body []byte, invocation string) (answer []byte, again bool, err error) {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	ours := res.Header.Get(agenthook.InvocationHeader) == invocation
	answers := res.StatusCode == http.StatusNoContent && len(body) == 0 || res.StatusCode == http.StatusOK && kind == "application/json" && len(body) > 0
	switch {
	case ours && answers && dialect.IsAnswer(ev, body):
		return body, false, nil
	case ours && answers:
		return nil, false, blocked(message.CodeUnavailable, "the answer of askance at "+c.URL+" is not known to this command", "use the same version of askance for the hook and the server")
	}
	var p gateway.Problem
	if kind == "application/problem+json" && strictjson.UnmarshalOpen(body, &p) == nil && p.Code != "" {
		if p.Code == message.CodeForbidden && c.Token == "" {
			p.Hint = TokenHint("runtime")
		}
		return nil, res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable, blocked(p.Code, p.Detail, p.Hint)
	}
	again = res.StatusCode == http.StatusBadGateway || res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusGatewayTimeout
	return nil, again, blocked(message.CodeUnavailable, "the server at "+c.URL+" did not answer as askance does (status "+strconv.Itoa(res.StatusCode)+")", "pass the URL of askance serve with --url")
}

// promptSchema describes what Claude Code sends to its permission-prompt tool.
const promptSchema = `{"type":"object","properties":{"tool_name":{"type":"string"},"input":{"type":"object"},"tool_use_id":{"type":"string"}},"required":["tool_name","input"]}`

// ServePrompt serves MCP with the tool approve, for claude --permission-prompt-tool. It
// ends with its input.
func ServePrompt(ctx context.Context, c Client, version string, in io.Reader, out io.Writer) error {
	// Claude Code names its session to the processes that it starts, so a result that a
	// hook reports reaches the same call.
	session := cmp.Or(os.Getenv("CLAUDE_CODE_SESSION_ID"), "permission-prompt-"+rand.Text())
	s := mcp.NewServer(&mcp.Implementation{Name: "askance", Version: version}, nil)
	s.AddTool(&mcp.Tool{
		Name: "approve", Description: "Decides whether a tool call may run.", InputSchema: message.RawJSON(promptSchema),
	}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text := string(dialect.PromptText(c.prompt(ctx, session, r.Params.Arguments)))
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	})
	return s.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(in), Writer: openWriter{out}})
}

type openWriter struct{ io.Writer }

func (openWriter) Close() error { return nil }

// prompt asks about one call; every failure is a denial.
func (c Client) prompt(ctx context.Context, session string, arguments message.RawJSON) (input message.RawJSON, answer []byte, err error) {
	began := time.Now()
	var asked struct {
		Tool  string          `json:"tool_name"`
		Input message.RawJSON `json:"input"`
		Call  string          `json:"tool_use_id"`
	}
	if err := strictjson.UnmarshalOpen(arguments, &asked, strictjson.MaxBytes(dialect.MaxEventBytes)); err != nil {
		return nil, nil, err
	}
	cwd, err := os.Getwd() // Claude Code starts its servers in the project
	if err != nil {
		return nil, nil, err
	}
	event, err := strictjson.Marshal(map[string]any{
		"hook_event_name": "PreToolUse", "session_id": session, "tool_use_id": cmp.Or(asked.Call, "prompt-"+rand.Text()),
		"tool_name": asked.Tool, "tool_input": asked.Input, "cwd": cwd, "cwd_assumed": true,
	})
	if err != nil {
		return nil, nil, err
	}
	answer, err = c.Answer(ctx, event, began)
	return asked.Input, answer, err
}
