package blockstream_test

import (
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/message/blockstream/blocktest"
	"github.com/askance-dev/askance/toolcall"
)

// shown maps a script and returns its frames as text.
func shown(t *testing.T, s *script, change ...func(*blockstream.Config)) string {
	t.Helper()
	return lines(t, run(t, newMapper(t, change...), s.out))
}

func has(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, w := range wants {
		if !strings.Contains(text, w) {
			t.Errorf("no %s in\n%s", w, text)
		}
	}
}

func hasNot(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, w := range wants {
		if strings.Contains(text, w) {
			t.Errorf("%s in\n%s", w, text)
		}
	}
}

// deviations has a check for every row of the table in the package documentation.
var deviations = map[int]func(*testing.T){
	1: func(t *testing.T) { hasNot(t, shown(t, on("r1").start()), "friday", "assistant") },
	2: func(t *testing.T) { hasNot(t, shown(t, on("r1").start().text("block-7", "x")), "block-7", "2023") },
	3: func(t *testing.T) {
		s := on("r1").start()
		for _, id := range []string{"a", "b"} {
			s.add(&message.TextBlockStart{EventHeader: s.head(), BlockID: id})
		}
		for _, id := range []string{"a", "b", "a"} {
			s.add(&message.TextBlockDelta{EventHeader: s.head(), BlockID: id, Delta: id})
		}
		if got := shown(t, s); strings.Count(got, `"type":"text","text":""`) != 3 {
			t.Error(got)
		}
	},
	4: func(t *testing.T) { hasNot(t, shown(t, on("r1").start().text("t", "").think()), "content_block") },
	5: func(t *testing.T) {
		s := on("r1").start().text("t", "x").think("y")
		has(t, shown(t, s), `"index":1,"content_block":{"type":"thinking"`)
		hasNot(t, shown(t, s, func(c *blockstream.Config) { c.DisplayMode = blockstream.ModeChat }), "thinking")
	},
	6: func(t *testing.T) {
		hasNot(t, shown(t, on("r1").start().call("c", "t", `{"a":1}`).result("c", "t", message.ToolResultSuccess)), "content_block_delta")
	},
	7: func(t *testing.T) {
		s := on("r1").start().call("c", "t", `{"a":1}`)
		hasNot(t, shown(t, s), "tool_use")
		has(t, shown(t, s.add(&message.ToolResultStart{EventHeader: s.head(), ToolCallID: "c", ToolCallName: "t"})), `"type":"tool_use"`)
		has(t, shown(t, on("r1").start().call("c", "t", `{}`).end(message.FinishedCompleted, nil)), `"type":"tool_use"`)
		r, d := newReact(), newDart() // if a delta comes in between, one client loses the result and the other does not
		feed(t, r, useThenDelta())
		feed(t, d, useThenDelta())
		if d.rangeErrors != 1 || r.of("tool_use")[0]["toolResult"] != "x" {
			t.Errorf("dart %d, react %v", d.rangeErrors, r.blocks)
		}
	},
	8: func(t *testing.T) {
		for _, input := range []string{`{"a":`, `[]`, strings.Repeat(`{"a":`, 57) + `1` + strings.Repeat(`}`, 57), `{"a":"` + strings.Repeat("x", 256<<10) + `"}`} {
			got := shown(t, on("r1").start().call("c", "t", input).result("c", "t", message.ToolResultError))
			has(t, got, `"input":{}`, `"tool_content_message":"t: `+strings.ReplaceAll(input[:min(5, len(input))], `"`, `\"`)[:2])
		}
	},
	9: func(t *testing.T) {
		_, err := newMapper(t).Event(&message.RequireUserConfirm{ToolCalls: []message.ToolCallBlock{{ID: "c", Input: "no"}}})
		if !errors.Is(err, blockstream.ErrUnshowable) {
			t.Error(err)
		}
	},
	10: func(t *testing.T) {
		got := shown(t, on("r1").start().call("c", "t", `{}`).call("c", "u", `{}`).result("c", "t", message.ToolResultSuccess).end("completed", nil))
		if strings.Count(got, `"type":"tool_use"`) != 1 {
			t.Error(got)
		}
	},
	11: func(t *testing.T) {
		s := on("r1").start().call("c", "t", `{}`)
		s.add(&message.ToolResultStart{EventHeader: s.head(), ToolCallID: "c", ToolCallName: "t"})
		s.add(&message.ToolResultTextDelta{EventHeader: s.head(), ToolCallID: "c", Delta: "half"})
		hasNot(t, shown(t, s), "tool_result", "half")
	},
	12: func(t *testing.T) {
		got := shown(t, on("r1").start().call("c", "t", `{}`).result("c", "t", message.ToolResultSuccess, strings.Repeat("x", 500)+"rest"))
		has(t, got, `"characters":504,"truncated":true`)
		hasNot(t, got, "rest")
	},
	13: func(t *testing.T) {
		s := on("r1").start().call("c", "t", `{}`)
		s.add(&message.ToolResultStart{EventHeader: s.head(), ToolCallID: "c", ToolCallName: "t"})
		data, url := "QUJD", "https://example.com/a.png"
		s.add(&message.ToolResultTextDelta{EventHeader: s.head(), ToolCallID: "c", Delta: "before"})
		s.add(&message.ToolResultDataDelta{EventHeader: s.head(), ToolCallID: "c", MediaType: "image/png", Data: &data})
		s.add(&message.ToolResultDataDelta{EventHeader: s.head(), ToolCallID: "c", MediaType: "image/png", URL: &url})
		s.add(&message.ToolResultTextDelta{EventHeader: s.head(), ToolCallID: "c", Delta: "af"})
		s.add(&message.ToolResultTextDelta{EventHeader: s.head(), ToolCallID: "c", Delta: "ter"})
		got := shown(t, s.add(&message.ToolResultEnd{EventHeader: s.head(), ToolCallID: "c", State: message.ToolResultSuccess}))
		has(t, got, `"content":"before\nafter"`, `"data":[{"media_type":"image/png"},{"media_type":"image/png","url":"https://example.com/a.png"}]`)
		hasNot(t, got, data)
	},
	14: func(t *testing.T) {
		for _, s := range []message.ToolResultState{message.ToolResultDenied, message.ToolResultInterrupted, message.ToolResultError} {
			has(t, shown(t, on("r1").start().call("c", "t", `{}`).result("c", "t", s)), `"status":"error"`)
		}
	},
	15: func(t *testing.T) {
		s := on("r1").start().call("c", "t", `{}`).result("c", "t", message.ToolResultSuccess)
		for _, e := range s.out {
			e.Header().Metadata = map[string]any{"secret": "x"}
		}
		hasNot(t, shown(t, s), "secret")
	},
	16: func(t *testing.T) {
		b := block("c", "t", `{}`)
		b.SuggestedRules = []message.PermissionRule{{ToolName: "t", Behavior: message.BehaviorAllow, Source: "suggested"}}
		has(t, shown(t, on("r1").start().ask(b)), `"suggested_rules":[{"tool_name":"t","rule_content":null,"behavior":"allow","source":"suggested"}]`)
	},
	17: func(t *testing.T) {
		_, err := blockstream.DecodeCommand([]byte(`{"type":"approval","decisions":[{"type":"approve","rules":[]}]}`))
		if !errors.Is(err, message.ErrInvalid) {
			t.Error(err)
		}
		s := on("r1").start().ask(block("c", "t", `{}`)).confirm(true, block("c", "t", `{}`))
		s.out[len(s.out)-1].(*message.UserConfirmResult).ConfirmResults[0].Rules = []message.PermissionRule{{ToolName: "kept"}}
		hasNot(t, shown(t, s), "kept")
	},
	18: func(t *testing.T) {
		m := newMapper(t)
		run(t, m, on("r1").start().ask(block("c", "t", `{}`)).out)
		_, err := m.Responses(&blockstream.Approval{Decisions: []blockstream.Decision{{Type: "edit", Edited: &blockstream.EditedAction{Name: "u", Args: message.RawJSON(`{}`)}}}})
		if !errors.Is(err, blockstream.ErrDecisions) {
			t.Error(err)
		}
	},
	19: func(t *testing.T) {
		m := newMapper(t)
		s := on("r1").start().ask(block("c", "t", `{}`))
		run(t, m, s.out)
		a, err := m.Responses(&blockstream.Approval{Decisions: []blockstream.Decision{{Type: "respond", Message: "42"}}})
		if err != nil || a[0].Kind != toolcall.ResponseRespond {
			t.Errorf("%+v %v", a, err)
		}
		has(t, shown(t, s.confirm(true, block("c", "t", `{}`))), `"decisions":[{"type":"approve"`)
	},
	20: func(t *testing.T) {
		s := on("r1").start()
		has(t, shown(t, s.add(&message.RequireExternalExecution{EventHeader: s.head(), ToolCalls: []message.ToolCallBlock{block("c", "t", `{}`)}})), `"type":"tool_use","id":"c"`)
	},
	21: func(t *testing.T) {
		s := on("r1").start()
		skipped := 0
		for _, e := range []message.Event{
			&message.DataBlockStart{}, &message.DataBlockDelta{}, &message.DataBlockEnd{}, &message.HintBlockEvent{}, &message.Custom{}, &message.UnknownEvent{Kind: "NEW"},
			&message.ModelCallStart{}, &message.ModelCallEnd{}, &message.ExceedMaxIters{}, &message.UserInterrupt{},
		} {
			*e.Header() = s.head()
			s.add(e)
		}
		hasNot(t, shown(t, s, func(c *blockstream.Config) { c.OnSkip = func(message.Event, string) { skipped++ } }), "content_block")
		if skipped != 6 {
			t.Errorf("%d losses were reported", skipped)
		}
	},
	22: func(t *testing.T) {
		for _, r := range []message.FinishedReason{"completed", "interrupted", "error", "exceed_max_iters"} {
			has(t, shown(t, on("r1").start().end(r, nil)), `"stop_reason":"end_turn"`)
		}
		hasNot(t, shown(t, on("r1").start().end("exceed_max_iters", nil)), "content_block")
	},
	23: func(t *testing.T) {
		has(t, shown(t, on("r1").start().end("error", &message.ErrorInfo{Type: message.ErrorSetup, Message: "m"})), `"code":"LLM_ERROR","can_retry":false`)
	},
	24: func(t *testing.T) {
		s := on("r1").start()
		s.out = append(s.out, on("r2").start().out...)
		s.text("t", "late").ask(block("c", "t", `{}`))
		got := shown(t, s)
		has(t, got, "message_stop", "approval_request")
		hasNot(t, got, "late")
	},
	25: func(t *testing.T) {
		has(t, shown(t, on("r1").ask(block("c", "t", `{}`))), "message_start", "approval_request")
		s := on("r1").start()
		s.out = append(s.out, on("r2").text("t", "x").out...)
		if got := shown(t, s); strings.Count(got, "message_start") != 2 || strings.Count(got, "message_stop") != 1 {
			t.Error(got)
		}
	},
	26: func(t *testing.T) {
		has(t, shown(t, on("r1").start(), func(c *blockstream.Config) { c.Location = time.FixedZone("x", 3600) }), `"timestamp":1699996401.0`)
		s := on("r1").start().end("completed", nil)
		s.out[0].Header().CreatedAt = "yesterday"
		has(t, shown(t, s), `"timestamp":0.0`, `"duration_ms":0`)
		s.out[0].Header().CreatedAt = "2023-11-14T23:13:21+01:00"
		has(t, shown(t, s), `"timestamp":1700000001.0`, `"duration_ms":1000`)
	},
	27: func(t *testing.T) {
		a, b := newMapper(t), newMapper(t)
		run(t, a, on("r1").start().ask(block("c", "t", `{}`)).out)
		run(t, b, on("r1").start().ask(block("c", "t", `{"x":1}`)).out)
		if a.Open()[0].Key == b.Open()[0].Key {
			t.Error("another approval request has the same key")
		}
	},
	28: func(t *testing.T) { hasNot(t, shown(t, on("r1").start().ask(block("c", "t", `{}`))), "timeout") },
	29: func(t *testing.T) {
		s := on("r1").start().ask(block("a", "t", `{}`), block("b", "t", `{}`)).confirm(true, block("a", "t", `{}`))
		hasNot(t, shown(t, s), "approval_result")
		s.result("b", "t", message.ToolResultInterrupted)
		has(t, shown(t, s), `"decisions":[{"type":"approve","tool_use_id":"a","decided_at":"2023-11-14T22:13:23"},{"type":"reject","tool_use_id":"b"`)
	},
	30: func(t *testing.T) {
		s := on("r1").start().ask(block("c", "t", `{}`)).end("completed", nil).confirm(true, block("c", "t", `{}`))
		hasNot(t, shown(t, s), "approval_result")
	},
	31: func(t *testing.T) {
		m := newMapper(t)
		run(t, m, on("r1").start().ask(block("a", "t", `{}`)).ask(block("b", "t", `{}`)).out)
		if _, err := m.Responses(&blockstream.Approval{Decisions: []blockstream.Decision{{Type: "approve"}}}); !errors.Is(err, blockstream.ErrWhichApproval) {
			t.Error(err)
		}
	},
	32: func(t *testing.T) {
		if _, err := blockstream.DecodeCommand([]byte(`{"type":"approval","decisions":["approve"],"x":1}`)); err == nil {
			t.Error("an unknown member in an approval is accepted")
		}
		if _, err := blockstream.DecodeCommand([]byte(`{"type":"ping","x":1}`)); err != nil {
			t.Error(err)
		}
		if _, err := blockstream.DecodeCommand([]byte(`{"type":"pong2"}`)); !errors.Is(err, blockstream.ErrUnknownCommand) {
			t.Error(err)
		}
	},
	33: func(t *testing.T) {
		f, err := blocktest.DecodeFrame([]byte(`{"type":"content_block_stop","index":0,"is_final":null}`))
		if err != nil {
			t.Fatal(err)
		}
		if raw, _ := blockstream.AppendFrame(nil, f); string(raw) != `{"type":"content_block_stop","index":0}` {
			t.Errorf("%s", raw)
		}
	},
	34: func(t *testing.T) {
		f := &blockstream.Pong{}
		f.Head().EventID = blockstream.Cursor{Seq: 7}.String()
		if raw, _ := blockstream.AppendFrame(nil, f); string(raw) != `{"type":"pong","event_id":"00000000000000000007-000000"}` {
			t.Errorf("%s", raw)
		}
	},
	35: func(t *testing.T) {
		for _, in := range []string{`{"type":"stop"}`, `{"type":"ping"}`, `{"type":"pong"}`, `{"type":"chat","content":"x"}`} {
			if _, err := blockstream.DecodeCommand([]byte(in)); err != nil {
				t.Error(err)
			}
		}
	},
}

