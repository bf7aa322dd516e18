package chatstream_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/examples/incident"
	"github.com/askance-dev/askance/gateway/agent/chatstream"
	"github.com/askance-dev/askance/message"
)

// turns reads a whole recording.
func turns(data string) (events [][]message.Event, calls [][]message.ToolCallBlock, err error) {
	r := chatstream.NewReader(strings.NewReader(data))
	var n int
	codec := message.Codec{NewID: func() string { n++; return fmt.Sprint("id", n) }}
	for {
		t := chatstream.NewTurn(codec, "r")
		var evs []message.Event
		for {
			c, err := r.Next()
			if errors.Is(err, io.EOF) {
				return events, calls, nil
			}
			if errors.Is(err, chatstream.ErrDone) {
				break
			}
			if err != nil {
				return nil, nil, err
			}
			more, err := t.Add(c)
			if err != nil {
				return nil, nil, err
			}
			evs = append(evs, more...)
		}
		more, err := t.End()
		if err != nil {
			return nil, nil, err
		}
		events, calls = append(events, append(evs, more...)), append(calls, t.Calls())
	}
}

func TestIncident(t *testing.T) {
	data, err := incident.Files.ReadFile("stream.sse")
	if err != nil {
		t.Fatal(err)
	}
	events, calls, err := turns(string(data))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, turn := range calls {
		for _, c := range turn {
			got = append(got, c.Name+" "+c.Input)
		}
	}
	want := []string{
		`read_log {"path":"logs/checkout.log"}`,
		`shell {"command":"grep -c ERROR logs/checkout.log"}`,
		`shell {"command":"rm -rf logs"}`,
		`refund {"order_id":"A-1042","charge_id":"ch_7732","amount_cents":24900,"currency":"EUR","reason":"charged twice"}`,
		`restart_service {"service":"checkout"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if len(events) != 3 {
		t.Errorf("%d turns, want 3", len(events))
	}
	// The calls can be rebuilt from the events without anything else.
	m, err := message.AssistantMsg("bot", message.List(), message.WithID("r"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events[1] {
		if err := message.Append(m, e); err != nil {
			t.Fatal(err)
		}
	}
	if c := m.ToolCall("call_cleanup"); c == nil || c.Input != `{"command":"rm -rf logs"}` || c.FinishedAt == nil {
		t.Errorf("the rebuilt call is %+v", c)
	}
	if m.Usage == nil || m.Usage.InputTokens != 1630 || m.Usage.OutputTokens != 117 {
		t.Errorf("usage = %+v", m.Usage)
	}
}

const (
	hello = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}]}` + "\n\n"
	lo    = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}` + "\n\n"
	done  = "data: [DONE]\n\n"
)

func TestOrderOfEvents(t *testing.T) {
	call := `data: {"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}` + "\r\n\r\n"
	events, _, err := turns(": a comment\n" + "event: ignored\n" + hello + lo + call + done)
	if err != nil {
		t.Fatal(err)
	}
	var got []message.EventType
	for _, e := range events[0] {
		got = append(got, e.Type())
	}
	want := []message.EventType{
		"MODEL_CALL_START", "TEXT_BLOCK_START", "TEXT_BLOCK_DELTA", "TEXT_BLOCK_DELTA", "TEXT_BLOCK_END",
		"TOOL_CALL_START", "TOOL_CALL_DELTA", "TOOL_CALL_END", "MODEL_CALL_END",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestFaults(t *testing.T) {
	chunk := func(delta string) string {
		return `data: {"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}` + "\n\n"
	}
	for _, tc := range []struct{ name, data, want string }{
		{"no JSON", "data: {\n\n", "line 2"},
		{"key twice", `data: {"object":"a","object":"chat.completion.chunk"}` + "\n\n", "line 2"},
		{"another object", `data: {"object":"chat.completion"}` + "\n\n", `object is "chat.completion"`},
		{"cut off", hello, "unexpected EOF"},
		{"no finish reason", hello + done, "without a finish_reason"},
		{"done alone", done, "without a completion"},
		{"call without a name", chunk(`{"tool_calls":[{"index":0,"id":"c","function":{}}]}`) + done, "begins without a name"},
		{"an error in the stream", hello + `data: {"error":{"message":"overloaded","type":"server_error","code":null}}` + "\n\n", "server_error: overloaded"},
		{"an error as text", hello + `data: {"error":"overloaded"}` + "\n\n", "overloaded"},
		{"an error without a message", hello + `data: {"error":{}}` + "\n\n", "without a message"},
		{"an event over the limit", strings.Repeat("data: "+strings.Repeat("x", 1<<16)+"\n", 20), "over 1048576 bytes"},
		{"call out of order", chunk(`{"tool_calls":[{"index":1,"id":"c","function":{"name":"f"}}]}`) + done, "tool call 1 comes after 0"},
		{"negative index", chunk(`{"tool_calls":[{"index":-1}]}`) + done, "tool call -1"},
		{"another kind of call", chunk(`{"tool_calls":[{"index":0,"id":"c","type":"custom","function":{"name":"f"}}]}`) + done, `of type "custom"`},
		{"id changes", chunk(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f"}},{"index":0,"id":"d","function":{}}]}`) + done, "changes its id"},
		{"second choice", `data: {"object":"chat.completion.chunk","choices":[{"index":1,"delta":{}}]}` + "\n\n" + done, "want only choice 0"},
		{"line too long", "data: " + strings.Repeat("x", 1<<20), "token too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := turns(tc.data)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v, want %q", err, tc.want)
			}
		})
	}
}

// TestLineEnds reads one stream with each kind of line end, with comments and a byte order mark,
// in pieces of every size.
func TestLineEnds(t *testing.T) {
	stream := "\ufeff: hi\n" + hello + ": ping\n\ndata:\n\nretry: 3\nid: 7\n" + strings.ReplaceAll(lo, "lo", "lö 😀") + done
	for _, end := range []string{"\n", "\r\n", "\r"} {
		data := strings.ReplaceAll(stream, "\n", end)
		for size := 1; size < 70; size++ {
			r := chatstream.NewReader(pieces{strings.NewReader(data), size})
			var text string
			for {
				c, err := r.Next()
				if errors.Is(err, chatstream.ErrDone) {
					break
				}
				if err != nil {
					t.Fatalf("line end %q, pieces of %d: %v", end, size, err)
				}
				text += *c.Choices[0].Delta.Content
			}
			if text != "Hellö 😀" {
				t.Fatalf("line end %q, pieces of %d: %q", end, size, text)
			}
		}
	}
}

// pieces reads a few bytes at a time.
type pieces struct {
	r    io.Reader
	size int
}

func (p pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.size)]) }

