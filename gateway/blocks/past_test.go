package blocks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/blocks"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/toolcall"
)

// shows counts the calls that an engine shows.
type shows struct {
	api.Caller
	n *atomic.Int64
}

func (s shows) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	if _, is := request.(toolcall.ShowRequest); is {
		s.n.Add(1)
	}
	return s.Caller.Call(ctx, op, request)
}

// TestOldTurnsAskNothing: a subscriber to a long session reads no call of a turn that is not shown.
func TestOldTurnsAskNothing(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	s := newStage(t, blocks.Config{}, gatewaytest.With(func(c *gateway.Config) {
		as := c.Spaces[0].As
		c.Spaces[0].As = func(p toolcall.Principal) engine.Client {
			return api.Methods{Caller: shows{as(p), &n}}
		}
	}))
	for i := range 5 {
		k := s.A.Ask("s1", "r1", fmt.Sprint("c", i))
		s.A.Approve(gatewaytest.Ann, k)
		s.A.Finished(k)
	}
	s.A.Ask("s1", "r2", "c1")
	first := s.dial(s.A.Token(gatewaytest.Ann), "")
	first.send(&blockstream.Subscribe{Session: "s1"})
	block[*blockstream.ApprovalRequest](first)
	wait[*blockstream.BlockStop](first)
	before := n.Load()
	for _, last := range []string{"", first.last} {
		c := s.dial(s.A.Token(gatewaytest.Ann), "")
		c.resumed = true
		c.send(&blockstream.Subscribe{Session: "s1", LastEventID: last})
		if card := block[*blockstream.ApprovalRequest](c); card.Actions[0].Description == "" {
			t.Error("the card has no text")
		}
	}
	if most := int64(2); n.Load()-before > most {
		t.Errorf("two subscribers read %d calls, want at most %d: those of the last turn", n.Load()-before, most)
	}
}

// TestReturnsAfterACardWasShownAgain: a client that got a card again has other indices than the next
// connection would continue with, so it gets the whole turn.
func TestReturnsAfterACardWasShownAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	c := s.me("")
	c.send(&blockstream.Chat{Session: "s1", Text: "say I pay.\n" + payLine + "\nsay more\n" + payLine})
	key := block[*blockstream.ApprovalRequest](c).ApprovalKey
	wait[*blockstream.BlockStop](c)
	back := func(last string, resumed bool) *client {
		d := s.me("")
		d.resumed = resumed
		d.send(&blockstream.Subscribe{Session: "s1", LastEventID: last})
		return d
	}
	d := back(c.last, true)
	if again := block[*blockstream.ApprovalRequest](d); again.ApprovalKey != key {
		t.Fatalf("%s is shown, not %s", again.ApprovalKey, key)
	}
	wait[*blockstream.BlockStop](d)
	d.send(decide(key, yes))
	block[*blockstream.ApprovalRequest](d)
	wait[*blockstream.BlockStop](d)
	for range 2 { // the second time because the replay leaves out the card that is resolved
		e := back(d.last, false)
		block[*blockstream.ApprovalRequest](e)
		wait[*blockstream.BlockStop](e)
		d = e
	}
}

// TestLateEventBeginsNoTurn: a result of an earlier turn that comes during the last one does not
// hide where that one begins.
func TestLateEventBeginsNoTurn(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	earlier := s.A.Ask("s1", "r1", "c1")
	s.A.Ask("s1", "r2", "c2")
	s.A.Approve(gatewaytest.Ann, earlier)
	s.A.Finished(earlier)
	c := s.dial(s.A.Token(gatewaytest.Ann), "")
	c.send(&blockstream.Subscribe{Session: "s1"})
	if b := block[*blockstream.ApprovalRequest](c); b.Actions[0].ToolUseID != "c2" { // next checks the order
		t.Errorf("shows %+v, the earlier request is decided", b)
	}
}

// TestTurnBesideALaterOne: a turn continues after another that began later, as of a sub-agent, has
// ended.
func TestTurnBesideALaterOne(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	text := []message.Event{&message.TextBlockStart{BlockID: "b"}, &message.TextBlockDelta{BlockID: "b", Delta: "x"}}
	s.A.Say("s1", "r1", text...)
	s.A.Say("s1", "r2", append(text, &message.ReplyEnd{Session: "s1", FinishedReason: message.FinishedCompleted})...)
	s.A.Ask("s1", "r1", "c1")
	c := s.dial(s.A.Token(gatewaytest.Ann), "")
	c.send(&blockstream.Subscribe{Session: "s1"})
	if sub := wait[*blockstream.Subscribed](c); sub.Status != blockstream.StatusRunning {
		t.Errorf("status %s, a turn waits for a response", sub.Status)
	}
}

// unreachable is an authenticator whose provider cannot be reached.
type unreachable struct{ gateway.Authenticator }

func (unreachable) Authenticate(*http.Request) (*gateway.Identity, error) {
	return nil, gateway.ErrNoCredentials
}

func (unreachable) Token(*http.Request, string) (*gateway.Identity, error) {
	return nil, &message.Error{Code: message.CodeUnavailable, What: "the provider cannot be used", Err: errors.New("dial 10.0.0.1")}
}

// TestLoginHidesTheCause: strangers learn no addresses.
func TestLoginHidesTheCause(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{}, gatewaytest.Auth(unreachable{}))
	c := s.dial("", "")
	c.send(&blockstream.Auth{Token: "a.b.c"})
	if e := wait[*blockstream.Error](c); e.Code != blockstream.CodeUnavailable || strings.Contains(e.Message, "10.0.0.1") {
		t.Errorf("%+v", e)
	}
}

// TestPastIsReleased: a subscriber does not keep the session that it has been sent.
func TestPastIsReleased(t *testing.T) {
	s := newStage(t, blocks.Config{})
	const size, subscribers = 128 << 10, 12
	for i := range 24 {
		reply := fmt.Sprint("r", i)
		s.A.Say("s1", reply, &message.TextBlockStart{BlockID: "b"}, &message.TextBlockDelta{BlockID: "b", Delta: strings.Repeat("x", size)}, &message.ReplyEnd{Session: "s1", FinishedReason: message.FinishedCompleted})
	}
	s.A.Ask("s1", "last", "c1")
	join := func() {
		c := s.dial(s.A.Token(gatewaytest.Ann), "")
		c.send(&blockstream.Subscribe{Session: "s1"})
		block[*blockstream.ApprovalRequest](c)
		wait[*blockstream.BlockStop](c)
	}
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	join()
	before := live()
	for range subscribers {
		join()
	}
	if after := live(); after > before+subscribers*24*size/2 {
		t.Errorf("%d subscribers keep %d MB of a session of %d MB", subscribers, (after-before)>>20, 24*size>>20)
	}
}

// TestLoginLater: a token that cannot be used now is not called wrong, so its client comes back.
func TestLoginLater(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{}, gatewaytest.With(func(c *gateway.Config) { c.Limits.Streams = 1 }))
	token := s.A.Token(gatewaytest.Ann)
	wait[*blockstream.Connected](s.dial(token, ""))
	c := s.dial("", "")
	c.send(&blockstream.Auth{Token: token})
	c.refused(blockstream.CodeOverLimit)
	if code := c.closed(); code != blockstream.CloseTryAgain {
		t.Errorf("closed with %d, want %d", code, blockstream.CloseTryAgain)
	}
}
