package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/examples/openai-agent/react"
	"github.com/askance-dev/askance/gateway/agent"
)

// answers are what the model says, one for each time that it is asked; written
// to OpenAI's published format.
var answers = []string{
	`{"role":"assistant","content":"I look.","tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"list_files","arguments":"{\"path\":\".\"}"}},{"index":1,"id":"c2","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"../secret\"}"}},{"index":2,"id":"c3","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"a.env\"}"}}]}`,
	`{"role":"assistant","tool_calls":[{"index":0,"id":"c4","type":"function","function":{"name":"write_file","arguments":"{\"path\":\"b.txt\",\"content\":\"new\"}"}}]}`,
	`{"role":"assistant","tool_calls":[{"index":0,"id":"c5","type":"function","function":{"name":"delete_file","arguments":"{\"path\":\"a.txt\"}"}}]}`,
	`{"role":"assistant","content":"Done."}`,
}

func modelServer(t *testing.T) string {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		n := int(asked.Add(1)-1) % len(answers)
		say(w, "data: {\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":null}]}\n\n", answers[n])
		say(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func newRunner(t *testing.T, h *house) *agent.Runner {
	t.Helper()
	bot, err := react.New(react.Config{Name: "openai-agent", BaseURL: modelServer(t), Model: "m", Tools: describeTools()})
	if err != nil {
		t.Fatal(err)
	}
	r, err := agent.New(agent.Config{As: h.as, Agents: []agent.Agent{bot}, Tools: h.toolNames()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func newHouse(t *testing.T, workspace string) *house {
	t.Helper()
	h, err := openHouse(t.Context(), options{workspace: workspace, data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// TestMissingFolder: an agent does not start without its folder.
func TestMissingFolder(t *testing.T) {
	h, err := openHouse(t.Context(), options{workspace: filepath.Join(t.TempDir(), "missing"), data: t.TempDir()})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("openHouse(missing workspace) = %v, want an error", err)
	}
	if err == nil {
		h.Close()
	}
}

// TestTerminal talks with the agent: what may run runs, what asks is asked, and
// nothing leaves the folder.
func TestTerminal(t *testing.T) {
	dir := t.TempDir()
	workspace := filepath.Join(dir, "work")
	for name, text := range map[string]string{"secret": "hidden", "work/a.txt": "old", "work/a.env": "KEY=1"} {
		if err := os.MkdirAll(workspace, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := newHouse(t, workspace)
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := talk(ctx, h, newRunner(t, h), "openai-agent", "s", strings.NewReader("tidy up\ny\nkeep it\n"), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"I look.", `[c1: list_files {"path":"."}]`, "[c1: success]", "[c2: error]", "[c3: denied]", "Write b.txt?", "[c4: success]", "Delete a.txt?", "[c5: denied]", "Done."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the terminal does not show %q", want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(workspace, "b.txt")); err != nil || string(text) != "new" {
		t.Errorf("b.txt has %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(workspace, "a.txt")); err != nil {
		t.Error("a rejected call was carried out")
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// TestTerminalEnds ends the input while a request is open.
func TestTerminalEnds(t *testing.T) {
	h := newHouse(t, t.TempDir())
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := talk(ctx, h, newRunner(t, h), "openai-agent", "s", strings.NewReader("tidy up\n"), &out); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil || !strings.HasSuffix(out.String(), "to reject with these words: \n") {
		t.Errorf("%v, and the terminal ends with %q", ctx.Err(), out.String())
	}
}

// TestServe asks the running server whether it is there.
func TestServe(t *testing.T) {
	h := newHouse(t, t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	urls, ended := make(chan string, 1), make(chan error, 1)
	runner := newRunner(t, h)
	go func() { ended <- serve(ctx, h, runner, "127.0.0.1:0", func(url string) { urls <- url }) }()
	select {
	case url := <-urls:
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/tools", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close() // it was read
		if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), "write_file") {
			t.Errorf("%s: %s %v", res.Status, body, err)
		}
		if got := chat(t, url); !strings.Contains(got, "I look.") || !strings.Contains(got, `"interrupt"`) || !strings.Contains(got, "Write b.txt?") {
			t.Errorf("the agent answers %s", got)
		}
	case err := <-ended:
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := serve(t.Context(), h, runner, "0.0.0.0:0", nil); err == nil {
		t.Error("it serves every address")
	}
}

// chat sends a message as an AG-UI frontend does, and gives the run's events.
func chat(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/agui", strings.NewReader(
		`{"threadId":"t","runId":"r","protocolVersion":"1.0","messages":[{"id":"m","role":"user","content":"tidy up"}],"tools":[],"context":[],"state":{},"forwardedProps":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