// TestIDs: calls get ids that are not in use in the reply.
func TestIDs(t *testing.T) {
	stop := "tool_calls"
	turn := chatstream.NewTurn(message.Codec{NewID: func() string { return "x" }}, "r", "c1", "c1_2")
	_, err := turn.Add(&chatstream.Chunk{Choices: []chatstream.Choice{{FinishReason: &stop, Delta: chatstream.Delta{ToolCalls: []chatstream.CallDelta{
		{Index: 0, ID: "c1", Function: chatstream.Function{Name: "f"}}, {Index: 1, ID: "c2", Function: chatstream.Function{Name: "f"}},
		{Index: 2, ID: "c2", Function: chatstream.Function{Name: "f"}}, {Index: 3, Function: chatstream.Function{Name: "f"}},
		{Index: 0, ID: "c1", Function: chatstream.Function{Arguments: "{}"}},
	}}}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []message.CallID
	for _, c := range turn.Calls() {
		got = append(got, c.ID)
	}
	if diff := cmp.Diff([]message.CallID{"c1_3", "c2", "c2_2", "call_x"}, got); diff != "" || turn.Calls()[0].Input != "{}" {
		t.Error(diff)
	}
}

func TestArguments(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": 1}`:         `{"a": 1}`,
		``:                 `{"malformed_arguments":""}`,
		`["a"]`:            `{"malformed_arguments":"[\"a\"]"}`,
		`{"a":1,"a":2}`:    `{"malformed_arguments":"{\"a\":1,\"a\":2}"}`,
		"{\"a\":\"\xff\"}": `{"malformed_arguments":"{\"a\":\"` + "\ufffd" + `\"}"}`,
	} {
		if got := chatstream.Arguments(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// TestCutOff: the calls of a completion that was cut off do not end.
func TestCutOff(t *testing.T) {
	for reason, complete := range map[string]bool{"stop": true, "tool_calls": true, "length": false, "content_filter": false, "function_call": false, "insufficient_system_resource": false} {
		events, _, err := turns(`data: {"model":"m","choices":[{"index":0,"delta":{"reasoning_content":"hm","content":"Hi"}}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"` + reason + `"}]}` + "\n\n" + done)
		if err != nil {
			t.Fatal(err)
		}
		ends := map[message.EventType]int{}
		for _, e := range events[0] {
			ends[e.Type()]++
		}
		if (ends[message.EventToolCallEnd] == 1) != complete || ends[message.EventTextBlockEnd] != 1 || ends[message.EventThinkingBlockEnd] != 1 || ends[message.EventModelCallEnd] != 1 {
			t.Errorf("%s: %v", reason, ends)
		}
	}
}

func TestTurnAfterItsEnd(t *testing.T) {
	stop := "stop"
	turn := chatstream.NewTurn(message.Codec{}, "r")
	if _, err := turn.Add(&chatstream.Chunk{Choices: []chatstream.Choice{{FinishReason: &stop}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := turn.End(); err != nil || turn.FinishReason() != "stop" {
		t.Fatal(err)
	}
	if _, err := turn.End(); err == nil {
		t.Error("a turn ended twice")
	}
	if _, err := turn.Add(&chatstream.Chunk{}); err == nil {
		t.Error("a turn took a chunk after its end")
	}
}

func FuzzTurns(f *testing.F) {
	f.Add([]byte(hello + lo + done))
	f.Add([]byte("data: {\"a\":\ndata: 1}\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		events, calls, err := turns(string(bytes.ToValidUTF8(data, nil)))
		if err != nil {
			return
		}
		for i, turn := range events {
			m, err := message.AssistantMsg("bot", message.List(), message.WithID("r"))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range turn {
				if err := message.Append(m, e); err != nil {
					return // the counters of a hostile model overflow
				}
			}
			for _, c := range calls[i] {
				if b := m.ToolCall(c.ID); b == nil {
					t.Fatalf("the events of turn %d lack call %s", i, c.ID)
				}
			}
		}
	})
}
