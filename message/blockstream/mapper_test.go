package blockstream_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/message/blockstream/blocktest"
	"github.com/askance-dev/askance/toolcall"
	"github.com/google/go-cmp/cmp"
)

// script creates events of one reply, one second apart.
type script struct {
	reply message.ReplyID
	n     int
	out   []message.Event
}

func on(reply message.ReplyID) *script { return &script{reply: reply} }

func (s *script) head() message.EventHeader {
	s.n++
	return message.EventHeader{
		ID: string(s.reply) + "-e" + string(rune('a'+s.n)), Reply: s.reply,
		CreatedAt: message.Timestamp(time.Unix(1_700_000_000+int64(s.n), 0).UTC()),
	}
}

func (s *script) add(e message.Event) *script { s.out = append(s.out, e); return s }

func (s *script) start() *script {
	return s.add(&message.ReplyStart{EventHeader: s.head(), Session: "s_1", Name: "friday", Role: message.RoleAssistant})
}

func (s *script) end(reason message.FinishedReason, err *message.ErrorInfo) *script {
	return s.add(&message.ReplyEnd{EventHeader: s.head(), Session: "s_1", FinishedReason: reason, Error: err})
}

func (s *script) text(id string, deltas ...string) *script {
	s.add(&message.TextBlockStart{EventHeader: s.head(), BlockID: id})
	for _, d := range deltas {
		s.add(&message.TextBlockDelta{EventHeader: s.head(), BlockID: id, Delta: d})
	}
	return s.add(&message.TextBlockEnd{EventHeader: s.head(), BlockID: id})
}

func (s *script) think(deltas ...string) *script {
	const id = "h"
	s.add(&message.ThinkingBlockStart{EventHeader: s.head(), BlockID: id})
	for _, d := range deltas {
		s.add(&message.ThinkingBlockDelta{EventHeader: s.head(), BlockID: id, Delta: d})
	}
	return s.add(&message.ThinkingBlockEnd{EventHeader: s.head(), BlockID: id})
}

func (s *script) call(id message.CallID, name, input string) *script {
	s.add(&message.ToolCallStart{EventHeader: s.head(), ToolCallID: id, ToolCallName: name})
	half := len(input) / 2
	s.add(&message.ToolCallDelta{EventHeader: s.head(), ToolCallID: id, Delta: input[:half]})
	s.add(&message.ToolCallDelta{EventHeader: s.head(), ToolCallID: id, Delta: input[half:]})
	return s.add(&message.ToolCallEnd{EventHeader: s.head(), ToolCallID: id})
}

func (s *script) result(id message.CallID, name string, state message.ToolResultState, text ...string) *script {
	s.add(&message.ToolResultStart{EventHeader: s.head(), ToolCallID: id, ToolCallName: name})
	for _, d := range text {
		s.add(&message.ToolResultTextDelta{EventHeader: s.head(), ToolCallID: id, Delta: d})
	}
	return s.add(&message.ToolResultEnd{EventHeader: s.head(), ToolCallID: id, State: state})
}

func block(id message.CallID, name, input string) message.ToolCallBlock {
	return message.ToolCallBlock{ID: id, Name: name, Input: input, State: message.ToolCallAsking}
}

func (s *script) ask(calls ...message.ToolCallBlock) *script {
	return s.add(&message.RequireUserConfirm{EventHeader: s.head(), ToolCalls: calls})
}

func (s *script) confirm(yes bool, calls ...message.ToolCallBlock) *script {
	e := &message.UserConfirmResult{EventHeader: s.head()}
	for _, c := range calls {
		e.ConfirmResults = append(e.ConfirmResults, message.ConfirmResult{Confirmed: yes, ToolCall: c})
	}
	return s.add(e)
}

