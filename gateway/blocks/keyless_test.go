package blocks_test

import (
	"testing"

	"github.com/askance-dev/askance/gateway/blocks"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/message/blockstream/blocktest"
	"github.com/askance-dev/askance/toolcall"
)

// TestKeyless: a decision without an approval_key may arrive after its request was decided
// elsewhere. It does not count for the next approval request.
func TestKeyless(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	c := s.me("")
	c.send(&blockstream.Chat{Session: "k", Text: payLine + "\ncall pay {\"to\":\"mallory\",\"amount\":1000000}"})
	block[*blockstream.ApprovalRequest](c)
	open := s.opened("k")
	s.A.SubmitResponse(gatewaytest.Ann, toolcall.Response{Key: open.Key, Kind: toolcall.ResponseReject, Digest: open.Digest})
	second := block[*blockstream.ApprovalRequest](c)
	c.send(decide("", yes)) // meant for the first request
	c.refused(blockstream.CodeApprovalUnclear)
	if next := s.opened("k"); len(next.Votes) != 0 {
		t.Errorf("counted for the next approval request: %+v", next.Votes)
	}
	c.send(decide(second.ApprovalKey, yes))
	block[*blockstream.ApprovalResult](c)
}

// TestKeylessTwice: a decision without an approval_key that arrives twice, on the same connection
// or on the next one, does not count for the next approval request.
func TestKeylessTwice(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	c := s.me("")
	c.send(&blockstream.Chat{Session: "k", Text: payLine + "\ncall pay {\"to\":\"mallory\",\"amount\":1000000}"})
	block[*blockstream.ApprovalRequest](c)
	c.send(decide("", yes))
	block[*blockstream.ApprovalResult](c)
	block[*blockstream.ApprovalRequest](c)
	c.send(decide("", yes))
	c.refused(blockstream.CodeApprovalUnclear)
	for _, last := range []string{"", c.last} {
		d := s.me("")
		d.resumed = true
		d.send(&blockstream.Subscribe{Session: "k", LastEventID: last})
		block[*blockstream.ApprovalRequest](d)
		d.send(decide("", yes))
		d.refused(blockstream.CodeApprovalUnclear)
	}
	if next := s.opened("k"); len(next.Votes) != 0 {
		t.Errorf("counted for the next approval request: %+v", next.Votes)
	}
}

// opened returns the one open approval request of a session.
func (s *stage) opened(session message.SessionID) *toolcall.Call {
	s.t.Helper()
	out, err := s.A.Client(gatewaytest.Ann).List(s.t.Context(), toolcall.ListRequest{Session: session, States: []message.ToolCallState{message.ToolCallAsking}})
	if err != nil || len(out.Calls) != 1 {
		s.t.Fatalf("the open approval requests of %s: %+v, %v", session, out.Calls, err)
	}
	return out.Calls[0]
}

// TestKeylessInAnotherSession: a decision without an approval_key that was meant for a card of the
// previous session does not count for the request of the next one.
func TestKeylessInAnotherSession(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	s.A.Ask("s1", "r1", "c1")
	s.A.Ask("s2", "r1", "c1")
	c := s.dial(s.A.Token(gatewaytest.Ann), "")
	c.send(&blockstream.Subscribe{Session: "s1"})
	block[*blockstream.ApprovalRequest](c)
	wait[*blockstream.BlockStop](c)
	c.send(&blockstream.Subscribe{Session: "s2"})
	c.order = blocktest.Checker{}
	second := block[*blockstream.ApprovalRequest](c)
	c.send(decide("", yes))
	c.refused(blockstream.CodeApprovalUnclear)
	for _, session := range []message.SessionID{"s1", "s2"} {
		s.opened(session)
	}
	c.send(decide(second.ApprovalKey, yes))
	block[*blockstream.ApprovalResult](c)
}

// TestEditedBack: arguments that edits changed and changed back are shown again, to a client that
// saw the first request and to one that comes later.
func TestEditedBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	first, second := `{"v":1}`, `{"v":2}`
	s.A.ProposeAs(gatewaytest.Bot, "s1", "r1", "c1", gatewaytest.Deploy, first)
	c := s.dial(s.A.Token(gatewaytest.Ann), "")
	c.send(&blockstream.Subscribe{Session: "s1"})
	card := block[*blockstream.ApprovalRequest](c)
	for _, edit := range []struct{ by, input string }{{gatewaytest.Ann, second}, {gatewaytest.Bob, first}} {
		open := s.opened("s1")
		s.A.SubmitResponse(edit.by, toolcall.Response{Key: open.Key, Kind: toolcall.ResponseApprove, Digest: open.Digest, Input: &edit.input})
	}
	later := s.dial(s.A.Token(gatewaytest.Ann), "")
	later.send(&blockstream.Subscribe{Session: "s1"})
	block[*blockstream.ApprovalRequest](c)
	for _, viewer := range []*client{c, later} {
		if again := block[*blockstream.ApprovalRequest](viewer); string(again.Actions[0].Args) != first {
			t.Errorf("%s is shown, %s waits for approval", again.Actions[0].Args, first)
		}
	}
	later.send(decide(card.ApprovalKey, yes))
	block[*blockstream.ApprovalResult](later)
	if got := finished(s, "s1"); got.Input != first {
		t.Errorf("%s ran", got.Input)
	}
}
