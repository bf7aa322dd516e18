package v1_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	v1 "github.com/askance-dev/askance/message/v1"
	"github.com/askance-dev/askance/toolcall"
	"github.com/google/go-cmp/cmp"
)

var withDigest = v1.Codec{Digest: func(reply message.ReplyID, call message.CallID) string {
	return "sha256:" + string(reply) + string(call)
}}

// asking returns a reply with an open approval request about c1, but not about c2 and c3.
func asking() *message.Msg {
	at := "2026-03-01T09:00:00"
	rules := []message.PermissionRule{{ToolName: "f", Behavior: message.BehaviorAllow, Source: "suggested"}}
	return &message.Msg{ID: "reply-1", Name: "F", Role: message.RoleAssistant, CreatedAt: at, Content: []message.Block{
		&message.ToolCallBlock{ID: "c1", Name: "f", Input: `{}`, State: message.ToolCallAsking, SuggestedRules: rules, CreatedAt: at},
		&message.ToolCallBlock{ID: "c2", Name: "g", Input: `{}`, State: message.ToolCallSubmitted, CreatedAt: at},
		&message.ToolCallBlock{ID: "c3", Name: "h", Input: `{}`, State: message.ToolCallPending, CreatedAt: at},
	}}
}

// requested returns what the dict says about its open calls, or "".
func requested(t *testing.T, m *message.Msg) (*v1.Msg, string) {
	t.Helper()
	list := dicts(t, strings.Trim(back(t, withDigest, []*message.Msg{m}), "[]"))
	var md struct {
		Askance map[string]json.RawMessage
	}
	if err := json.Unmarshal(list[0].Metadata, &md); err != nil {
		t.Fatal(err)
	}
	if md.Askance["calls"] == nil {
		return list[0], ""
	}
	return list[0], string(md.Askance["request_id"]) + string(md.Askance["calls"])
}

func TestRequest(t *testing.T) {
	d, r := requested(t, asking())
	want := `"reply-1"[{"digest":"sha256:reply-1c1","state":"asking","suggested_rules":[{"tool_name":"f","rule_content":null,"behavior":"allow","source":"suggested"}],"tool_use_id":"c1"},{"state":"submitted","tool_use_id":"c2"}]`
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	// States in a dict prove nothing.
	msgs, err := v1.Codec{}.ToMsgs([]*v1.Msg{d})
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range message.BlocksOf[*message.ToolCallBlock](msgs[0]) {
		if call.State != message.ToolCallPending || len(call.SuggestedRules) != 0 {
			t.Errorf("%+v", call)
		}
	}
	if _, ok := msgs[0].Metadata["askance"]; ok {
		t.Errorf("%v", msgs[0].Metadata)
	}
	// A message that came as dicts also contains the request while it is open.
	m := to20(t, v1.Codec{}, o("a", "F", "assistant", `[{"type":"tool_use","id":"c1","name":"f","input":{}}]`))[0]
	m.ToolCall("c1").State = message.ToolCallAsking
	d, r = requested(t, m)
	if r != `"a"[{"digest":"sha256:ac1","state":"asking","tool_use_id":"c1"}]` {
		t.Error(r)
	}
	msgs, err = v1.Codec{}.ToMsgs([]*v1.Msg{d})
	if err != nil {
		t.Fatal(err)
	}
	if _, r = requested(t, msgs[0]); r != "" {
		t.Errorf("an old request came back: %s", r)
	}
}

func answer(t *testing.T, role, askance string) (*v1.Decisions, error) {
	t.Helper()
	return v1.DecisionsOf(decode(t, strings.Replace(o("u", "ann", role, `"yes, I approve"`), `"metadata":{}`, `"metadata":{"askance":`+askance+`}`, 1)))
}

