package blocks_test

import (
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/blocks"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message/blockstream"
)

// TestChatWhileTurnIsOpen: the refusal of a message has another code than that of a response.
func TestChatWhileTurnIsOpen(t *testing.T) {
	t.Parallel()
	s := newStage(t, blocks.Config{})
	c := s.me("")
	c.send(&blockstream.Chat{Session: "s1", Text: payLine})
	card := block[*blockstream.ApprovalRequest](c)
	c.send(&blockstream.Chat{Session: "s1", Text: "say more"})
	if e := wait[*blockstream.Error](c); e.Code != blockstream.CodeTurnOpen {
		t.Errorf("refused as %+v", e)
	}
	c.send(decide(card.ApprovalKey, yes))
	wait[*blockstream.MessageStop](c)
	c.send(&blockstream.Chat{Session: "s1", Text: "say more"})
	wait[*blockstream.MessageStart](c)
}

// TestBlocksWithABrokenJournal: every command is answered in time.
func TestBlocksWithABrokenJournal(t *testing.T) {
	inBubble(t, blocks.Config{}, func(t *testing.T, s *stage) {
		c := s.me("")
		c.send(&blockstream.Chat{Session: "s1", Text: payLine})
		card := block[*blockstream.ApprovalRequest](c)
		for fault, want := range map[gatewaytest.Fault]blockstream.ErrorCode{
			gatewaytest.Hangs: blockstream.CodeUnavailable, gatewaytest.Refuses: blockstream.CodeUnavailable, gatewaytest.Full: blockstream.CodeFull,
		} {
			for _, cmd := range []blockstream.Command{
				decide(card.ApprovalKey, yes), &blockstream.Stop{}, &blockstream.Chat{Session: "s1", Text: "say more"}, &blockstream.Chat{Session: "other", Text: "say more"}, &blockstream.Subscribe{Session: "s1"},
			} {
				c := s.me("")
				c.send(&blockstream.Subscribe{Session: "s1"})
				block[*blockstream.ApprovalRequest](c)
				s.A.Break(fault)
				began := time.Now()
				c.resumed = true // a second subscribe begins the turn again
				c.send(cmd)
				e := c.answer()
				s.A.Break(gatewaytest.Works)
				reads := blockstream.CommandTypeOf(cmd) == "subscribe"
				if reads && fault == gatewaytest.Full {
					continue // a full journal can still be read
				}
				open := e.Code == blockstream.CodeTurnOpen && fault == gatewaytest.Full
				if e.Code != want && !open || time.Since(began) > time.Minute {
					t.Errorf("fault %d, %+v: %+v after %s", fault, cmd, e, time.Since(began))
				}
			}
		}
	})
}

// answer returns the next error or pong and skips other frames.
func (c *client) answer() blockstream.Error {
	c.t.Helper()
	c.send(&blockstream.PingCommand{})
	var e blockstream.Error
	for {
		switch f := c.next().(type) {
		case *blockstream.Error:
			e = *f
		case *blockstream.Pong:
			return e
		default:
		}
	}
}
