package agui_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/aguitest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
	"pgregory.net/rapid"
)

// scope reads AgentScope events, one JSON object per line, and adds id, created_at and reply_id
// where they are missing.
func scope(t testing.TB, lines ...string) []message.Event {
	t.Helper()
	out := make([]message.Event, len(lines))
	for i, l := range lines {
		l = strings.Replace(l, "{", fmt.Sprintf(`{"id":"e%d","created_at":"2026-03-01T09:00:%02d","reply_id":"r",`, i+1, i%60), 1)
		if strings.Contains(l, `"CUSTOM"`) {
			l = strings.Replace(l, `"reply_id":"r",`, "", 1)
		}
		e, err := message.DecodeEvent([]byte(l))
		if err != nil {
			t.Fatalf("%v in %s", err, l)
		}
		out[i] = e
	}
	return out
}

// show returns AG-UI events, one per line, without timestamps and metadata.
func show(t testing.TB, events []agui.Event) string {
	t.Helper()
	var sb strings.Builder
	for _, e := range events {
		b := *e.Common()
		*e.Common() = agui.Base{}
		raw, err := agui.AppendJSON(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		*e.Common() = b
		fmt.Fprintf(&sb, "%s\n", raw)
	}
	return sb.String()
}

// mapAll maps events and then parks, unless the run has ended.
func mapAll(m *agui.Mapper, events []message.Event) (out []agui.Event) {
	out = m.Start()
	for _, e := range events {
		out = append(out, m.Map(e)...)
	}
	return append(out, m.Park()...)
}

var modelTurn = []string{
	`{"type":"REPLY_START","session_id":"s","name":"bot"}`,
	`{"type":"MODEL_CALL_START","model_name":"big"}`,
	`{"type":"TOOL_CALL_START","tool_call_id":"c1","tool_call_name":"refund"}`,
	`{"type":"TOOL_CALL_DELTA","tool_call_id":"c1","delta":"{\"cents\":"}`,
	`{"type":"TOOL_CALL_DELTA","tool_call_id":"c1","delta":"500}"}`,
	`{"type":"TOOL_CALL_END","tool_call_id":"c1"}`,
	`{"type":"MODEL_CALL_END","input_tokens":100,"output_tokens":7,"cache_input_tokens":20}`,
}

const askRefund = `{"type":"REQUIRE_USER_CONFIRM","tool_calls":[{"id":"c1","name":"refund","input":"{\"cents\":500}","state":"asking",` +
	`"suggested_rules":[{"tool_name":"refund","rule_content":null,"behavior":"allow","source":"suggested"}]}]}`

// An approval request ends the run with an interrupt; the next run contains the result.
func TestMapperAsks(t *testing.T) {
	m := agui.NewMapper(agui.Run{ThreadID: "t", RunID: "run-1", Peer: agui.Peer10}, agui.Mapping{})
	first := mapAll(m, scope(t, append(modelTurn, askRefund)...))
	want := `{"type":"RUN_STARTED","threadId":"t","runId":"run-1","protocolVersion":"1.0"}
{"type":"STEP_STARTED","stepName":"model:1"}
{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"refund","parentMessageId":"r/c1"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"cents\":"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"500}"}
{"type":"TOOL_CALL_END","toolCallId":"c1"}
{"type":"STEP_FINISHED","stepName":"model:1"}
{"type":"RUN_FINISHED","threadId":"t","runId":"run-1","outcome":{"type":"interrupt","interrupts":[{"id":"e8/c1","reason":"tool_call","message":"Allow refund?","toolCallId":"c1",` +
		`"responseSchema":{"type":"object","properties":{"approved":{"type":"boolean"},"editedArgs":{"type":"object"},"rules":{"type":"array","items":{"type":"object"}}},"required":["approved"]},` +
		`"metadata":{"askance":{"arguments":"{\"cents\":500}","suggestedRules":[{"tool_name":"refund","rule_content":null,"behavior":"allow","source":"suggested"}],"toolCallId":"c1","toolName":"refund"}}}]},` +
		`"usage":[{"model":"big","inputTokens":100,"outputTokens":7,"cachedInputTokens":20}]}
`
	if got := show(t, first); got != want {
		t.Errorf("first run\n%s\nwant\n%s", got, want)
	}
	next := m.Next(agui.Run{ThreadID: "t", RunID: "run-2", Peer: agui.Peer10})
	second := mapAll(next, scope(t,
		`{"type":"USER_CONFIRM_RESULT","confirm_results":[{"confirmed":true,"tool_call":{"id":"c1","name":"refund","input":"{\"cents\":400}"}}]}`,
		`{"type":"TOOL_RESULT_START","tool_call_id":"c1","tool_call_name":"refund"}`,
		`{"type":"TOOL_RESULT_TEXT_DELTA","tool_call_id":"c1","delta":"do"}`,
		`{"type":"TOOL_RESULT_TEXT_DELTA","tool_call_id":"c1","delta":"ne"}`,
		`{"type":"TOOL_RESULT_END","tool_call_id":"c1","state":"success"}`,
		`{"type":"MODEL_CALL_START","model_name":"big"}`,
		`{"type":"TEXT_BLOCK_START","block_id":"b1"}`,
		`{"type":"TEXT_BLOCK_DELTA","block_id":"b1","delta":"Refunded."}`,
		`{"type":"TEXT_BLOCK_END","block_id":"b1"}`,
		`{"type":"MODEL_CALL_END","input_tokens":120,"output_tokens":3}`,
		`{"type":"REPLY_END","session_id":"s"}`,
	))
	want = `{"type":"RUN_STARTED","threadId":"t","runId":"run-2","protocolVersion":"1.0"}
{"type":"TOOL_CALL_RESULT","messageId":"r/c1/result","toolCallId":"c1","content":"done","role":"tool"}
{"type":"STEP_STARTED","stepName":"model:1"}
{"type":"TEXT_MESSAGE_START","messageId":"b1","role":"assistant"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"b1","delta":"Refunded."}
{"type":"TEXT_MESSAGE_END","messageId":"b1"}
{"type":"STEP_FINISHED","stepName":"model:1"}
{"type":"RUN_FINISHED","threadId":"t","runId":"run-2","outcome":{"type":"success"},"usage":[{"model":"big","inputTokens":120,"outputTokens":3}]}
`
	if got := show(t, second); got != want {
		t.Errorf("second run\n%s\nwant\n%s", got, want)
	}
	verified(t, true, first, second)
}

// verified checks streams of one thread, run after run.
func verified(t testing.TB, strict bool, runs ...[]agui.Event) {
	t.Helper()
	v := aguitest.Verifier{Strict: strict}
	for _, run := range runs {
		for _, e := range run {
			if err := v.Check(e); err != nil {
				t.Fatalf("%v\n%s", err, show(t, run))
			}
		}
		if err := v.Close(); err != nil {
			t.Fatalf("%v\n%s", err, show(t, run))
		}
	}
}

// The rows of the table that the other tests do not cover.
func TestMapperRows(t *testing.T) {
	tests := []struct {
		name   string
		run    agui.Run
		events []string
		want   string // without RUN_STARTED
	}{
		{
			"thinking", agui.Run{Peer: agui.Peer10}, []string{`{"type":"THINKING_BLOCK_START","block_id":"b"}`, `{"type":"THINKING_BLOCK_DELTA","block_id":"b","delta":"hm"}`, `{"type":"THINKING_BLOCK_END","block_id":"b"}`, `{"type":"REPLY_END","session_id":"s"}`},
			`{"type":"REASONING_START","messageId":"b"}
{"type":"REASONING_MESSAGE_START","messageId":"b","role":"reasoning"}
{"type":"REASONING_MESSAGE_CONTENT","messageId":"b","delta":"hm"}
{"type":"REASONING_MESSAGE_END","messageId":"b"}
{"type":"REASONING_END","messageId":"b"}
{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"success"}}
`,
		},
		{
			"data", agui.Run{Peer: agui.Peer10}, []string{`{"type":"DATA_BLOCK_START","block_id":"b","media_type":"image/png"}`, `{"type":"DATA_BLOCK_DELTA","block_id":"b","data":"aGk=","media_type":"image/png"}`, `{"type":"DATA_BLOCK_DELTA","block_id":"b","data":"IQ==","media_type":"image/png"}`, `{"type":"DATA_BLOCK_END","block_id":"b"}`, `{"type":"REPLY_END","session_id":"s"}`},
			`{"type":"ACTIVITY_SNAPSHOT","messageId":"b","activityType":"agentscope.data","content":{"data":"aGkh","mediaType":"image/png"}}
{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"success"}}
`,
		},
		{
			"hint", agui.Run{Peer: agui.Peer10}, []string{`{"type":"HINT_BLOCK","block_id":"b","source":"team","hint":"hurry"}`, `{"type":"HINT_BLOCK","block_id":"d","hint":[{"type":"text","text":"x","id":"i","created_at":"t"}]}`, `{"type":"REPLY_END","session_id":"s"}`},
			`{"type":"ACTIVITY_SNAPSHOT","messageId":"b","activityType":"agentscope.hint","content":{"hint":"hurry","source":"team"}}
{"type":"ACTIVITY_SNAPSHOT","messageId":"d","activityType":"agentscope.hint","content":{"hint":[{"type":"text","text":"x","id":"i","created_at":"t","finished_at":null}]}}
{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"success"}}
`,
		},
		{
			"custom and unknown", agui.Run{Peer: agui.Peer10}, []string{`{"type":"CUSTOM","name":"x","value":{"a":1}}`, `{"type":"NEW_THING","b":2}`, `{"type":"REPLY_END","session_id":"s"}`},
			`{"type":"CUSTOM","name":"agentscope.x","value":{"a":1}}
{"type":"RAW","event":{"id":"e2","created_at":"2026-03-01T09:00:01","reply_id":"r","type":"NEW_THING","b":2},"source":"agentscope"}
{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"success"}}
`,
		},
		{
			"result with media", agui.Run{Peer: agui.Peer10, Calls: map[string]bool{"c": false}}, resultWithMedia,
			`{"type":"TOOL_CALL_RESULT","messageId":"r/c/result","toolCallId":"c","content":[{"type":"text","text":"see"},{"type":"image","id":"d1","source":{"type":"data","value":"AA==","mimeType":"image/png"}},{"type":"document","id":"d2","source":{"type":"url","value":"https://x.test/a","mimeType":"application/pdf"}}],"role":"tool"}
{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"success"}}
`,
		},
		{
			"result with media to an old peer", agui.Run{Calls: map[string]bool{"c": false}}, resultWithMedia,
			`{"type":"TOOL_CALL_RESULT","messageId":"r/c/result","toolCallId":"c","content":"see","role":"tool"}
{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"success"}}
`,
		},
		{
			"the client's own tool", agui.Run{Peer: agui.Peer10, ClientTools: map[string]bool{"pick": true}}, []string{requirePick},
			`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"pick","parentMessageId":"r/c"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}"}
{"type":"TOOL_CALL_END","toolCallId":"c"}
{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"success","pendingToolCallIds":["c"]}}
`,
		},
		{
			"the client's own tool, old peer", agui.Run{ClientTools: map[string]bool{"pick": true}, Calls: map[string]bool{"c": false}}, []string{requirePick},
			`{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"success"}}
`,
		},
		{
			"a worker's tool", agui.Run{RunID: "run", Peer: agui.Peer10, Calls: map[string]bool{"c": false}}, []string{requirePick},
			`{"type":"RUN_FINISHED","threadId":"","runId":"run","outcome":{"type":"interrupt","interrupts":[{"id":"run/c/running","reason":"askance:external_execution","message":"The tool is still running. Continue?","toolCallId":"c"}]}}
`,
		},
		{
			"a result that the client gave itself", agui.Run{Peer: agui.Peer10, Calls: map[string]bool{"c": true}}, resultWithMedia,
			`{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"success"}}
`,
		},
		{
			"a result from outside", agui.Run{Peer: agui.Peer10, Calls: map[string]bool{"c": false}}, []string{`{"type":"EXTERNAL_EXECUTION_RESULT","execution_results":[{"id":"c","name":"pick","output":"ok","state":"success"}]}`, `{"type":"REPLY_END","session_id":"s"}`},
			`{"type":"TOOL_CALL_RESULT","messageId":"r/c/result","toolCallId":"c","content":"ok","role":"tool"}
{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"success"}}
`,
		},
		{
			"interrupted", agui.Run{Peer: agui.Peer10}, []string{`{"type":"TEXT_BLOCK_START","block_id":"b"}`, `{"type":"USER_INTERRUPT"}`, `{"type":"REPLY_END","session_id":"s","finished_reason":"interrupted"}`},
			`{"type":"TEXT_MESSAGE_START","messageId":"b","role":"assistant"}
{"type":"TEXT_MESSAGE_END","messageId":"b"}
{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"cancelled"}}
`,
		},
		{
			"interrupted, old peer", agui.Run{}, []string{`{"type":"REPLY_END","session_id":"s","finished_reason":"interrupted"}`},
			`{"type":"RUN_ERROR","message":"the run was cancelled","code":"cancelled"}
`,
		},
		{
			"interrupted by an old peer that waits", agui.Run{Abandons: true}, []string{`{"type":"USER_INTERRUPT"}`, `{"type":"REPLY_END","session_id":"s","finished_reason":"interrupted"}`},
			`{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"success"}}
`,
		},
		{
			"limit", agui.Run{Peer: agui.Peer10}, []string{`{"type":"EXCEED_MAX_ITERS","name":"bot"}`, `{"type":"REPLY_END","session_id":"s","finished_reason":"exceed_max_iters"}`},
			`{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"cancelled"}}
`,
		},
		{
			"limit, old peer", agui.Run{}, []string{`{"type":"REPLY_END","session_id":"s","finished_reason":"exceed_max_iters"}`},
			`{"type":"RUN_ERROR","message":"the agent reached its limit of rounds","code":"exceed_max_iters"}
`,
		},
		{
			"error", agui.Run{}, []string{`{"type":"REPLY_END","session_id":"s","finished_reason":"error","error":{"type":"rate_limit","message":"slow down"}}`},
			`{"type":"RUN_ERROR","message":"slow down","code":"rate_limit"}
`,
		},
		{
			"ended too early", agui.Run{}, []string{`{"type":"TEXT_BLOCK_START","block_id":"b"}`},
			`{"type":"TEXT_MESSAGE_START","messageId":"b","role":"assistant"}
{"type":"RUN_ERROR","message":"the run ended before its reply","code":"not_parked"}
`,
		},
		{
			"ids that serve twice", agui.Run{Peer: agui.Peer10}, []string{`{"type":"TEXT_BLOCK_START","block_id":"b"}`, `{"type":"THINKING_BLOCK_START","block_id":"b"}`, `{"type":"TEXT_BLOCK_START","block_id":"b"}`, `{"type":"REPLY_END","session_id":"s"}`},
			`{"type":"TEXT_MESSAGE_START","messageId":"b","role":"assistant"}
{"type":"REASONING_START","messageId":"b/thinking"}
{"type":"REASONING_MESSAGE_START","messageId":"b/thinking","role":"reasoning"}
{"type":"REASONING_MESSAGE_END","messageId":"b/thinking"}
{"type":"REASONING_END","messageId":"b/thinking"}
{"type":"TEXT_MESSAGE_END","messageId":"b"}
{"type":"RUN_FINISHED","threadId":"","runId":"","outcome":{"type":"success"}}
`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := mapAll(agui.NewMapper(tt.run, agui.Mapping{}), scope(t, tt.events...))
			if got := show(t, out[1:]); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			verified(t, false, out)
		})
	}
}

