package judge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// caller calls a tool through a published client. The returned function waits for the result.
type caller func(t *testing.T, tool string, arguments map[string]any) func() *result

// decision is _meta["dev.askance/decision"] of a result.
func (r *result) decision(t *testing.T) (d struct{ Rule, Call string }) {
	t.Helper()
	if err := json.Unmarshal(r.Meta["dev.askance/decision"], &d); err != nil {
		t.Errorf("the result has no decision: %v in %s", err, r.raw)
	}
	return d
}

// withToken sends a token with each request.
type withToken string

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(w))
	return http.DefaultTransport.RoundTrip(r)
}

// goClient connects the client of the Go SDK.
func goClient(t *testing.T, over mcp.Transport, version string) caller {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "judge", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	s, err := c.Connect(context.WithoutCancel(t.Context()), over, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("the Go client does not connect: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return func(t *testing.T, tool string, arguments map[string]any) func() *result {
		done := make(chan *result, 1)
		go func() {
			defer close(done)
			r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
			if err != nil {
				t.Errorf("the Go client fails: %v", err)
				return
			}
			raw, err := json.Marshal(r)
			if err != nil {
				t.Error(err)
				return
			}
			done <- (&message{Result: raw}).result(t)
		}()
		return func() *result {
			t.Helper()
			if r := <-done; r != nil {
				return r
			}
			t.FailNow()
			return nil
		}
	}
}

// typescriptClient connects a TypeScript client.
func typescriptClient(t *testing.T, how map[string]any) caller {
	t.Helper()
	c := newTypescript(t, how)
	return func(t *testing.T, tool string, arguments map[string]any) func() *result {
		done := c.call(tool, arguments)
		return func() *result { t.Helper(); return c.wait(done) }
	}
}

// TestOutcomes: with each published client, of both eras and over both transports, a call gets
// the result that belongs to each decision.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy("echo"))
	run := func(r *request) string { return text("ran " + string(r.Params.Arguments)) }
	var tools []tool
	for _, name := range []string{"echo", "deny", "ask"} {
		tools = append(tools, tool{name, define(name), run})
	}
	u := newUpstream(t, tools...)
	g := h.gateway(bot, u, "--hold", "90s")
	stdio := append(h.mcp(bot, "--hold", "90s", "--"), bin.self, relayArg, u.socket)
	goCommand := func() mcp.Transport {
		return &mcp.CommandTransport{Command: exec.Command(stdio[0], stdio[1:]...)}
	}
	goHTTP := func() mcp.Transport {
		return &mcp.StreamableClientTransport{Endpoint: g.url, HTTPClient: &http.Client{Transport: withToken(h.tokens[bot])}}
	}
	for name, connect := range map[string]func(*testing.T) caller{
		"typescript modern http": func(t *testing.T) caller {
			return typescriptClient(t, map[string]any{"era": "modern", "url": g.url, "token": h.tokens[bot]})
		},
		"typescript legacy http": func(t *testing.T) caller {
			return typescriptClient(t, map[string]any{"era": "legacy", "url": g.url, "token": h.tokens[bot]})
		},
		"typescript modern stdio": func(t *testing.T) caller {
			return typescriptClient(t, map[string]any{"era": "modern", "command": stdio})
		},
		"typescript legacy stdio": func(t *testing.T) caller {
			return typescriptClient(t, map[string]any{"era": "legacy", "command": stdio})
		},
		"go modern http":  func(t *testing.T) caller { return goClient(t, goHTTP(), "2026-07-28") },
		"go legacy http":  func(t *testing.T) caller { return goClient(t, goHTTP(), "2025-11-25") },
		"go modern stdio": func(t *testing.T) caller { return goClient(t, goCommand(), "2026-07-28") },
		"go legacy stdio": func(t *testing.T) caller { return goClient(t, goCommand(), "2025-11-25") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachOutcome(t, h, u, connect(t), name)
		})
	}
}

// eachOutcome uses arguments that contain the name of the client, to find its own calls.
func eachOutcome(t *testing.T, h *house, u *upstream, do caller, client string) {
	args := func(n string) map[string]any { return map[string]any{"client": client, "n": n} }
	mine := func(n string) *call {
		return h.wait("of "+client+" asks about "+n, func(c *call) bool {
			return c.State == "asking" && c.Input == fmt.Sprintf(`{"client":%q,"n":%q}`, client, n)
		})
	}
	ran := func(n string) (times int) {
		for _, r := range u.requests("tools/call", "") {
			if string(r.Params.Arguments) == fmt.Sprintf(`{"client":%q,"n":%q}`, client, n) {
				times++
			}
		}
		return times
	}
	if r := do(t, "echo", args("allow"))(); r.IsError || !strings.Contains(r.text(), `ran {"client":"`+client+`","n":"allow"}`) || ran("allow") != 1 {
		t.Errorf("an allowed call: %s", r.raw)
	}
	if r := do(t, "deny", args("deny"))(); !r.IsError || !strings.HasPrefix(r.text(), "denied: ") || !strings.Contains(r.text(), "not in this house") || ran("deny") != 0 {
		t.Errorf("a denied call: %s", r.raw)
	} else if d := r.decision(t); d.Rule != "denied" || d.Call == "" {
		t.Errorf("the decision of a denied call is %+v", d)
	}

	wait := do(t, "ask", args("approve"))
	h.respond(mine("approve"), "approve", nil)
	if r := wait(); r.IsError || r.text() != `ran {"client":"`+client+`","n":"approve"}` || ran("approve") != 1 {
		t.Errorf("an approved call: %s", r.raw)
	}

	wait = do(t, "ask", args("edit"))
	edited := fmt.Sprintf(`{"client":%q,"n":"edited"}`, client)
	h.respond(mine("edit"), "approve", map[string]any{"input": edited})
	if r := wait(); r.IsError || len(r.Content) < 2 || !strings.HasPrefix(r.Content[0].Text, "ran with changed arguments") ||
		!strings.Contains(r.text(), "ran "+edited) || ran("edit") != 0 || ran("edited") != 1 {
		t.Errorf("an edited call: %s", r.raw)
	}

	wait = do(t, "ask", args("reject"))
	h.respond(mine("reject"), "reject", map[string]any{"feedback": "use the other account"})
	if r := wait(); !r.IsError || !strings.Contains(r.text(), "use the other account") || ran("reject") != 0 {
		t.Errorf("a rejected call: %s", r.raw)
	}

	wait = do(t, "ask", args("respond"))
	h.respond(mine("respond"), "respond", map[string]any{"output": "42, says a person"})
	if r := wait(); r.IsError || !strings.Contains(r.text(), "42, says a person") || ran("respond") != 0 {
		t.Errorf("a call that a person responds to: %s", r.raw)
	}

	var waits []func() *result
	for i := range 4 {
		waits = append(waits, do(t, "ask", args(fmt.Sprint("parallel-", i))))
	}
	for i := 3; i >= 0; i-- {
		h.respond(mine(fmt.Sprint("parallel-", i)), "approve", nil)
	}
	for i, wait := range waits {
		if r := wait(); !strings.Contains(r.text(), fmt.Sprintf(`"n":"parallel-%d"}`, i)) {
			t.Errorf("call %d of several gets %s", i, r.raw)
		}
	}
}
