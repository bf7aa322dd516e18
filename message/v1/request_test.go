package v1_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	v1 "github.com/askance-dev/askance/message/v1"
	"github.com/google/go-cmp/cmp"
)

var withDigest = v1.Codec{Digest: func(reply message.ReplyID, call message.CallID) string {
	return "sha256:" + string(reply) + string(call)
}}

// asking is a reply with a question open about c1, none about c2 and c3.
func asking() *message.Msg {
	at := "2026-03-01T09:00:00"
	rules := []message.PermissionRule{{ToolName: "f", Behavior: message.BehaviorAllow, Source: "suggested"}}
	return &message.Msg{ID: "reply-1", Name: "F", Role: message.RoleAssistant, CreatedAt: at, Content: []message.Block{
		&message.ToolCallBlock{ID: "c1", Name: "f", Input: `{}`, State: message.ToolCallAsking, SuggestedRules: rules, CreatedAt: at},
		&message.ToolCallBlock{ID: "c2", Name: "g", Input: `{}`, State: message.ToolCallSubmitted, CreatedAt: at},
		&message.ToolCallBlock{ID: "c3", Name: "h", Input: `{}`, State: message.ToolCallPending, CreatedAt: at},
	}}
}

func requestOf(t *testing.T, m *message.Msg) (*v1.Msg, *v1.Request) {
	t.Helper()
	list := dicts(t, strings.Trim(back(t, withDigest, []*message.Msg{m}), "[]"))
	r, err := v1.RequestOf(list[0])
	if err != nil {
		t.Fatal(err)
	}
	return list[0], r
}

func TestRequest(t *testing.T) {
	d, r := requestOf(t, asking())
	want := &v1.Request{ID: "reply-1", Calls: []v1.RequestCall{
		{ID: "c1", State: "asking", Digest: "sha256:reply-1c1", SuggestedRules: []message.PermissionRule{{ToolName: "f", Behavior: "allow", Source: "suggested"}}},
		{ID: "c2", State: "submitted"},
	}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	// What a dict says about states proves nothing.
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
	// A message that came as dicts carries the request, too, as long as it is open.
	m := to20(t, v1.Codec{}, o("a", "F", "assistant", `[{"type":"tool_use","id":"c1","name":"f","input":{}}]`))[0]
	m.ToolCall("c1").State = message.ToolCallAsking
	d, r = requestOf(t, m)
	if r == nil || r.ID != "a" || r.Calls[0].Digest != "sha256:ac1" {
		t.Errorf("%+v", r)
	}
	msgs, err = v1.Codec{}.ToMsgs([]*v1.Msg{d})
	if err != nil {
		t.Fatal(err)
	}
	if _, r = requestOf(t, msgs[0]); r != nil {
		t.Errorf("an old request came back: %+v", r)
	}
	if r, err := v1.RequestOf(decode(t, seed)); r != nil || err != nil {
		t.Errorf("%v %v", r, err)
	}
	if _, err := v1.RequestOf(decode(t, strings.Replace(o("a", "F", "assistant", `"x"`), `{}`, `{"askance":{"request_id":"r","calls":[{"tool_use_id":"c","state":"maybe"}]}}`, 1))); !errors.Is(err, message.ErrInvalid) {
		t.Error(err)
	}
}

func answer(t *testing.T, role, askance string) (*v1.Decisions, error) {
	t.Helper()
	return v1.DecisionsOf(decode(t, strings.Replace(o("u", "ann", role, `"yes, I approve"`), `"metadata":{}`, `"metadata":{"askance":`+askance+`}`, 1)))
}

func TestDecisions(t *testing.T) {
	_, r := requestOf(t, asking())
	key := message.Key{Space: "s", Session: "x", Reply: "reply-1"}
	input := `{"a": 2}`
	for in, want := range map[string]message.Answer{
		`{"tool_use_id":"c1","type":"approve"}`:                  {Kind: message.AnswerApprove},
		`{"tool_use_id":"c1","type":"approve","input":{"a": 2}}`: {Kind: message.AnswerApprove, Input: &input},
		`{"tool_use_id":"c1","type":"reject","message":"why"}`:   {Kind: message.AnswerReject, Feedback: "why"},
		`{"tool_use_id":"c1","type":"answer","message":"42"}`:    {Kind: message.AnswerForTool, Output: "42"},
		`{"tool_use_id":"c1","type":"approve","rules":[{"tool_name":"f","rule_content":null,"behavior":"allow","source":"suggested"}]}`: {
			Kind: message.AnswerApprove, Rules: r.Calls[0].SuggestedRules},
	} {
		d, err := answer(t, "user", `{"request_id":"reply-1","decisions":[`+in+`]}`)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		got, err := r.Answers(key, d)
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
		`"approve"`, `{}`, `{"type":"approve"}`, `{"tool_use_id":"c1"}`, `{"tool_use_id":"c1","type":"Approve"}`, `{"tool_use_id":"c1","type":"allow"}`,
		`{"tool_use_id":"c1","type":"approve","message":"but"}`, `{"tool_use_id":"c1","type":"approve","input":"{}"}`, `{"tool_use_id":"c1","type":"approve","args":{}}`,
		`{"tool_use_id":"c1","type":"reject","input":{}}`, `{"tool_use_id":"c1","type":"answer"}`, `{"tool_use_id":"c1","type":"hand_over"}`,
		`{"tool_use_id":"c1","type":"approve","rules":[{}]}`,
	} {
		if d, err := answer(t, "user", `{"request_id":"reply-1","decisions":[`+item+`]}`); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("%s: %+v %v", item, d, err)
		}
	}
	ok := `{"tool_use_id":"c1","type":"approve"}`
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
		t.Errorf("a text is no decision: %+v %v", d, err)
	}
	_, r := requestOf(t, asking())
	for _, c := range []struct {
		d    v1.Decisions
		want error
	}{
		{v1.Decisions{RequestID: "reply-2", Items: []v1.Decision{{ToolUseID: "c1", Type: "approve"}}}, message.ErrNotFound},
		{v1.Decisions{RequestID: "reply-1", Items: []v1.Decision{{ToolUseID: "c9", Type: "approve"}}}, message.ErrNotFound},
		{v1.Decisions{RequestID: "reply-1", Items: []v1.Decision{{ToolUseID: "c2", Type: "approve"}}}, message.ErrState},
		{v1.Decisions{RequestID: "reply-1", Items: []v1.Decision{{ToolUseID: "c1", Type: "approve"}, {ToolUseID: "c1", Type: "reject"}}}, message.ErrInvalid},
		{v1.Decisions{RequestID: "reply-1", Items: []v1.Decision{{ToolUseID: "c1", Type: "maybe"}}}, message.ErrInvalid},
	} {
		if got, err := r.Answers(message.Key{}, &c.d); got != nil || !errors.Is(err, c.want) {
			t.Errorf("%+v: %v %v", c.d, got, err)
		}
	}
	none := v1.Request{ID: "r", Calls: []v1.RequestCall{{ID: "c1", State: message.ToolCallAsking}}}
	if _, err := none.Answers(message.Key{}, &v1.Decisions{RequestID: "r", Items: []v1.Decision{{ToolUseID: "c1", Type: "approve"}}}); !errors.Is(err, message.ErrState) {
		t.Errorf("without a digest: %v", err)
	}
}
