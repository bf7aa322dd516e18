package e2e_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/e2e/internal/effect"
	"github.com/askance-dev/askance/toolcall"
)

// TestInterruptKilled kills the engine while it carries out an interrupt, before or after the
// interrupt is durable. In the end every call of the reply and the reply itself have ended,
// without any response.
func TestInterruptKilled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for i := range killsPerPoint {
		s.interruptRound(i)
	}
	s.finish()
}

func (s *stage) interruptRound(i int) {
	s.t.Helper()
	session, reply := fmt.Sprintf("s%d", i%3), fmt.Sprintf("r%d", i)
	rk := key(session, reply, "")
	asked := s.obs.when(step(key(session, reply, "asks"), toolcall.CauseAsk))
	_, err := s.bot.propose(proposal(session, reply,
		s.block("runs", []string{charge, note}[s.pick(2)], effect.Input{N: i, Before: 10, After: 200}),
		s.block("asks", charge, s.input(true)),
		s.block("later", post, s.input(false)),
	))
	s.must(err)
	s.obs.await("the call asks", s.mind, func() bool { return isClosed(asked) })

	seen := s.onRequest(bus.KindInterrupt, rk).seen
	if i%2 == 1 {
		seen = s.obs.when(func(r toolcall.JournalEntry) bool {
			return r.Record != nil && r.Record.Reply != nil && r.Key == rk && r.Record.Reply.Phase == toolcall.ReplyInterrupted
		})
	}
	errs := make(chan error, 1)
	go func() {
		_, _, err := persist(requestLimit, "interrupt "+reply, func(ctx context.Context) (toolcall.InterruptReply, error) {
			return s.bot.Interrupt(ctx, toolcall.InterruptRequest{Session: rk.Session, Reply: rk.Reply})
		})
		errs <- err
	}()
	s.killAt(s.engine, seen, 3*ms, fmt.Sprintf("round %d: interrupt", i))
	s.engine.start()
	s.must(<-errs)
	s.obs.await("the interrupted calls end", s.mind, func() bool {
		for _, c := range s.ofSession(session) {
			if c.Reply == rk.Reply && c.Open() {
				return false
			}
		}
		return true
	})
	s.replyEnded(rk)
}

// replyEnded waits until the reply's own record says that the reply has ended.
func (s *stage) replyEnded(reply toolcall.Key) {
	s.t.Helper()
	j := s.journal(s.conn)
	s.obs.await("the reply ends", s.mind, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		r, err := j.Last(ctx, reply)
		return err == nil && r.Record.Reply.Phase == toolcall.ReplyEnded
	})
}
