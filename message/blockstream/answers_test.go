package blockstream_test

import (
	"errors"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/toolcall"
)

func TestResponses(t *testing.T) {
	m, _, _ := asking(t)
	key := m.Open()[0].Key
	type d = blockstream.Decision
	edit := func(id message.CallID, name, args string) d {
		return d{Type: "edit", ToolUseID: id, Edited: &blockstream.EditedAction{Name: name, Args: message.RawJSON(args)}}
	}
	q2 := `{"q":2}`
	for _, c := range []struct {
		name string
		in   []d
		want []toolcall.Response
	}{
		{"in order", []d{{Type: "approve"}, {Type: "reject", Message: "why"}}, []toolcall.Response{
			{Key: toolcall.Key{Call: "c1"}, Kind: toolcall.ResponseApprove}, {Key: toolcall.Key{Call: "c2"}, Kind: toolcall.ResponseReject, Feedback: "why"}}},
		{"by id, any order", []d{{Type: "reject", ToolUseID: "c2"}, {Type: "approve", ToolUseID: "c1"}}, []toolcall.Response{
			{Key: toolcall.Key{Call: "c2"}, Kind: toolcall.ResponseReject}, {Key: toolcall.Key{Call: "c1"}, Kind: toolcall.ResponseApprove}}},
		{"by id, a part", []d{{Type: "approve", ToolUseID: "c2"}}, []toolcall.Response{{Key: toolcall.Key{Call: "c2"}, Kind: toolcall.ResponseApprove}}},
		{"edit", []d{edit("c1", "trade", q2)}, []toolcall.Response{{Key: toolcall.Key{Call: "c1"}, Kind: toolcall.ResponseApprove, Input: &q2}}},
		{"edit without a name", []d{edit("c1", "", q2)}, []toolcall.Response{{Key: toolcall.Key{Call: "c1"}, Kind: toolcall.ResponseApprove, Input: &q2}}},
		{"edit that changes nothing", []d{edit("c1", "trade", ` { "q" : 1 } `)}, []toolcall.Response{{Key: toolcall.Key{Call: "c1"}, Kind: toolcall.ResponseApprove}}},
		{"respond", []d{{Type: "respond", ToolUseID: "c1", Message: "42"}}, []toolcall.Response{{Key: toolcall.Key{Call: "c1"}, Kind: toolcall.ResponseRespond, Output: "42"}}},
	} {
		for _, k := range []string{key, ""} {
			got, err := m.Responses(&blockstream.Approval{Key: k, Decisions: c.in})
			if err != nil || len(got) != len(c.want) {
				t.Errorf("%s: %+v %v", c.name, got, err)
				continue
			}
			for i, w := range c.want {
				g := got[i]
				same := g.Call == w.Call && g.Kind == w.Kind && g.Feedback == w.Feedback && g.Output == w.Output && (g.Input == nil) == (w.Input == nil)
				if !same || g.Space != "default" || g.Session != "s_1" || g.Reply != "r1" || g.Digest != "sha256:"+string(w.Call) || g.Input != nil && *g.Input != *w.Input {
					t.Errorf("%s: %+v, want %+v", c.name, g, w)
				}
			}
		}
	}
}

// TestEditsOfInexactNumbers: an edit counts if a number has another exact value, however it is
// written.
func TestEditsOfInexactNumbers(t *testing.T) {
	for edited, counts := range map[string]bool{
		`{"a":9007199254740992.0,"b":1.0}`: true, `{"a":9007199254740992,"b":1}`: true,
		`{"b":1,"a":9007199254740993.00}`: false, `{"a":9007199254740993,"b":10e-1}`: false,
	} {
		asked := blockstream.Asked{Calls: []blockstream.AskedCall{{Tool: "echo", Input: `{"a":9007199254740993.0,"b":1.0}`}}}
		got, err := asked.Responses(&blockstream.Approval{Decisions: []blockstream.Decision{{Type: "edit", Edited: &blockstream.EditedAction{Args: message.RawJSON(edited)}}}})
		if err != nil || (got[0].Input != nil) != counts || counts && *got[0].Input != edited {
			t.Errorf("%s: %+v %v", edited, got, err)
		}
	}
}

