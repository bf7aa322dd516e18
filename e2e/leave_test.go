package e2e_test

import (
	"context"
	"errors"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/e2e/internal/effect"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// TestNoLeaveAfterHold has a worker whose start was stored but that never received the reply, and
// that asks again only after the call has been given up. The worker must not begin any more: a
// person may be finding out at this moment that nothing happened, and may let the call run again.
func TestNoLeaveAfterHold(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.workers[mail].kill() // the test is the worker
	worker, err := bus.NewWorker(s.connect("late"), space, mail, "late", nil)
	s.must(err)
	k := key("s", "r", "c")
	_, err = s.bot.propose(proposal("s", "r", s.block("c", mail, effect.Input{N: 1})))
	s.must(err)
	r := toolcall.StartRequest{V: 1, Key: k, Attempt: 1, Claim: "the-claim"}
	ask := func(ctx context.Context) (toolcall.StartReply, error) { return worker.Start(ctx, r) }
	if _, _, err = persist(requestLimit, "start", ask); !over(err) { // over: the retry already came too late
		s.must(err)
	}
	s.obs.await("the silent worker is given up", s.mind, func() bool {
		c := s.obs.call(k)
		return c != nil && c.Blocked == toolcall.BlockedUnknown
	})
	if leave, err := ask(t.Context()); !errors.Is(err, message.ErrSuperseded) && !errors.Is(err, message.ErrState) {
		t.Errorf("start of %s asked again: %+v, %v, want an error with code %s or %s", describe(s.obs.call(k)), leave, err, message.CodeSuperseded, message.CodeState)
	}
	s.must(s.operator.resolve(s.obs.call(k), toolcall.OutcomeDidNot))
	s.obs.await("the call ends", s.mind, func() bool { return !s.obs.call(k).Open() })
	s.verify(false)
}