func newMapper(t testing.TB, change ...func(*blockstream.Config)) *blockstream.Mapper {
	t.Helper()
	cfg := blockstream.Config{Space: "default", Session: "s_1"}
	for _, f := range change {
		f(&cfg)
	}
	m, err := blockstream.NewMapper(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func run(t testing.TB, m *blockstream.Mapper, events []message.Event) []blockstream.Frame {
	t.Helper()
	var out []blockstream.Frame
	for _, e := range events {
		frames, err := m.Event(e)
		if err != nil {
			t.Fatalf("%s: %v", e.Type(), err)
		}
		out = append(out, frames...)
	}
	return out
}

// lines returns frames as JSON without message_id, one per line.
func lines(t testing.TB, frames []blockstream.Frame) string {
	t.Helper()
	var sb strings.Builder
	var c blocktest.Checker
	for _, f := range frames {
		if err := c.Frame(f); err != nil {
			t.Errorf("%v", err)
		}
		raw, err := blockstream.AppendFrame(nil, f)
		if err != nil {
			t.Fatal(err)
		}
		back, err := blocktest.DecodeFrame(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if again, err := blockstream.AppendFrame(nil, back); err != nil || string(again) != string(raw) {
			t.Errorf("not stable: %v\n%s\n%s", err, raw, again)
		}
		if id := f.Head().MessageID; id != "" {
			raw = []byte(strings.Replace(string(raw), `,"message_id":"`+string(id)+`"`, "", 1))
		}
		sb.Write(raw)
		sb.WriteByte('\n')
	}
	return sb.String()
}

const parentless = `"subagent":null,"parent_tool_use_id":null`

func TestTurn(t *testing.T) {
	s := on("r1").start().think("look ", "up").call("c1", "search", `{"symbol": "VNM"}`)
	s.add(&message.ModelCallEnd{EventHeader: s.head()})
	s.result("c1", "search", message.ToolResultSuccess, "82,000").text("t", "It is ", "82.")
	s.add(&message.ModelCallEnd{EventHeader: s.head()})
	s.end(message.FinishedCompleted, nil)
	got := lines(t, run(t, newMapper(t), s.out))
	want := `{"type":"message_start","session_id":"s_1","timestamp":1700000001.0,"display_mode":"agent","is_new_session_from_share":false}
{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"",` + parentless + `}}
{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"look "}}
{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"up"}}
{"type":"content_block_stop","index":0}
{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c1","name":"search","tool_use_id":"c1","tool_content_message":"search","input":{"symbol": "VNM"},` + parentless + `}}
{"type":"content_block_stop","index":1}
{"type":"content_block_start","index":2,"content_block":{"type":"tool_result","tool_use_id":"c1","name":"search","status":"success","content":"82,000","artifact":null,` + parentless + `}}
{"type":"content_block_stop","index":2}
{"type":"content_block_start","index":3,"content_block":{"type":"text","text":"",` + parentless + `,"is_part":false}}
{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"It is "}}
{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"82."}}
{"type":"content_block_stop","index":3,"is_final":true}
{"type":"message_delta","delta":{"stop_reason":"end_turn"}}
{"type":"message_stop","duration_ms":18000}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func asking(t testing.TB) (*blockstream.Mapper, *script, []blockstream.Frame) {
	t.Helper()
	m := newMapper(t, func(c *blockstream.Config) {
		c.OpenRequest = func(k toolcall.Key, tool, _ string) blockstream.OpenRequest {
			return blockstream.OpenRequest{Digest: "sha256:" + string(k.Call), Text: "May " + tool + " run?", Deadline: time.Unix(1_700_000_200, 0)}
		}
		c.DecidedBy = func(toolcall.Key) string { return "ann" }
	})
	s := on("r1").start().call("c1", "trade", `{"q":1}`).call("c2", "mail", `{"to":"x"}`)
	s.ask(block("c1", "trade", `{"q":1}`), block("c2", "mail", `{"to":"x"}`))
	return m, s, run(t, m, s.out)
}

func TestApprovalFrames(t *testing.T) {
	m, s, frames := asking(t)
	open := m.Open()
	if len(open) != 1 {
		t.Fatalf("open: %+v", open)
	}
	key := open[0].Key
	number, ok := strings.CutPrefix(key, "s_1_")
	if _, err := strconv.ParseUint(number, 10, 62); !ok || err != nil {
		t.Errorf("key %q", key)
	}
	actions := `[{"name":"trade","args":{"q":1},"tool_use_id":"c1","description":"May trade run?"},{"name":"mail","args":{"to":"x"},"tool_use_id":"c2","description":"May mail run?"}]`
	configs := `[{"require_approval":true,"timeout":190},{"require_approval":true,"timeout":190}]`
	want := `{"type":"content_block_start","index":0,"content_block":{"type":"approval_request","approval_key":"` + key + `","actions":` + actions + `,"review_configs":` + configs + `}}
{"type":"content_block_delta","index":0,"delta":{"action_requests":` + actions + `,"review_configs":` + configs + `,"timeout_seconds":190}}
{"type":"content_block_stop","index":0}
`
	if _, got, _ := strings.Cut(lines(t, frames), "\n"); got != want {
		t.Error(cmp.Diff(want, got))
	}
	n := len(s.out)
	s.confirm(true, block("c1", "trade", `{"q":2}`)).confirm(false, block("c2", "mail", `{"to":"x"}`))
	s.result("c1", "trade", message.ToolResultSuccess, "done").result("c2", "mail", message.ToolResultDenied, "no")
	rest := run(t, m, s.out[n:])
	want = `{"type":"content_block_start","index":1,"content_block":{"type":"approval_result","approval_key":"` + key + `"}}
{"type":"content_block_delta","index":1,"delta":{"decisions":[{"type":"edit","tool_use_id":"c1","edited_action":{"name":"trade","args":{"q":2}},"decided_by":"ann","decided_at":"2023-11-14T22:13:31"},{"type":"reject","tool_use_id":"c2","decided_by":"ann","decided_at":"2023-11-14T22:13:32"}]}}
{"type":"content_block_stop","index":1}
{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"c1","name":"trade","tool_use_id":"c1","tool_content_message":"trade","input":{"q":2},` + parentless + `}}
`
	got := lines(t, slices.Concat(frames, rest))
	if !strings.Contains(got, want) {
		t.Errorf("got %s\nwant it to contain %s", got, want)
	}
	if len(m.Open()) != 0 {
		t.Error("the approval is still open")
	}
}

func TestExpiredApproval(t *testing.T) {
	m, s, _ := asking(t)
	key := m.Open()[0].Key
	n := len(s.out)
	s.confirm(true, block("c1", "trade", `{"q":1}`)).result("c2", "mail", message.ToolResultDenied, "expired")
	frames := run(t, m, s.out[n:])
	d := frames[1].(*blockstream.BlockDelta).Delta.(*blockstream.DecisionsDelta)
	if d.Decisions[0].Type != blockstream.DecisionApprove || d.Decisions[1].Type != blockstream.DecisionReject || d.Decisions[1].DecidedBy != "" {
		t.Errorf("%+v", d.Decisions)
	}
	_, err := m.Responses(&blockstream.Approval{Key: key, Decisions: []blockstream.Decision{{Type: "approve"}, {Type: "approve"}}})
	if !errors.Is(err, blockstream.ErrApprovalExpired) || blockstream.ErrorFrame(err, key).Code != blockstream.CodeApprovalExpired {
		t.Errorf("late answer: %v", err)
	}
}

// An event that cannot be shown changes nothing, and the stream continues.
func TestUnshowableRequest(t *testing.T) {
	for _, input := range []string{``, `[1]`, `{"a":1,"a":2}`, `{"a":`, `{"a":"` + strings.Repeat("x", 256<<10) + `"}`, strings.Repeat(`{"a":`, 60) + `1` + strings.Repeat(`}`, 60)} {
		m := newMapper(t)
		s := on("r1").start().text("t", "hi")
		run(t, m, s.out)
		frames, err := m.Event(&message.RequireUserConfirm{EventHeader: s.head(), ToolCalls: []message.ToolCallBlock{block("ok", "a", "{}"), block("c", "t", input)}})
		if !errors.Is(err, blockstream.ErrUnshowable) || !errors.Is(err, message.ErrInvalid) || frames != nil || len(m.Open()) != 0 {
			t.Errorf("%.40s: %v %v", input, frames, err)
		}
		if got := m.Close(); len(got) != 3 {
			t.Errorf("got %d frames, want the text's stop, message_delta and message_stop", len(got))
		}
	}
}

func TestTerminalBlocks(t *testing.T) {
	for _, c := range []struct {
		reason message.FinishedReason
		err    *message.ErrorInfo
		want   string
	}{
		{message.FinishedInterrupted, nil, `"extras":{"block_subtype":"user_stopped"}`},
		{message.FinishedError, &message.ErrorInfo{Type: message.ErrorRateLimit, Message: "Rate limit exceeded"}, `"extras":{"block_subtype":"error","code":"LLM_ERROR","can_retry":true,"error_type":"terminal","details":{"error":"Rate limit exceeded"}}`},
		{message.FinishedError, &message.ErrorInfo{Type: message.ErrorAuthentication, Message: "x"}, `"can_retry":false`},
		{message.FinishedError, nil, `"details":{}`},
	} {
		s := on("r1").start().text("t", "half an ans").end(c.reason, c.err)
		got := lines(t, run(t, newMapper(t), s.out))
		if !strings.Contains(got, c.want) || strings.Contains(got, "is_final") || !strings.Contains(got, "message_stop") {
			t.Errorf("%s: %s", c.reason, got)
		}
	}
}

func TestFilesStandFirst(t *testing.T) {
	m := newMapper(t)
	m.Attach([]string{"https://example.com/a.pdf"})
	got := lines(t, run(t, m, on("r1").start().text("t", "x").out))
	want := `{"type":"content_block_start","index":0,"content_block":{"type":"file_processing","status":"processing","files":[{"url":"https://example.com/a.pdf"}]}}
{"type":"content_block_delta","index":0,"delta":{"status":"completed","message":"Received 1 file"}}
{"type":"content_block_stop","index":0}
`
	if !strings.Contains(got, want) {
		t.Error(got)
	}
}

func TestCut(t *testing.T) {
	long := strings.Repeat("é", 499) + "😀" + "x"
	for _, c := range []struct {
		in, want string
		cut      bool
	}{
		{"", "", false}, {strings.Repeat("é", 500), strings.Repeat("é", 500), false},
		{long, strings.Repeat("é", 499) + "😀", true}, {strings.Repeat("a", 501), strings.Repeat("a", 500), true},
	} {
		if got, cut := blockstream.Cut(c.in); got != c.want || cut != c.cut {
			t.Errorf("%.5q…: %d bytes, %v", c.in, len(got), cut)
		}
	}
	// If streamed in pieces, the frame is the same, and the artifact contains the total length.
	s := on("r1").start().call("c", "t", "{}").result("c", "t", message.ToolResultSuccess, long[:5*2], long[5*2:], "more")
	frames := run(t, newMapper(t), s.out)
	r := frames[len(frames)-2].(*blockstream.BlockStart).Block.(*blockstream.ToolResult)
	if want, _ := blockstream.Cut(long); r.Content != want {
		t.Errorf("content %q", r.Content)
	}
	if want := `{"type":"tool_output","message_id":"r1","tool_use_id":"c","state":"success","characters":505,"truncated":true,"data":[]}`; string(r.Artifact) != want {
		t.Errorf("artifact %s", r.Artifact)
	}
}

// An open approval request of an older turn is shown to the person. Later events of that turn do
// not disturb the newer one.
func TestYoungerReply(t *testing.T) {
	m := newMapper(t)
	old, young := on("r1").start(), on("r2").start()
	frames := run(t, m, old.out)
	frames = append(frames, run(t, m, young.text("t", "hello").out)...)
	old.out = nil
	old.text("t", "late").call("c", "t", "{}").ask(block("c", "t", "{}"))
	frames = append(frames, run(t, m, old.out)...)
	old.out = nil
	old.confirm(true, block("c", "t", "{}")).result("c", "t", message.ToolResultSuccess, "x").end(message.FinishedCompleted, nil)
	frames = append(frames, run(t, m, old.out)...)
	frames = append(frames, m.Close()...)
	got := lines(t, frames)
	for want, n := range map[string]int{"message_start": 2, "message_stop": 2, "approval_request": 1, "approval_result": 1, "late": 0, "tool_use\"": 0} {
		if strings.Count(got, want) != n && !(want == "tool_use\"" && strings.Count(got, `"type":"tool_use"`) == 0) {
			t.Errorf("%d times %q, want %d:\n%s", strings.Count(got, want), want, n, got)
		}
	}
}

// Clients forget the cards at message_start, so open ones are shown again.
func TestOpenCardsOutliveTheirTurn(t *testing.T) {
	m, s, frames := asking(t)
	key := m.Open()[0].Key
	m.Attach([]string{"https://example.com/a.pdf"})
	frames = slices.Concat(frames, run(t, m, on("r2").start().text("t", "hello").out))
	r := newReact()
	feed(t, r, frames)
	if c := r.of("approval_request"); len(c) != 1 || c[0]["approval_key"] != key || c[0]["index"] != 1.0 {
		t.Errorf("%v", r.blocks)
	}
	n := len(s.out)
	s.confirm(true, block("c1", "trade", `{"q":1}`), block("c2", "mail", `{"to":"x"}`))
	frames = slices.Concat(frames, run(t, m, s.out[n:]), run(t, m, on("r3").start().out))
	if got := lines(t, frames); strings.Count(got, `"type":"approval_result"`) != 1 {
		t.Error(got)
	}
	feed(t, r, frames)
	if c := r.of("approval_request"); len(c) != 0 {
		t.Errorf("a card that can no longer be answered is shown: %v", c)
	}
}

func TestCatchupHidesWhatIsResolved(t *testing.T) {
	_, s, _ := asking(t)
	s.confirm(true, block("c1", "trade", `{"q":1}`), block("c2", "mail", `{"to":"x"}`))
	s.ask(block("c3", "trade", `{}`))
	m := newMapper(t)
	got := lines(t, m.Catchup(s.out))
	if strings.Count(got, `"type":"approval_request"`) != 1 || !strings.Contains(got, `"tool_use_id":"c3"`) || strings.Contains(got, "approval_result") {
		t.Error(got)
	}
	if open := m.Open(); len(open) != 1 || open[0].Calls[0].Call != "c3" {
		t.Errorf("%+v", open)
	}
	// Both ways to the same state use the same key.
	live := newMapper(t)
	run(t, live, s.out)
	if live.Open()[0].Key != m.Open()[0].Key {
		t.Error("the keys differ")
	}
}

// Whether an approval request comes as an event or from the engine's list, it is one approval
// with one key, one card and one digest.
func TestFromCall(t *testing.T) {
	m, _, _ := asking(t)
	n := len(m.Open())
	call := &toolcall.Call{
		Key:  toolcall.Key{Space: "default", Session: "s_1", Reply: "r9", Call: "c9"},
		Tool: "trade", Input: `{"q":1}`, State: message.ToolCallAsking, Digest: "sha256:c9",
		Request: &toolcall.ApprovalRequest{Text: "May trade run?", Requirement: toolcall.Requirement{Deadline: time.Unix(1_700_000_200, 0)}},
	}
	now := time.Unix(1_700_000_100, 0)
	a, err := blockstream.FromCall(call, now)
	if err != nil || a.TimeoutSeconds != 100 {
		t.Fatalf("%+v %v", a, err)
	}
	if frames := m.Resend(a); len(frames) != 3 || len(m.Open()) != n+1 {
		t.Errorf("%v", frames)
	}
	if frames := run(t, m, on("r9").ask(block("c9", "trade", `{"q":1}`)).out); len(frames) != 0 || len(m.Open()) != n+1 {
		t.Errorf("a second card: %v", frames)
	}
	responses, err := m.Responses(&blockstream.Approval{Key: a.Key, Decisions: []blockstream.Decision{{Type: "approve"}}})
	if err != nil || responses[0].Digest != "sha256:c9" || responses[0].Key != call.Key {
		t.Errorf("%+v %v", responses, err)
	}
	late, err := blockstream.FromCall(call, now.Add(time.Hour))
	if err != nil || late.TimeoutSeconds != 1 || late.Key != a.Key {
		t.Errorf("%+v %v", late, err)
	}
	call.Request.Requirement = toolcall.Requirement{}
	if a, err = blockstream.FromCall(call, now); err != nil || a.TimeoutSeconds != 0 {
		t.Errorf("%+v %v", a, err)
	}
	call.Input = "no"
	if _, err := blockstream.FromCall(call, now); !errors.Is(err, blockstream.ErrUnshowable) {
		t.Error(err)
	}
	call.State = message.ToolCallFinished
	for _, c := range []*toolcall.Call{nil, call} {
		if _, err := blockstream.FromCall(c, now); !errors.Is(err, message.ErrState) {
			t.Error(err)
		}
	}
}

// TestResendAfterUnseenTurn: the events of a catch-up gave no frame, and an earlier turn is open here
// that the subscriber has not seen.
func TestResendAfterUnseenTurn(t *testing.T) {
	m := newMapper(t)
	run(t, m, on("r1").start().text("b", "hello").ask(block("c1", "refund", "{}")).out)
	if frames := m.Catchup([]message.Event{&message.Custom{EventHeader: on("r2").head(), Name: "x"}}); len(frames) > 0 {
		t.Fatalf("%d frames for an event that has none", len(frames))
	}
	frames := m.Resend(m.Open()[0])
	if len(frames) == 0 || blockstream.FrameTypeOf(frames[0]) != blockstream.FrameMessageStart {
		t.Errorf("want a turn with the card, got\n%s", lines(t, frames))
	}
}

func TestResend(t *testing.T) {
	old, _, _ := asking(t)
	kept, err := json.Marshal(old.Open()[0])
	if err != nil {
		t.Fatal(err)
	}
	var a blockstream.Asked
	if err := json.Unmarshal(kept, &a); err != nil {
		t.Fatal(err)
	}
	m := newMapper(t)
	got := lines(t, m.Resend(a))
	if !strings.Contains(got, `"type":"message_start"`) || !strings.Contains(got, `"approval_key":"`+a.Key+`"`) {
		t.Error(got)
	}
	again := m.Resend(a)
	if len(again) != 3 || again[0].(*blockstream.BlockStart).Index != 1 {
		t.Errorf("%+v", again)
	}
	responses, err := m.Responses(&blockstream.Approval{Decisions: []blockstream.Decision{{Type: "approve"}, {Type: "reject", Message: "why"}}})
	if err != nil || len(responses) != 2 || responses[0].Digest != "sha256:c1" || responses[1].Feedback != "why" {
		t.Errorf("%+v %v", responses, err)
	}
}