const requirePick = `{"type":"REQUIRE_EXTERNAL_EXECUTION","tool_calls":[{"id":"c","name":"pick","input":"{}"}]}`

var resultWithMedia = []string{
	`{"type":"TOOL_RESULT_START","tool_call_id":"c","tool_call_name":"pick"}`,
	`{"type":"TOOL_RESULT_TEXT_DELTA","tool_call_id":"c","delta":"see"}`,
	`{"type":"TOOL_RESULT_DATA_DELTA","tool_call_id":"c","block_id":"d1","media_type":"image/png","data":"AA=="}`,
	`{"type":"TOOL_RESULT_DATA_DELTA","tool_call_id":"c","block_id":"d2","media_type":"application/pdf","url":"https://x.test/a"}`,
	`{"type":"TOOL_RESULT_END","tool_call_id":"c","state":"success"}`,
	`{"type":"REPLY_END","session_id":"s"}`,
}

// If another reply in the thread used the id of a call, the client sees a different id. The
// answer and the result still find the call.
func TestMapperCallIDsOfAnotherReply(t *testing.T) {
	run := agui.Run{ThreadID: "t", RunID: "2", Peer: agui.Peer10, Calls: map[string]bool{"c1": true}, ClientTools: map[string]bool{"pick": true}}
	m := agui.NewMapper(run, agui.Mapping{})
	events := scope(t, append(slices.Clip(modelTurn), askRefund, strings.Replace(requirePick, `"c"`, `"c1"`, 1), askRefund)...)
	out := mapAll(m, events[:8])
	end, ok := out[len(out)-1].(*agui.RunFinished)
	if !ok || *end.Outcome.Interrupts[0].ToolCallID != "r/c1" {
		t.Fatalf("ended with\n%s", show(t, out))
	}
	verified(t, true, out)
	answers, err := agui.Thread{Open: end.Outcome.Interrupts}.Resume([]agui.ResumeEntry{resolved(end.Outcome.Interrupts[0].ID, yes)}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(answers.Answers[0].Interrupt.Metadata); !strings.Contains(got, `"toolCallId":"c1"`) {
		t.Errorf("the answer is about %s", got)
	}
	for _, e := range out {
		if start, ok := e.(*agui.ToolCallStart); ok && !strings.Contains(string(start.Metadata), `"toolCallId":"c1"`) {
			t.Errorf("the metadata %s does not name the call", start.Metadata)
		}
	}
	run.RunID, run.Calls = "3", map[string]bool{"c1": true, "r/c1": false}
	next := m.Next(run)
	next.Map(events[8])
	if p := next.Pending(); p["r/c1"].ID != "c1" || p["r/c1"].Name != "pick" {
		t.Errorf("pending %v", p)
	}
	last := mapAll(next, scope(t, `{"type":"TOOL_RESULT_END","tool_call_id":"c1","state":"success"}`))
	if s := show(t, last); !strings.Contains(s, `"TOOL_CALL_RESULT","messageId":"r/c1/result","toolCallId":"r/c1"`) {
		t.Errorf("the result went to\n%s", s)
	}
}

// Calls of a round have that round's text as parent. A later round has its own parent, so the
// history that is sent back is in order.
func TestMapperParents(t *testing.T) {
	out := mapAll(agui.NewMapper(agui.Run{Peer: agui.Peer10}, agui.Mapping{}), scope(t,
		`{"type":"MODEL_CALL_START","model_name":"m"}`,
		`{"type":"TEXT_BLOCK_START","block_id":"b1"}`, `{"type":"TEXT_BLOCK_END","block_id":"b1"}`,
		`{"type":"TOOL_CALL_START","tool_call_id":"c1","tool_call_name":"n"}`, `{"type":"TOOL_CALL_END","tool_call_id":"c1"}`,
		`{"type":"TOOL_CALL_START","tool_call_id":"c2","tool_call_name":"n"}`,
		`{"type":"TOOL_RESULT_START","tool_call_id":"c1","tool_call_name":"n"}`, `{"type":"TOOL_RESULT_END","tool_call_id":"c1","state":"denied"}`,
		`{"type":"TOOL_CALL_START","tool_call_id":"c3","tool_call_name":"n"}`,
		`{"type":"TOOL_CALL_START","tool_call_id":"c4","tool_call_name":"n"}`,
		`{"type":"REPLY_END","session_id":"s"}`,
	))
	verified(t, true, out)
	var got []string
	for _, e := range out {
		if c, ok := e.(*agui.ToolCallStart); ok {
			got = append(got, c.ToolCallID+" in "+*c.ParentMessageID)
		}
	}
	if want := "c1 in b1, c2 in b1, c3 in r/c3, c4 in r/c3"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
}

// Values without an AG-UI member are in the metadata, and times are in milliseconds.
func TestMapperMetadata(t *testing.T) {
	e := &message.TextBlockStart{EventHeader: message.EventHeader{
		ID: "e", CreatedAt: "2026-03-01T10:00:00.001", Reply: "r",
		Metadata: map[string]any{"k": nil, "agentscope": 1, "ag-ui": 2},
	}, BlockID: "b"}
	out := agui.NewMapper(agui.Run{}, agui.Mapping{}).Map(e)
	got, err := agui.AppendJSON(nil, out[1])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"TEXT_MESSAGE_START","messageId":"b","role":"assistant","timestamp":1772359200001,"metadata":{"agentscope":{"eventId":"e"},"k":null}}`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// For any events in any order, the client accepts the stream: it can be encoded, verifies, and
// has an end.
func TestMapperNeverBreaksTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := agui.Run{ThreadID: "t", RunID: "1", Peer: rapid.SampledFrom([]agui.Peer{agui.PeerLegacy, agui.Peer10}).Draw(t, "peer"), ClientTools: map[string]bool{"a": rapid.Bool().Draw(t, "client tool")}}
		m := agui.NewMapper(run, agui.Mapping{})
		var all []agui.Event
		for i := range rapid.IntRange(1, 3).Draw(t, "runs") {
			if i > 0 {
				run.RunID += "1"
				m = m.Next(run)
			}
			for range rapid.IntRange(0, 25).Draw(t, "events") {
				all = append(all, m.Map(drawScope(t))...)
			}
			all = append(all, m.Park(&agui.StateSnapshot{Snapshot: message.RawJSON("{}")})...)
		}
		loose, strict := aguitest.Verifier{}, aguitest.Verifier{Strict: true}
		shown := map[string]bool{}
		for _, e := range all {
			reshown(e, shown)
			raw, err := agui.AppendJSON(nil, e)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := aguitest.DecodeEvent(raw); err != nil {
				t.Fatal(err)
			}
			if err := loose.Check(e); err != nil {
				t.Fatal(err)
			}
			if r, ok := e.(*agui.ToolCallResult); ok {
				strict.Seed([]agui.Message{{Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: r.ToolCallID}}}}) // made in an earlier run
			}
			if err := strict.Check(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := loose.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// reshown gives new ids to interrupts that an earlier run has already shown and that are still
// open. To Next such a request is the same, but to the verifier it is a duplicate.
func reshown(e agui.Event, shown map[string]bool) {
	f, ok := e.(*agui.RunFinished)
	if !ok || f.Outcome == nil {
		return
	}
	f.Outcome.Interrupts = slices.Clone(f.Outcome.Interrupts)
	now := map[string]bool{}
	for i := range f.Outcome.Interrupts {
		id := &f.Outcome.Interrupts[i].ID
		now[*id] = true
		if shown[*id] {
			*id += "/shown in " + f.RunID
		}
	}
	maps.Copy(shown, now)
}

// drawScope draws any AgentScope event with few different ids.
func drawScope(t *rapid.T) message.Event {
	id, text := fewIDs.Draw(t, "id"), rapid.SampledFrom([]string{"", "x", "\u2028é"}).Draw(t, "text")
	h := message.EventHeader{ID: rapid.SampledFrom([]string{"", "e1", "e2"}).Draw(t, "event"), CreatedAt: rapid.SampledFrom([]string{"", "2026-03-01T09:00:00", "soon"}).Draw(t, "at"), Reply: rapid.SampledFrom([]message.ReplyID{"r", "r", "r", "q", ""}).Draw(t, "reply")}
	call, block := message.CallID(id), message.ToolCallBlock{ID: message.CallID(id), Name: id, Input: text}
	kinds := []message.Event{
		&message.ReplyStart{EventHeader: h}, &message.ModelCallStart{EventHeader: h, ModelName: text}, &message.ModelCallEnd{EventHeader: h, InputTokens: 3, CacheInputTokens: 2, OutputTokens: -1},
		&message.TextBlockStart{EventHeader: h, BlockID: id}, &message.TextBlockDelta{EventHeader: h, BlockID: id, Delta: text}, &message.TextBlockEnd{EventHeader: h, BlockID: id},
		&message.ThinkingBlockStart{EventHeader: h, BlockID: id}, &message.ThinkingBlockDelta{EventHeader: h, BlockID: id, Delta: text}, &message.ThinkingBlockEnd{EventHeader: h, BlockID: id},
		&message.DataBlockStart{EventHeader: h, BlockID: id, MediaType: "image/png"}, &message.DataBlockDelta{EventHeader: h, BlockID: id, Data: "AA=="}, &message.DataBlockDelta{EventHeader: h, BlockID: id, Data: "A"}, &message.DataBlockEnd{EventHeader: h, BlockID: id},
		&message.HintBlockEvent{EventHeader: h, BlockID: id, Hint: message.Content{Text: text}},
		&message.ToolCallStart{EventHeader: h, ToolCallID: call, ToolCallName: id}, &message.ToolCallDelta{EventHeader: h, ToolCallID: call, Delta: text}, &message.ToolCallEnd{EventHeader: h, ToolCallID: call},
		&message.ToolResultStart{EventHeader: h, ToolCallID: call, ToolCallName: id}, &message.ToolResultTextDelta{EventHeader: h, ToolCallID: call, Delta: text},
		&message.ToolResultDataDelta{EventHeader: h, ToolCallID: call, BlockID: id, MediaType: "audio/mp3", Data: &text}, &message.ToolResultEnd{EventHeader: h, ToolCallID: call, State: message.ToolResultDenied},
		&message.ExceedMaxIters{EventHeader: h, Name: id}, &message.UserInterrupt{EventHeader: h}, &message.Custom{EventHeader: h, Name: id},
		&message.UnknownEvent{EventHeader: h, Kind: "X", Raw: message.RawJSON(`{"type":"X"}`)},
		&message.RequireUserConfirm{EventHeader: h, ToolCalls: []message.ToolCallBlock{block, block}}, &message.RequireExternalExecution{EventHeader: h, ToolCalls: []message.ToolCallBlock{block}},
		&message.UserConfirmResult{EventHeader: h, ConfirmResults: []message.ConfirmResult{{Confirmed: text == "", ToolCall: block}}},
		&message.ExternalExecutionResult{EventHeader: h, ExecutionResults: []message.ToolResultBlock{{ID: call, Output: message.Content{Text: text}}}},
	}
	if rapid.IntRange(0, 15).Draw(t, "end") == 0 {
		return &message.ReplyEnd{EventHeader: h, FinishedReason: rapid.SampledFrom([]message.FinishedReason{"", message.FinishedInterrupted, message.FinishedError, message.FinishedExceedMaxIters}).Draw(t, "reason")}
	}
	return rapid.SampledFrom(kinds).Draw(t, "event")
}
