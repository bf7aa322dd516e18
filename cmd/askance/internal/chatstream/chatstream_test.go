package chatstream_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/cmd/askance/internal/chatstream"
	"github.com/askance-dev/askance/examples/incident"
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
	// The events alone build the same calls.
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
		{"call without a name", chunk(`{"tool_calls":[{"index":0,"id":"c","function":{}}]}`) + done, "begins without id or name"},
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
		t.Error("a turn ends twice")
	}
	if _, err := turn.Add(&chatstream.Chunk{}); err == nil {
		t.Error("a turn goes on after its end")
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
					t.Fatalf("the events of turn %d do not have call %s", i, c.ID)
				}
			}
		}
	})
}
