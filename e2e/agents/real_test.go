//go:build realagents

package agents_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// toolCall is one call that the model makes.
type toolCall struct {
	Name string
	Args map[string]any
}

// model is a scripted model. It makes its calls once, and says "done" after their results.
type model struct {
	calls []toolCall

	mu   sync.Mutex // guards the fields below
	last string     // the last request, which contains the results
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	m.mu.Lock()
	m.last = string(body)
	m.mu.Unlock()
	var b strings.Builder
	event := func(name string, v any) {
		d, _ := json.Marshal(v) // maps of strings
		if name != "" {
			fmt.Fprintf(&b, "event: %s\n", name)
		}
		fmt.Fprintf(&b, "data: %s\n\n", d)
	}
	type o = map[string]any
	switch {
	case strings.Contains(r.URL.Path, "/messages"):
		m.claude(event, bytes.Contains(body, []byte(`"tool_result"`)) || !bytes.Contains(body, []byte(`"tools":[{`)))
	case strings.Contains(r.URL.Path, "/responses"):
		event("response.created", o{"type": "response.created", "response": o{"id": "r"}})
		if bytes.Contains(body, []byte(`"function_call_output"`)) {
			event("response.output_item.done", o{"type": "response.output_item.done", "output_index": 0, "item": o{"type": "message", "id": "m", "role": "assistant", "content": []o{{"type": "output_text", "text": "done"}}}})
		} else {
			for i, c := range m.calls {
				args, _ := json.Marshal(c.Args) // maps of strings
				event("response.output_item.done", o{"type": "response.output_item.done", "output_index": i, "item": o{"type": "function_call", "id": fmt.Sprint("fc", i), "call_id": fmt.Sprint("call", i), "name": c.Name, "arguments": string(args)}})
			}
		}
		event("response.completed", o{"type": "response.completed", "response": o{"id": "r", "usage": o{"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}}})
	default:
		parts := []o{{"text": "done"}}
		if !bytes.Contains(body, []byte(`"functionResponse"`)) {
			parts = nil
			for _, c := range m.calls {
				parts = append(parts, o{"functionCall": o{"name": c.Name, "args": c.Args}})
			}
		}
		event("", o{"candidates": []o{{"content": o{"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}}, "usageMetadata": o{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}})
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, b.String())
}

func (m *model) claude(event func(string, any), end bool) {
	type o = map[string]any
	event("message_start", o{"type": "message_start", "message": o{"id": "m", "type": "message", "role": "assistant", "model": "x", "content": []o{}, "stop_reason": nil, "stop_sequence": nil, "usage": o{"input_tokens": 1, "output_tokens": 1}}})
	reason := "tool_use"
	if end {
		reason = "end_turn"
		event("content_block_start", o{"type": "content_block_start", "index": 0, "content_block": o{"type": "text", "text": ""}})
		event("content_block_delta", o{"type": "content_block_delta", "index": 0, "delta": o{"type": "text_delta", "text": "done"}})
		event("content_block_stop", o{"type": "content_block_stop", "index": 0})
	} else {
		for i, c := range m.calls {
			args, _ := json.Marshal(c.Args) // maps of strings
			event("content_block_start", o{"type": "content_block_start", "index": i, "content_block": o{"type": "tool_use", "id": fmt.Sprint("toolu_", i), "name": c.Name, "input": o{}}})
			event("content_block_delta", o{"type": "content_block_delta", "index": i, "delta": o{"type": "input_json_delta", "partial_json": string(args)}})
			event("content_block_stop", o{"type": "content_block_stop", "index": i})
		}
	}
	event("message_delta", o{"type": "message_delta", "delta": o{"stop_reason": reason, "stop_sequence": nil}, "usage": o{"output_tokens": 1}})
	event("message_stop", o{"type": "message_stop"})
}

const rules = `version: 1
name: agents
rules:
  - {name: free, tool: [frontend/Bash, frontend/run_shell_command], behavior: allow, when: args.command.contains("free")}
  - {name: never, tool: [frontend/Bash, frontend/run_shell_command], behavior: deny, when: args.command.contains("never"), message: "'not here'"}
  - {name: rest, tool: [frontend/Bash, frontend/run_shell_command], behavior: ask, when: '!args.command.contains("free")'}
`

// agent is a published coding agent.
type agent struct {
	dialect  string
	settings string // below the home folder
	call     func(command string) toolCall
	command  func(prefix string) []string
	env      func(model string) []string
	// killed says whether the tool runs when its hook is killed, which askance cannot change.
	killed bool
}

var agents = []agent{
	{
		dialect: "claude-code", settings: ".claude/settings.json",
		call: func(command string) toolCall {
			return toolCall{"Bash", map[string]any{"command": command, "description": "d"}}
		},
		command: func(p string) []string {
			return []string{p + "/@anthropic-ai/claude-code-linux-x64/claude", "-p", "go", "--allowedTools", "Bash"}
		},
		env: func(model string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_API_KEY=x", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"}
		},
	},
	{
		dialect: "codex", settings: ".codex/hooks.json", killed: true,
		call: func(command string) toolCall { return toolCall{"exec_command", map[string]any{"cmd": command}} },
		command: func(p string) []string {
			return []string{p + "/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", "go"}
		},
		env: func(string) []string { return []string{"OPENAI_API_KEY=x"} },
	},
	{
		dialect: "gemini", settings: ".gemini/settings.json", killed: true,
		call: func(command string) toolCall {
			return toolCall{"run_shell_command", map[string]any{"command": command, "description": "d"}}
		},
		command: func(p string) []string {
			return []string{"node", p + "/@google/gemini-cli/bundle/gemini.js", "--approval-mode", "yolo", "--skip-trust", "-m", "gemini-2.5-flash", "-p", "go"}
		},
		env: func(model string) []string {
			return []string{"GEMINI_API_KEY=x", "GOOGLE_GEMINI_BASE_URL=" + model, "GEMINI_TELEMETRY_ENABLED=false"}
		},
	},
}

// world is one agent with its home, its project and its model.
type world struct {
	t             *testing.T
	a             agent
	home, project string
	model         *model
	url           string // of askance
	env           []string
}

func bin() string { return os.Getenv("ASKANCE_BIN") }

func start(t *testing.T, a agent, calls ...string) *world {
	t.Helper()
	if bin() == "" || os.Getenv("AGENTS_DIR") == "" {
		t.Fatal("ASKANCE_BIN and AGENTS_DIR are not set: run make hooks-real")
	}
	w := &world{t: t, a: a, home: t.TempDir(), project: t.TempDir(), model: &model{}}
	for _, c := range calls {
		w.model.calls = append(w.model.calls, a.call(c))
	}
	s := httptest.NewServer(w.model)
	t.Cleanup(s.Close)
	w.env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.home}, a.env(s.URL)...)
	w.write(".gemini/settings.json", `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`)
	w.write(".codex/config.toml", fmt.Sprintf("model = \"x\"\nmodel_provider = \"scripted\"\napproval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"%s/v1\"\nwire_api = \"responses\"\nenv_key = \"OPENAI_API_KEY\"\n", s.URL))
	w.write("rules.yaml", rules)
	w.serve()
	return w
}

func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.home, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o700)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// serve starts askance.
func (w *world) serve() {
	w.t.Helper()
	c := exec.CommandContext(w.t.Context(), bin(), "serve", "--json", "--data", filepath.Join(w.home, "data"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--durability", "cached", "--policy", filepath.Join(w.home, "rules.yaml"))
	c.Env = w.env
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() }) // it stores nothing
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var started struct{ HTTP string }
	if err == nil {
		err = json.Unmarshal(line, &started)
	}
	if err != nil {
		w.t.Fatalf("askance serve: %v", err)
	}
	w.url = started.HTTP
}

func (w *world) askance(args ...string) (string, int) {
	w.t.Helper()
	c := exec.CommandContext(w.t.Context(), bin(), args...)
	c.Env, c.Dir = w.env, w.project
	out, err := c.CombinedOutput()
	if err != nil && c.ProcessState == nil {
		w.t.Fatal(err)
	}
	return string(out), c.ProcessState.ExitCode()
}

func (w *world) install(url, timeout string) {
	w.t.Helper()
	if out, code := w.askance("hook", "install", w.a.dialect, "--url", url, "--timeout", timeout, "--yes"); code != 0 {
		w.t.Fatal(out)
	}
}

// run runs the agent, and returns the files that its tools made and the last request to its
// model.
func (w *world) run() (made []string, read string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	words := w.a.command(os.Getenv("AGENTS_DIR"))
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Env, c.Dir = w.env, w.project
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Logf("the agent ended: %v\n%s", err, out)
	}
	files, err := os.ReadDir(w.project)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), ".") {
			made = append(made, f.Name())
		}
	}
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	return made, w.model.last
}

func (w *world) want(made ...string) string {
	w.t.Helper()
	got, read := w.run()
	if fmt.Sprint(got) != fmt.Sprint(made) {
		w.t.Errorf("%s made %v, want %v", w.a.dialect, got, made)
	}
	return read
}

// ranAsAllowed checks that the result of the one call names the arguments that were allowed.
func (w *world) ranAsAllowed() {
	w.t.Helper()
	var list struct{ Calls []map[string]any }
	var events string
	res, err := http.Get(w.url + "/v1/calls?all=true")
	if err == nil {
		err = json.NewDecoder(res.Body).Decode(&list)
		_ = res.Body.Close()
	}
	if err == nil && len(list.Calls) == 1 {
		res, err = http.Get(fmt.Sprintf("%s/v1/sessions/%s/events", w.url, list.Calls[0]["session_id"]))
	}
	if err == nil && len(list.Calls) == 1 {
		b, readErr := io.ReadAll(res.Body)
		events, err = string(b), readErr
		_ = res.Body.Close()
	}
	if err != nil || !strings.Contains(events, "TOOL_RESULT_END") || strings.Contains(events, "hook.ran_unasked") {
		w.t.Errorf("%s: %d calls, %v, %s", w.a.dialect, len(list.Calls), err, events)
	}
}

// respond answers every approval request until the test ends.
func (w *world) respond(body func(call map[string]any) map[string]any) {
	go func() {
		for w.t.Context().Err() == nil {
			res, err := http.Get(w.url + "/v1/calls?state=asking")
			if err != nil {
				return
			}
			var list struct{ Calls []map[string]any }
			_ = json.NewDecoder(res.Body).Decode(&list)
			_ = res.Body.Close()
			for _, c := range list.Calls {
				b, _ := json.Marshal(body(c)) // maps of strings
				post, err := http.Post(fmt.Sprintf("%s/v1/calls/%s/%s/%s/response", w.url, c["session_id"], c["reply_id"], c["tool_call_id"]), "application/json", bytes.NewReader(b))
				if err == nil {
					_ = post.Body.Close()
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
}

func TestRealAgents(t *testing.T) {
	for _, a := range agents {
		t.Run(a.dialect, func(t *testing.T) {
			t.Run("allow", func(t *testing.T) {
				w := start(t, a, "touch free")
				w.install(w.url, "60s")
				w.want("free")
				if out, _ := w.askance("list", "--all", "--data", filepath.Join(w.home, "data")); !strings.Contains(out, "done") {
					t.Errorf("the result is not recorded:\n%s", out)
				}
				w.ranAsAllowed()
			})
			t.Run("deny", func(t *testing.T) {
				w := start(t, a, "touch never")
				w.install(w.url, "60s")
				if read := w.want(); !strings.Contains(read, "not here") {
					t.Errorf("the model is not told the reason")
				}
			})
			t.Run("edit", func(t *testing.T) {
				w := start(t, a, "touch asked")
				w.install(w.url, "60s")
				w.respond(func(c map[string]any) map[string]any {
					return map[string]any{"kind": "approve", "digest": c["digest"], "input": strings.Replace(fmt.Sprint(c["input"]), "asked", "edited", 1)}
				})
				w.want("edited")
				w.ranAsAllowed()
			})
			t.Run("reject", func(t *testing.T) {
				w := start(t, a, "touch asked")
				w.install(w.url, "60s")
				w.respond(func(c map[string]any) map[string]any {
					return map[string]any{"kind": "reject", "digest": c["digest"], "feedback": "rather not"}
				})
				if read := w.want(); !strings.Contains(read, "rather not") {
					t.Errorf("the model is not told the feedback")
				}
			})
			t.Run("server down", func(t *testing.T) {
				w := start(t, a, "touch free")
				w.install("http://127.0.0.1:9", "60s")
				if read := w.want(); !strings.Contains(read, "does not respond") {
					t.Errorf("the model is not told the reason")
				}
			})
			t.Run("slow", func(t *testing.T) {
				w := start(t, a, "touch asked")
				w.install(w.url, "8s")
				if read := w.want(); !strings.Contains(read, "still waiting for approval") {
					t.Errorf("the model is not told where the request is")
				}
			})
			t.Run("killed", func(t *testing.T) {
				w := start(t, a, "touch free")
				w.install(w.url, "60s")
				w.write("killed", "#!/bin/sh\nkill -9 $$\n")
				b, err := os.ReadFile(filepath.Join(w.home, a.settings))
				if err != nil {
					t.Fatal(err)
				}
				w.write(a.settings, strings.ReplaceAll(string(b), bin(), filepath.Join(w.home, "killed")))
				if a.killed {
					w.want("free")
				} else {
					w.want()
				}
			})
			t.Run("two calls", func(t *testing.T) {
				w := start(t, a, "touch free-1", "touch never", "touch free-2")
				w.install(w.url, "60s")
				w.want("free-1", "free-2")
			})
		})
	}
}

// TestCodexTrust: Codex skips a hook that its user has not trusted, and check says so.
func TestCodexTrust(t *testing.T) {
	a := agents[1]
	words := a.command(os.Getenv("AGENTS_DIR"))
	w := start(t, a, "touch never")
	w.install(w.url, "60s")
	w.env[0] += ":" + filepath.Dir(words[0])
	if out, code := w.askance("hook", "check", "codex"); code != 7 || !strings.Contains(out, "Codex says that the hook is untrusted") {
		t.Errorf("exit %d\n%s", code, out)
	}
	w.a.command = func(string) []string { return []string{words[0], "exec", "--skip-git-repo-check", "go"} }
	w.want("never")
}

// TestPermissionPromptTool: Claude Code without hooks asks the MCP tool.
func TestPermissionPromptTool(t *testing.T) {
	a := agents[0]
	for command, made := range map[string][]string{"touch free": {"free"}, "touch never": nil} {
		w := start(t, a, command)
		config := fmt.Sprintf(`{"mcpServers":{"askance":{"command":%q,"args":["hook","mcp","--url",%q]}}}`, bin(), w.url)
		w.a.command = func(p string) []string {
			return []string{a.command(p)[0], "-p", "go", "--permission-prompt-tool", "mcp__askance__approve", "--mcp-config", config}
		}
		w.want(made...)
	}
}

// TestHTTPHook: Claude Code posts its events itself, and blocks when nothing answers.
func TestHTTPHook(t *testing.T) {
	a := agents[0]
	for _, tc := range []struct {
		command string
		down    bool
		made    []string
	}{{"touch free", false, []string{"free"}}, {"touch never", false, nil}, {"touch free", true, nil}} {
		w := start(t, a, tc.command)
		token, code := w.askance("token", "create", "agent", "--role", "runtime", "--data", filepath.Join(w.home, "data"), "--json")
		var created struct{ Token string }
		if err := json.Unmarshal([]byte(token), &created); err != nil || code != 0 {
			t.Fatalf("%s %v", token, err)
		}
		w.env = append(w.env, "ASKANCE_TOKEN="+created.Token)
		for status := 0; status != http.StatusOK; { // the running server checks the file every second
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/whoami", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+created.Token)
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close() // only the status matters
			status = res.StatusCode
		}
		url := w.url
		if tc.down {
			url = "http://127.0.0.1:9"
		}
		if out, code := w.askance("hook", "install", "claude-code", "--http-hook", "--url", url, "--timeout", "30s", "--yes"); code != 0 {
			t.Fatal(out)
		}
		w.want(tc.made...)
	}
}
