package blockstream_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/message/blockstream/blocktest"
	"github.com/google/go-cmp/cmp"
)

func published(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/published.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// Every published frame can be decoded, keeps its content, and encodes stably.
func TestPublishedFrames(t *testing.T) {
	rows := published(t)
	if len(rows) < 25 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		f, err := blocktest.DecodeFrame([]byte(row))
		if err != nil {
			t.Errorf("%s: %v", row, err)
			continue
		}
		once, err := blockstream.AppendFrame(nil, f)
		if err != nil {
			t.Fatal(err)
		}
		if diff := missing(t, []byte(row), once); diff != "" {
			t.Errorf("%s\nlost: %s", row, diff)
		}
	}
}

// missing returns the members of a that b lacks or has with another value.
func missing(t testing.TB, a, b []byte) string {
	t.Helper()
	x, err := strictjson.Object(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := strictjson.Object(b)
	if err != nil {
		t.Fatal(err)
	}
	return lacks(x, y, "")
}

func lacks(a, b any, at string) string {
	switch a := a.(type) {
	case map[string]any:
		m, ok := b.(map[string]any)
		if !ok {
			return at
		}
		for k, v := range a {
			w, there := m[k]
			if !there && v != nil {
				return at + "/" + k
			}
			if s := lacks(v, w, at+"/"+k); s != "" {
				return s
			}
		}
		return ""
	case nil:
		return ""
	}
	return map[bool]string{false: at}[cmp.Equal(a, b)]
}

func TestDecodeFrameRefuses(t *testing.T) {
	for _, c := range []struct{ name, in string }{
		{"no type", `{}`},
		{"type not text", `{"type":1}`},
		{"not an object", `[]`},
		{"duplicate", `{"type":"auth_ok","type":"pong"}`},
		{"wrong case", `{"Type":"pong"}`},
		{"unknown frame", `{"type":"new_frame", "x":[1, 2]}`},
		{"unknown block", `{"type":"content_block_start","index":0,"content_block":{"type":"hologram", "x":1}}`},
		{"unknown delta", `{"type":"content_block_delta","index":0,"delta":{"type":"hologram_delta", "x":1}}`},
		{"no index", `{"type":"content_block_stop"}`},
		{"negative index", `{"type":"content_block_stop","index":-1}`},
		{"huge index", `{"type":"content_block_stop","index":9999999999}`},
		{"index as float", `{"type":"content_block_stop","index":1.0}`},
		{"no block", `{"type":"content_block_start","index":0}`},
		{"null block", `{"type":"content_block_start","index":0,"content_block":null}`},
		{"no delta", `{"type":"content_block_delta","index":0}`},
		{"display mode", `{"type":"message_start","session_id":"s","timestamp":1,"display_mode":"Agent"}`},
		{"no session", `{"type":"message_start","timestamp":1,"display_mode":"agent"}`},
		{"two ids", `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","tool_use_id":"b","name":"n","input":{}}}`},
		{"input as text", `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"n","input":"{}"}}`},
		{"result status", `{"type":"content_block_start","index":0,"content_block":{"type":"tool_result","tool_use_id":"a","status":"denied"}}`},
		{"content over the limit", `{"type":"content_block_start","index":0,"content_block":{"type":"tool_result","tool_use_id":"a","status":"error","content":"` + strings.Repeat("é", 501) + `"}}`},
		{"no approval key", `{"type":"content_block_start","index":0,"content_block":{"type":"approval_request"}}`},
		{"action args", `{"type":"content_block_delta","index":0,"delta":{"action_requests":[{"name":"n","args":[]}]}}`},
		{"two kinds of delta", `{"type":"content_block_delta","index":0,"delta":{"action_requests":[],"status":"completed"}}`},
		{"text and decisions", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x","decisions":[]}}`},
		{"negative timeout", `{"type":"content_block_delta","index":0,"delta":{"action_requests":[],"timeout_seconds":-1}}`},
		{"subscribed", `{"type":"subscribed","status":"paused"}`},
	} {
		f, err := blocktest.DecodeFrame([]byte(c.in))
		if err == nil {
			t.Errorf("%s: read as %+v", c.name, f)
			continue
		}
		if !errors.Is(err, message.ErrInvalid) && !errors.Is(err, message.ErrTooLarge) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := blocktest.DecodeLarge([]byte(`{"type":"pong"}`), 10); !errors.Is(err, message.ErrTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
}

func TestCommands(t *testing.T) {
	approve := []blockstream.Decision{{Type: blockstream.DecisionApprove}}
	edit := func(name, args string) []blockstream.Decision {
		return []blockstream.Decision{{Type: blockstream.DecisionEdit, Edited: &blockstream.EditedAction{Name: name, Args: message.RawJSON(args)}}}
	}
	for _, c := range []struct {
		in   string
		want blockstream.Command
	}{
		{`{"type":"auth","token":"t","client":"web"}`, &blockstream.Auth{Token: "t"}},
		{`{"type":"subscribe","session_id":"abc-123","last_event_id":"01HXYZ100"}`, &blockstream.Subscribe{Session: "abc-123", LastEventID: "01HXYZ100"}},
		{`{"type":"subscribe","session_id":"abc-123","last_event_id":null}`, &blockstream.Subscribe{Session: "abc-123"}},
		{`{"type":"chat","session_id":"s","message":"hi","content_urls":["https://e.x/a"]}`, &blockstream.Chat{Session: "s", Text: "hi", ContentURLs: []string{"https://e.x/a"}}},
		{`{"type":"chat","content":"hi"}`, &blockstream.Chat{Text: "hi"}},
		{`{"type":"chat","text":"hi"}`, &blockstream.Chat{Text: "hi"}},
		{`{"type":"stop","session_id":"s"}`, &blockstream.Stop{Session: "s"}},
		{`{"type":"ping"}`, &blockstream.PingCommand{}},
		{`{"type":"pong"}`, &blockstream.PongCommand{}},
		{`{"type":"approval","decisions":["approve"]}`, &blockstream.Approval{Decisions: approve}},
		{`{"type":"approval","approval_key":"abc-123_1","session_id":"abc-123","message_id":"m","decisions":[{"type":"approve"}]}`, &blockstream.Approval{Key: "abc-123_1", Session: "abc-123", MessageID: "m", Decisions: approve}},
		{`{"type":"approval","decisions":[{"decision":"approve","message":null,"edited_action":null}]}`, &blockstream.Approval{Decisions: approve}},
		{`{"type":"approval","decisions":[{"type":"reject","message":"no","tool_use_id":"c"}]}`, &blockstream.Approval{Decisions: []blockstream.Decision{{Type: "reject", Message: "no", ToolUseID: "c"}}}},
		{`{"type":"approval","decisions":[{"type":"edit","edited_action":{"name":"n","args":{"a": 1}}}]}`, &blockstream.Approval{Decisions: edit("n", `{"a": 1}`)}},
		{`{"type":"approval","decisions":[{"type":"edit","editedAction":{"name":"n","arguments":{}}}]}`, &blockstream.Approval{Decisions: edit("n", `{}`)}},
		{`{"type":"approval","decisions":[{"type":"edit","args":{}}]}`, &blockstream.Approval{Decisions: edit("", `{}`)}},
		{`{"type":"approval","decisions":[{"type":"respond","message":"42"}]}`, &blockstream.Approval{Decisions: []blockstream.Decision{{Type: "respond", Message: "42"}}}},
	} {
		got, err := blockstream.DecodeCommand([]byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.in, diff)
		}
		raw, err := blockstream.EncodeCommand(got)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := blockstream.DecodeCommand(raw); err != nil || !cmp.Equal(got, again) {
			t.Errorf("%s: %v %s", raw, err, cmp.Diff(got, again))
		}
	}
}

// An ambiguous decision is refused.
func TestDecisionsRefused(t *testing.T) {
	for _, item := range []string{
		`"Approve"`, `"approved"`, `"yes"`, `""`, `"edit"`, `"respond"`, `true`, `1`, `null`, `{}`, `[]`, `{"approve":true}`,
		`{"type":"allow"}`, `{"type":null}`, `{"type":"approve","decision":"reject"}`, `{"type":"approve","decision":"approve"}`,
		`{"type":"approve","args":{"q":1}}`, `{"type":"approve","edited_action":{"args":{}}}`, `{"type":"reject","args":{}}`,
		`{"type":"approve","message":"but only once"}`, `{"type":"edit","args":{},"message":"x"}`,
		`{"type":"edit"}`, `{"type":"edit","args":[]}`, `{"type":"edit","args":"{}"}`, `{"type":"edit","edited_action":{}}`,
		`{"type":"edit","edited_action":{"args":{},"arguments":{}}}`, `{"type":"edit","edited_action":{"args":{}},"args":{}}`,
		`{"type":"edit","edited_action":{"args":{}},"editedAction":{"args":{}}}`, `{"type":"edit","edited_action":{"args":{},"when":"later"}}`,
		`{"type":"respond"}`, `{"type":"respond","message":""}`,
		`{"type":"approve","tool_use_id":""}`, `{"type":"approve","tool_use_id":1}`, `{"type":"approve","rules":[]}`,
		`{"type":"approve","decided_by":"the boss"}`, `{"type":"approve","decided_at":"now"}`, `{"type":"approve","unknown":null}`,
	} {
		in := `{"type":"approval","approval_key":"k_1","decisions":[` + item + `]}`
		if c, err := blockstream.DecodeCommand([]byte(in)); err == nil || !errors.Is(err, message.ErrInvalid) {
			t.Errorf("%s: read as %+v, %v", item, c, err)
		}
	}
}

func TestCommandsRefused(t *testing.T) {
	many := strings.Repeat(`"approve",`, blockstream.MaxDecisions) + `"approve"`
	urls := strings.Repeat(`"u",`, blockstream.MaxContentURLs) + `"u"`
	for in, want := range map[string]error{
		``:                                   message.ErrInvalid,
		`{}`:                                 message.ErrInvalid,
		`{"type":"Approval","decisions":[]}`: blockstream.ErrUnknownCommand,
		`{"type":"message_start"}`:           blockstream.ErrUnknownCommand,
		`{"type":"auth"}`:                    message.ErrInvalid,
		`{"type":"auth","token":null}`:       message.ErrInvalid,
		`{"type":"subscribe"}`:               message.ErrInvalid,
		`{"type":"chat"}`:                    message.ErrInvalid,
		`{"type":"chat","text":"","content":"x"}`:                                              message.ErrInvalid,
		`{"type":"approval"}`:                                                                  message.ErrInvalid,
		`{"type":"approval","decisions":null}`:                                                 message.ErrInvalid,
		`{"type":"approval","decisions":[]}`:                                                   message.ErrInvalid,
		`{"type":"approval","decisions":["approve"],"all":true}`:                               message.ErrInvalid,
		`{"type":"approval","decisions":[` + many + `]}`:                                       message.ErrTooLarge,
		`{"type":"chat","content_urls":[` + urls + `]}`:                                        message.ErrTooLarge,
		`{"type":"chat","message":"` + strings.Repeat("x", blockstream.MaxCommandBytes) + `"}`: message.ErrTooLarge,
	} {
		if c, err := blockstream.DecodeCommand([]byte(in)); !errors.Is(err, want) {
			t.Errorf("%.80s: read as %+v, %v; want %v", in, c, err, want)
		}
	}
}

// Content that the format cannot represent is refused before it is sent, and leaves the buffer
// unchanged.
func TestAppendRefuses(t *testing.T) {
	block := func(b blockstream.ContentBlock) blockstream.Frame { return &blockstream.BlockStart{Block: b} }
	delta := func(d blockstream.Delta) blockstream.Frame { return &blockstream.BlockDelta{Delta: d} }
	for i, f := range []blockstream.Frame{
		nil, &blockstream.Header{},
		&blockstream.MessageStart{DisplayMode: "loud"},
		&blockstream.Subscribed{Status: "x"},
		block(nil), delta(nil),
		block(&blockstream.Text{Text: "\xff"}),
		block(&blockstream.ToolUse{Input: message.RawJSON(`"text"`)}),
		block(&blockstream.ToolResult{Status: "denied"}),
		block(&blockstream.ToolResult{Status: "error", Content: strings.Repeat("x", 501)}),
		delta(&blockstream.ApprovalDelta{Actions: []blockstream.Action{{Args: message.RawJSON(`[]`)}}}),
		delta(&blockstream.DecisionsDelta{Decisions: []blockstream.Decision{{Type: "maybe"}}}),
	} {
		if out, err := blockstream.AppendFrame([]byte("x"), f); !errors.Is(err, message.ErrInvalid) || string(out) != "x" {
			t.Errorf("%d: %s %v", i, out, err)
		}
	}
	if out, err := blockstream.EncodeCommand(&blockstream.Approval{Decisions: []blockstream.Decision{{Type: "edit"}}}); err == nil {
		t.Errorf("%s %v", out, err)
	}
}

func TestCursor(t *testing.T) {
	a, b := blockstream.Cursor{Seq: 9, Frame: 12}, blockstream.Cursor{Seq: 10}
	if !b.After(a) || a.After(a) || !(a.String() < b.String()) || !a.After(blockstream.Cursor{Seq: 9, Frame: 2}) {
		t.Errorf("%s %s", a, b)
	}
	for _, c := range []blockstream.Cursor{{}, a, b, {Seq: 1<<64 - 1, Frame: 999_999}} {
		if got, err := blockstream.ParseCursor(c.String()); err != nil || got != c {
			t.Errorf("%s: %v %v", c, got, err)
		}
	}
	for _, s := range []string{"", "01HXYZ100", "1-2", "00000000000000000009-00001x", "99999999999999999999-000000", "+0000000000000000009-000000"} {
		if c, err := blockstream.ParseCursor(s); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("%q: %v %v", s, c, err)
		}
	}
}

func TestStamp(t *testing.T) {
	frames := []blockstream.Frame{&blockstream.AuthOK{}, &blockstream.Pong{}}
	blockstream.Stamp(frames, 7)
	for i, f := range frames {
		if c, err := blockstream.ParseCursor(f.Head().EventID); err != nil || c != (blockstream.Cursor{Seq: 7, Frame: i}) {
			t.Errorf("%v %v", c, err)
		}
	}
}

func TestCloseCodes(t *testing.T) {
	if blockstream.CloseHeartbeat != 4008 {
		t.Error("close codes")
	}
}

func TestErrorFrame(t *testing.T) {
	for _, c := range []struct {
		err  error
		want blockstream.ErrorCode
	}{
		{&message.Error{Code: message.CodeDigest}, blockstream.CodeApprovalChanged},
		{&message.Error{Code: message.CodeFinished}, blockstream.CodeApprovalResolved},
		{&message.Error{Code: message.CodeConflict}, blockstream.CodeApprovalResolved},
		{&message.Error{Code: message.CodeForbidden}, blockstream.CodeForbidden},
		{&message.Error{Code: message.CodeUnavailable}, blockstream.CodeUnavailable},
		{&message.Error{Code: message.CodeNotFound}, blockstream.CodeNotFound},
		{&message.Error{Code: message.CodeTooLarge}, blockstream.CodeInvalidCommand},
		{fmt.Errorf("secret path"), blockstream.CodeInternal},
	} {
		f := blockstream.ErrorFrame(c.err, "k_1")
		if f.Code != c.want || f.ApprovalKey != "k_1" || strings.Contains(f.Message, "secret") {
			t.Errorf("%v: %+v", c.err, f)
		}
	}
}