func TestResponsesRefused(t *testing.T) {
	m, _, _ := asking(t)
	key := m.Open()[0].Key
	type d = blockstream.Decision
	two := []d{{Type: "approve"}, {Type: "approve"}}
	for _, c := range []struct {
		name string
		in   blockstream.Approval
		want error
	}{
		{"other key", blockstream.Approval{Key: "s_1_1", Decisions: two}, blockstream.ErrUnknownApproval},
		{"other session", blockstream.Approval{Key: key, Session: "s", Decisions: two}, blockstream.ErrUnknownApproval},
		{"other session, no key", blockstream.Approval{Session: "s", Decisions: two}, blockstream.ErrUnknownApproval},
		{"other message", blockstream.Approval{Key: key, MessageID: "m", Decisions: two}, blockstream.ErrUnknownApproval},
		{"none", blockstream.Approval{Key: key}, blockstream.ErrDecisions},
		{"too few", blockstream.Approval{Key: key, Decisions: two[:1]}, blockstream.ErrDecisions},
		{"too many", blockstream.Approval{Key: key, Decisions: append(two[:2:2], d{Type: "approve"})}, blockstream.ErrDecisions},
		{"some named", blockstream.Approval{Key: key, Decisions: []d{{Type: "approve", ToolUseID: "c1"}, {Type: "approve"}}}, blockstream.ErrDecisions},
		{"unknown id", blockstream.Approval{Key: key, Decisions: []d{{Type: "approve", ToolUseID: "c9"}}}, blockstream.ErrDecisions},
		{"one id twice", blockstream.Approval{Key: key, Decisions: []d{{Type: "approve", ToolUseID: "c1"}, {Type: "reject", ToolUseID: "c1"}}}, blockstream.ErrDecisions},
		{"the second is bad", blockstream.Approval{Key: key, Decisions: []d{{Type: "approve"}, {Type: "maybe"}}}, blockstream.ErrDecisions},
		{"another tool", blockstream.Approval{Key: key, Decisions: []d{{Type: "edit", ToolUseID: "c1", Edited: &blockstream.EditedAction{Name: "mail", Args: message.RawJSON(`{}`)}}}}, blockstream.ErrDecisions},
	} {
		got, err := m.Responses(&c.in)
		if !errors.Is(err, c.want) || got != nil {
			t.Errorf("%s: %v %v, want %v", c.name, got, err, c.want)
		}
		if f := blockstream.ErrorFrame(err, key); f.Code == blockstream.CodeInternal {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
	if len(m.Open()) != 1 {
		t.Error("a refused command changed the open approvals")
	}
}

func TestWhichApproval(t *testing.T) {
	m, s, _ := asking(t)
	n := len(s.out)
	s.ask(block("c3", "trade", `{}`))
	run(t, m, s.out[n:])
	first, second := m.Open()[0], m.Open()[1]
	if _, err := m.Responses(&blockstream.Approval{Decisions: []blockstream.Decision{{Type: "approve"}}}); !errors.Is(err, blockstream.ErrWhichApproval) {
		t.Errorf("with two open approvals: %v", err)
	}
	got, err := m.Responses(&blockstream.Approval{Key: second.Key, Decisions: []blockstream.Decision{{Type: "approve"}}})
	if err != nil || got[0].Call != "c3" {
		t.Errorf("%+v %v", got, err)
	}
	n = len(s.out)
	s.confirm(true, block("c1", "trade", `{"q":1}`), block("c2", "mail", `{"to":"x"}`), block("c3", "trade", `{}`))
	run(t, m, s.out[n:])
	for _, k := range []string{first.Key, second.Key} {
		_, err := m.Responses(&blockstream.Approval{Key: k, Decisions: []blockstream.Decision{{Type: "approve"}}})
		if !errors.Is(err, blockstream.ErrApprovalResolved) || blockstream.ErrorFrame(err, k).Code != blockstream.CodeApprovalResolved {
			t.Errorf("late: %v", err)
		}
	}
	if _, err := m.Responses(&blockstream.Approval{Decisions: []blockstream.Decision{{Type: "approve"}}}); !errors.Is(err, blockstream.ErrWhichApproval) {
		t.Errorf("without an open approval: %v", err)
	}
}

// An approval request that is asked again has a new key, and the card of the old one answers
// nothing.
func TestAskedAnew(t *testing.T) {
	m, s, _ := asking(t)
	old := m.Open()[0].Key
	n := len(s.out)
	s.confirm(true, block("c1", "trade", `{"q":2}`)).ask(block("c1", "trade", `{"q":2}`)).confirm(false, block("c2", "mail", `{}`))
	run(t, m, s.out[n:])
	open := m.Open()
	if len(open) != 1 || open[0].Key == old || open[0].Calls[0].Input != `{"q":2}` {
		t.Fatalf("%+v", open)
	}
	if _, err := m.Responses(&blockstream.Approval{Key: old, Decisions: []blockstream.Decision{{Type: "approve"}, {Type: "approve"}}}); !errors.Is(err, blockstream.ErrApprovalResolved) {
		t.Errorf("%v", err)
	}
	// The old card is void even without an answer in between.
	n = len(s.out)
	s.ask(block("c1", "trade", `{"q":3}`))
	run(t, m, s.out[n:])
	if _, err := m.Responses(&blockstream.Approval{Key: open[0].Key, Decisions: []blockstream.Decision{{Type: "approve"}}}); !errors.Is(err, blockstream.ErrApprovalExpired) {
		t.Errorf("%v", err)
	}
}
