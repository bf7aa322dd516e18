package react_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/examples/openai-agent/react"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// stage is a model's server, the agent, a runner and a world of tools.
type stage struct {
	*gatewaytest.World
	t      *testing.T
	model  *model
	runner *agent.Runner
	bot    *react.Agent
}

func newStage(t *testing.T, answers ...response) *stage {
	t.Helper()
	s := &stage{World: gatewaytest.New(t), t: t, model: newModel(t, answers...)}
	var err error
	s.bot, err = react.New(react.Config{
		Name: "bot", BaseURL: s.model.URL, APIKey: "secret", Model: "test-model", System: "Be brief.", MaxTurns: 4, MaxTries: 3,
		Tools: []agent.Tool{{Name: gatewaytest.Echo, Description: "Echoes.", Parameters: message.RawJSON(`{"type":"object"}`)}, {Name: gatewaytest.Pay}, {Name: gatewaytest.Drop}, {Name: gatewaytest.Other}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(func() { _ = s.runner.Close() })
	return s
}

func (s *stage) start() {
	s.t.Helper()
	var err error
	if s.runner, err = agent.New(agent.Config{As: s.A.As, Agents: []agent.Agent{s.bot}}); err != nil {
		s.t.Fatal(err)
	}
	if err := s.runner.Resume(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// say says "Go." and so begins a turn.
func (s *stage) say() message.ReplyID {
	s.t.Helper()
	m, err := message.UserMsg("me", message.Content{Text: "Go."})
	if err != nil {
		s.t.Fatal(err)
	}
	by := toolcall.Principal{Role: toolcall.RoleRuntime, Name: gatewaytest.Bot}
	r, err := s.runner.Start(s.t.Context(), by, "s", "bot", agent.Input{Messages: []*message.Msg{m}})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// until reads the reply until cond holds.
func (s *stage) until(reply message.ReplyID, what string, cond func(*message.Msg) bool) *message.Msg {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	for c := s.A.Client(gatewaytest.Bot); ; {
		thread, err := agent.ReadThread(ctx, c, "s")
		if err != nil {
			s.t.Fatalf("%s does not come: %v", what, err)
		}
		m := &message.Msg{}
		if n := len(thread.Messages); n > 0 && thread.Messages[n-1].ID == string(reply) {
			m = thread.Messages[n-1]
		}
		if cond(m) {
			return m
		}
		if _, err := c.Events(ctx, toolcall.EventsRequest{Session: "s", After: thread.Through, WaitMS: 5000}); err != nil || ctx.Err() != nil {
			s.t.Fatalf("%s does not come: %v\n%s", what, err, words(m))
		}
	}
}

func (s *stage) ended(reply message.ReplyID) *message.Msg {
	s.t.Helper()
	return s.until(reply, "the end", func(m *message.Msg) bool { return m.FinishedReason != nil })
}

// words is a message in short.
func words(m *message.Msg) string {
	var out []string
	for _, b := range m.Content {
		switch b := b.(type) {
		case *message.TextBlock:
			out = append(out, "["+b.Text+"]")
		case *message.ThinkingBlock:
			out = append(out, "("+b.Thinking+")")
		case *message.ToolCallBlock:
			out = append(out, fmt.Sprintf("%s=%s%s", b.ID, b.Name, b.Input))
		default:
		}
	}
	for _, r := range message.BlocksOf[*message.ToolResultBlock](m) {
		out = append(out, fmt.Sprintf("%s:%s", r.ID, r.State))
	}
	if m.FinishedReason != nil {
		out = append(out, string(*m.FinishedReason))
	}
	if m.Error != nil {
		out = append(out, string(m.Error.Type)+": "+m.Error.Message)
	}
	return strings.Join(out, " ")
}

// TestResponses replays every single answer in pieces of many sizes.
func TestResponses(t *testing.T) {
	for file, want := range map[string]string{
		"openai-text.sse":     "[1, 2, 3, 4, 5] completed",
		"openrouter-text.sse": "[OK] completed",
		"done.sse":            "[All done – ✓] completed",
		"no-done.sse":         "[All done – ✓] completed",
		"odd.sse":             "[All done – ✓] completed",
		"azure.sse":           "[All done – ✓] completed",
		"reasoning.sse":       "(The user wants to know.) [All done – ✓] completed",
		"refusal.sse":         "[I cannot help with that.] completed",
		"length.sse":          "[Once upon] error upstream: the model's answer reached its length limit and is not complete",
		"length-in-call.sse":  `call_a=echo{"text":"cut call_a:error error upstream: the model's answer reached its length limit and is not complete`,
		"filter.sse":          "[The recipe] error upstream: the provider's content filter stopped the model's answer",
		"error.sse":           `[Hel] call_a=echo{"text":"x"} call_a:error error upstream: the server says: server_error: The server had an error while processing your request.`,
		"broken-off.sse":      `[Hel] call_a=echo{"text":"x"} call_a:error error connection: the model's answer broke off`,
	} {
		t.Run(file, func(t *testing.T) {
			sizes := []int{0, 1, 7, 64}
			s := newStage(t)
			for _, size := range sizes {
				s.model.mu.Lock()
				s.model.answers, s.model.size = []response{{file: file}}, size
				s.model.mu.Unlock()
				if got := words(s.ended(s.say())); got != want {
					t.Errorf("in pieces of %d: %s\nwant %s", size, got, want)
				}
			}
		})
	}
}

// TestLoop goes through parallel calls, an approval request, a denial, an id that comes
// again, and what the model is told of all of it.
func TestLoop(t *testing.T) {
	s := newStage(t, response{file: "parallel.sse"}, response{file: "again.sse"}, response{file: "done.sse"})
	s.model.size = 3
	r := s.say()
	key := toolcall.Key{Space: s.A.ID, Session: "s", Reply: r, Call: "call_b"}
	s.until(r, "the approval request", func(m *message.Msg) bool {
		c := m.ToolCall("call_b")
		return c != nil && c.State == message.ToolCallAsking && m.ToolResult("call_a") != nil
	})
	s.A.Approve(gatewaytest.Ann, key)
	m := s.ended(r)
	want := `[I look at three things 🔎.] call_a=echo{"text":"grüße 👋"} call_b=pay{"to":"acme","amount":42} call_c=drop{"table":"users"} call_a_2=echo{"text":"second"} [All done – ✓] `
	if got := words(m); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, " completed") {
		t.Errorf("the reply is %s\nwant %s", got, want)
	}
	for id, state := range map[message.CallID]message.ToolResultState{"call_a": "success", "call_b": "success", "call_c": "denied", "call_a_2": "success"} {
		if res := m.ToolResult(id); res == nil || res.State != state {
			t.Errorf("%s: %+v, want %s", id, res, state)
		}
	}
	if m.Usage == nil || m.Usage.InputTokens != 240 || m.Usage.CacheInputTokens != 200 {
		t.Errorf("usage %+v", m.Usage)
	}
	asked := s.model.requests()
	if len(asked) != 3 {
		t.Fatalf("%d requests", len(asked))
	}
	last := asked[2]
	if last.Model != "test-model" || !last.Stream || last.key != "Bearer secret" || last.StreamOptions["include_usage"] != true || len(last.Tools) != 4 {
		t.Errorf("the request is %+v", last)
	}
	denied := m.ToolResult("call_c").Output.String()
	told := `{"content":"Be brief.","role":"system"}
{"content":"Go.","role":"user"}
{"content":"I look at three things 🔎.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"text\":\"grüße 👋\"}","name":"echo"},"id":"call_a","type":"function"},{"function":{"arguments":"{\"to\":\"acme\",\"amount\":42}","name":"pay"},"id":"call_b","type":"function"},{"function":{"arguments":"{\"table\":\"users\"}","name":"drop"},"id":"call_c","type":"function"}]}
{"content":"{\"text\":\"grüße 👋\"}","role":"tool","tool_call_id":"call_a"}
{"content":"{\"to\":\"acme\",\"amount\":42}","role":"tool","tool_call_id":"call_b"}
{"content":"` + denied + `","role":"tool","tool_call_id":"call_c"}
{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"text\":\"second\"}","name":"echo"},"id":"call_a_2","type":"function"}]}
{"content":"{\"text\":\"second\"}","role":"tool","tool_call_id":"call_a_2"}
`
	if diff := cmp.Diff(told, last.messages(t)); diff != "" {
		t.Errorf("the model is told (-want +got):\n%s", diff)
	}
}

// TestRecordedCall: a stream that OpenAI sent, with a call of a tool that there
// is not.
func TestRecordedCall(t *testing.T) {
	s := newStage(t, response{file: "openai-text-and-call.sse"}, response{file: "done.sse"})
	m := s.ended(s.say())
	c := message.BlocksOf[*message.ToolCallBlock](m)
	if len(c) != 1 || c[0].Name != "get_weather" || !strings.Contains(c[0].Input, "Santorini") || m.ToolResult(c[0].ID).State != message.ToolResultError || *m.FinishedReason != message.FinishedCompleted {
		t.Errorf("the reply is %s", words(m))
	}
}

// TestMalformed: arguments that cannot be used never run; the model is told.
func TestMalformed(t *testing.T) {
	s := newStage(t, response{file: "malformed.sse"}, response{file: "done.sse"})
	m := s.ended(s.say())
	for _, id := range []message.CallID{"call_a", "call_b", "call_c", "call_d"} {
		if r := m.ToolResult(id); r == nil || r.State != message.ToolResultError {
			t.Errorf("%s: %+v", id, r)
		}
	}
	told := s.model.requests()[1].messages(t)
	for _, want := range []string{`{\"malformed_arguments\":\"{\\\"text\\\": unquoted}\"}`, "the arguments are not a JSON object", "ToolNotFoundError"} {
		if !strings.Contains(told, want) {
			t.Errorf("the model is not told %s:\n%s", want, told)
		}
	}
}

// TestRetries: what may pass is asked again, what will not is said.
func TestRetries(t *testing.T) {
	soon := map[string]string{"Retry-After-Ms": "5"}
	limited := response{file: "openrouter-429.json", status: http.StatusTooManyRequests, header: soon}
	for _, row := range []struct {
		name    string
		answers []response
		want    string
		tries   int
	}{
		{"429 and then an answer", []response{limited, {file: "done.sse"}}, "[All done – ✓] completed", 2},
		{"500 and 503", []response{{status: 500, header: soon}, {status: 503, header: map[string]string{"Retry-After": "0.01"}}, {file: "done.sse"}}, "[All done – ✓] completed", 3},
		{"429 for ever", []response{limited, limited, limited}, "error rate_limit: the model's server answers 429 Too Many Requests: Rate limit exceeded", 3},
		{"500 for ever", []response{{status: 500, header: soon}, {status: 500, header: soon}, {status: 500, header: soon}}, "error upstream: the model's server answers 500 Internal Server Error", 3},
		{"401", []response{{status: 401}}, "error authentication: the model's server answers 401 Unauthorized", 1},
		{"400", []response{{status: 400}}, "error invalid_request: the model's server answers 400 Bad Request", 1},
		{"a stream of another type", []response{{file: "done.sse", header: map[string]string{"Content-Type": "text/plain"}}}, "[All done – ✓] completed", 1},
		{"a page", []response{{file: "done.sse", header: map[string]string{"Content-Type": "text/html"}}}, "error upstream: the model's server does not stream", 1},
		{"no stream", []response{{file: "openrouter-429.json"}}, "error upstream: the server says: Rate limit exceeded", 1},
		{"the connection breaks", []response{{file: "broken-off.sse", cut: true}}, `[Hel] call_a=echo{"text":"x"} call_a:error error connection: the model's answer broke off`, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newStage(t, row.answers...)
			if got := words(s.ended(s.say())); !strings.HasPrefix(got, row.want) {
				t.Errorf("the reply is %s\nwant %s", got, row.want)
			}
			if n := len(s.model.requests()); n != row.tries {
				t.Errorf("%d requests, want %d", n, row.tries)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	s := newStage(t)
	s.model.Close()
	if got := words(s.ended(s.say())); got != "error connection: the model cannot be reached" {
		t.Errorf("the reply is %s", got)
	}
}

// TestEndless: a model that never stops to call is stopped.
func TestEndless(t *testing.T) {
	again := response{file: "again.sse"}
	s := newStage(t, again, again, again, again, again)
	m := s.ended(s.say())
	if n := len(message.BlocksOf[*message.ToolCallBlock](m)); n != 4 || *m.FinishedReason != message.FinishedExceedMaxIters {
		t.Errorf("the reply is %s", words(m))
	}
}

// TestRestart stops the process in the middle of an approval request, and in the middle
// of an answer: what ran does not run again, and the model is asked on.
func TestRestart(t *testing.T) {
	s := newStage(t, response{file: "parallel.sse"}, response{file: "broken-off.sse", hold: make(chan struct{})}, response{file: "done.sse"})
	r := s.say()
	s.until(r, "the approval request", func(m *message.Msg) bool {
		c := m.ToolCall("call_b")
		return c != nil && c.State == message.ToolCallAsking
	})
	_ = s.runner.Close()
	s.start()
	s.A.Approve(gatewaytest.Ann, toolcall.Key{Space: s.A.ID, Session: "s", Reply: r, Call: "call_b"})
	s.until(r, "the second answer", func(m *message.Msg) bool { return m.ToolCall("call_a_2") != nil && m.ToolCall("call_a_2").Input != "" })
	_ = s.runner.Close()
	s.start()
	m := s.ended(r)
	text, _ := m.TextContent("|")
	if res := m.ToolResult("call_a_2"); text != "I look at three things 🔎.|Hel|All done – ✓" || res == nil || res.State != message.ToolResultError {
		t.Errorf("the reply is %s", words(m))
	}
	if n := len(s.model.requests()); n != 3 {
		t.Errorf("%d requests", n)
	}
}

// TestInterrupt ends an answer in its middle.
func TestInterrupt(t *testing.T) {
	s := newStage(t, response{file: "broken-off.sse", hold: make(chan struct{})})
	r := s.say()
	s.until(r, "its words", func(m *message.Msg) bool { return len(m.Content) > 1 })
	if _, err := s.A.Client(gatewaytest.Bot).Interrupt(t.Context(), toolcall.InterruptRequest{Session: "s", Reply: r}); err != nil {
		t.Fatal(err)
	}
	if m := s.ended(r); *m.FinishedReason != message.FinishedInterrupted {
		t.Errorf("the reply is %s", words(m))
	}
}

func TestNew(t *testing.T) {
	for _, cfg := range []react.Config{
		{}, {Name: "a", Model: "m"}, {Name: "a", Model: "m", BaseURL: "ftp://x"}, {Name: "a", Model: "m", BaseURL: "http://%zz"},
		{Name: "a", BaseURL: "http://x/v1"}, {Model: "m", BaseURL: "http://x/v1"},
	} {
		if _, err := react.New(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}