// useThenDelta shows a call before the approval request about it, as in the order of AgentScope's
// events.
func useThenDelta() []blockstream.Frame {
	return []blockstream.Frame{
		&blockstream.MessageStart{DisplayMode: blockstream.ModeAgent},
		&blockstream.BlockStart{Index: 0, Block: &blockstream.ToolUse{ID: "w"}},
		&blockstream.BlockStop{Index: 0},
		&blockstream.BlockStart{Index: 1, Block: &blockstream.ToolUse{ID: "c"}},
		&blockstream.BlockStop{Index: 1},
		&blockstream.BlockStart{Index: 2, Block: &blockstream.Text{}},
		&blockstream.BlockDelta{Index: 2, Delta: &blockstream.TextDelta{Text: "x"}},
		&blockstream.BlockStart{Index: 3, Block: &blockstream.ToolResult{ToolUseID: "c", Status: blockstream.ResultSuccess, Content: "x"}},
		&blockstream.BlockStop{Index: 3},
		&blockstream.BlockStart{Index: 4, Block: &blockstream.ToolResult{ToolUseID: "w", Status: blockstream.ResultSuccess, Content: "x"}},
		&blockstream.BlockStop{Index: 4},
	}
}

var row = regexp.MustCompile(`(?m)^//\t ?([0-9]+)  `)

func TestEveryDeviationIsTested(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := row.FindAllStringSubmatch(string(doc), -1)
	if len(rows) != len(deviations) {
		t.Errorf("%d rows, %d tests", len(rows), len(deviations))
	}
	for i, r := range rows {
		n, _ := strconv.Atoi(r[1])
		if n != i+1 || deviations[n] == nil {
			t.Errorf("row %d is numbered %d, test %v", i+1, n, deviations[n] != nil)
			continue
		}
		t.Run("row "+r[1], deviations[n])
	}
}