func TestDecisions(t *testing.T) {
	key := toolcall.Key{Space: "s", Session: "x", Reply: "reply-1"}
	rules := []message.PermissionRule{{ToolName: "f", Behavior: message.BehaviorAllow, Source: "suggested"}}
	input := `{"a": 2}`
	for in, want := range map[string]toolcall.Response{
		`{"tool_use_id":"c1","digest":"sha256:reply-1c1","type":"approve"}`:                  {Kind: toolcall.ResponseApprove},
		`{"tool_use_id":"c1","digest":"sha256:reply-1c1","type":"approve","input":{"a": 2}}`: {Kind: toolcall.ResponseApprove, Input: &input},
		`{"tool_use_id":"c1","digest":"sha256:reply-1c1","type":"reject","message":"why"}`:   {Kind: toolcall.ResponseReject, Feedback: "why"},
		`{"tool_use_id":"c1","digest":"sha256:reply-1c1","type":"respond","message":"42"}`:   {Kind: toolcall.ResponseRespond, Output: "42"},
		`{"tool_use_id":"c1","digest":"sha256:reply-1c1","type":"approve","rules":[{"tool_name":"f","rule_content":null,"behavior":"allow","source":"suggested"}]}`: {
			Kind: toolcall.ResponseApprove, Rules: rules},
	} {
		d, err := answer(t, "user", `{"request_id":"reply-1","decisions":[`+in+`]}`)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		got, err := d.Responses("s", "x")
		want.Key, want.Digest = key, "sha256:reply-1c1"
		want.Call = "c1"
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %v %v", in, got, err)
			continue
		}
		if diff := cmp.Diff(want, got[0]); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
}

func TestDecisionsRefused(t *testing.T) {
	for _, item := range []string{
		`"approve"`, `{}`, `{"digest":"d","type":"approve"}`, `{"tool_use_id":"c1","digest":"d"}`, `{"tool_use_id":"c1","type":"approve"}`, `{"tool_use_id":"c1","digest":"","type":"approve"}`, `{"tool_use_id":"c1","digest":"sha256:reply-1c1","type":"Approve"}`, `{"tool_use_id":"c1","digest":"sha256:reply-1c1","type":"allow"}`,
		`{"tool_use_id":"c1","digest":"sha256:reply-1c1","type":"approve","message":"but"}`, `{"tool_use_id":"c1","digest":"sha256:reply-1c1","type":"approve","input":"{}"}`, `{"tool_use_id":"c1","digest":"sha256:reply-1c1","type":"approve","args":{}}`,
		`{"tool_use_id":"c1","digest":"sha256:reply-1c1","type":"reject","input":{}}`, `{"tool_use_id":"c1","digest":"sha256:reply-1c1","type":"respond"}`, `{"tool_use_id":"c1","digest":"sha256:reply-1c1","type":"delegate"}`,
		`{"tool_use_id":"c1","digest":"sha256:reply-1c1","type":"approve","rules":[{}]}`,
	} {
		if d, err := answer(t, "user", `{"request_id":"reply-1","decisions":[`+item+`]}`); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("%s: %+v %v", item, d, err)
		}
	}
	ok := `{"tool_use_id":"c1","digest":"sha256:reply-1c1","type":"approve"}`
	for _, askance := range []string{`{"decisions":[` + ok + `]}`, `{"request_id":"r","decisions":[]}`, `{"request_id":"r","decisions":null}`, `{"request_id":"r","decisions":[` + ok + `],"all":true}`} {
		if d, err := answer(t, "user", askance); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("%s: %+v %v", askance, d, err)
		}
	}
	for _, role := range []string{"assistant", "system"} {
		if _, err := answer(t, role, `{"request_id":"reply-1","decisions":[`+ok+`]}`); !errors.Is(err, message.ErrForbidden) {
			t.Errorf("%s: %v", role, err)
		}
	}
	if d, err := answer(t, "user", `{}`); d != nil || err != nil {
		t.Errorf("a text counts as a decision: %+v %v", d, err)
	}
	twice := v1.Decisions{RequestID: "r", Items: []v1.Decision{{ToolUseID: "c1", Digest: "d", Type: "approve"}, {ToolUseID: "c1", Digest: "d", Type: "reject"}}}
	if got, err := twice.Responses("s", "x"); got != nil || !errors.Is(err, message.ErrInvalid) {
		t.Errorf("%v %v", got, err)
	}
}
