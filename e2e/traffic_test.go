package e2e_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// traffic is bots that propose and an approver that answers all the time while other processes
// die.
type traffic struct {
	s     *stage
	turns atomic.Int64 // proposals that were completed

	stop   chan struct{} // closed: bots begin no more turns
	bots   sync.WaitGroup
	done   chan struct{} // closed when the bots have ended
	person sync.WaitGroup
	gone   chan struct{} // closed when no approver is left
	once   sync.Once
}

// begin lets n bots work until end. Each has its own session and begins its next turn when the
// calls of the previous one have ended or are blocked.
func (s *stage) begin(name string, n int) *traffic {
	tr := &traffic{s: s, stop: make(chan struct{}), done: make(chan struct{}), gone: make(chan struct{})}
	for i := range n {
		c := s.world.bot()
		session := fmt.Sprintf("%s-%d", name, i)
		d := newDice(s.t.Name(), session)
		tr.bots.Go(func() { tr.bot(c, d, session) })
	}
	tr.person.Go(tr.answers)
	s.t.Cleanup(tr.end)
	return tr
}

// end lets the bots finish their current turn, and waits for them.
func (tr *traffic) end() {
	tr.once.Do(func() {
		close(tr.stop)
		tr.bots.Wait()
		close(tr.done)
	})
	tr.person.Wait()
}

// bot works until it is stopped.
func (tr *traffic) bot(c client, d *dice, session string) {
	for n := 0; !isClosed(tr.stop) && !isClosed(tr.gone); n++ {
		if err := tr.turn(c, d, session, fmt.Sprintf("r%d", n)); err != nil {
			tr.s.t.Error(err)
			return
		}
		tr.turns.Add(1)
	}
}

// turn proposes one model turn and waits until its calls have ended or are blocked.
func (tr *traffic) turn(c client, d *dice, session, reply string) error {
	s := tr.s
	calls, err := c.propose(proposal(session, reply,
		s.block("c1", d.tool(), d.input(false)),
		s.block("c2", d.tool(), d.input(d.pick(3) == 0)),
		s.block("c3", remote[d.pick(2)], d.input(false)),
	))
	if err != nil {
		return err
	}
	ok := s.obs.until(func() bool {
		if isClosed(tr.gone) {
			return true
		}
		held := false
		for _, call := range calls {
			now := s.obs.call(call.Key)
			if now != nil && now.Blocked != toolcall.NotBlocked {
				held = true // calls behind it also wait for a person
			}
			if now == nil || now.Open() && !held {
				return false
			}
		}
		return true
	})
	switch {
	case isClosed(tr.gone):
		return nil // answers has reported why
	case !ok:
		return fmt.Errorf("the calls of %s/%s have neither ended nor are blocked\n%s", session, reply, s.obs.open())
	}
	return nil
}

// answers answers approval requests as long as a bot may wait for them.
func (tr *traffic) answers() {
	defer close(tr.gone)
	pause := time.NewTicker(30 * ms)
	defer pause.Stop()
	for !isClosed(tr.done) {
		if err := tr.s.answerOpen(""); err != nil {
			tr.s.t.Error(err)
			return
		}
		<-pause.C
	}
}

// more waits until the journal has grown by n records.
func (s *stage) more(n int) {
	s.t.Helper()
	goal := s.obs.count() + n
	s.obs.await(fmt.Sprintf("%d more records", n), s.mind, func() bool { return s.obs.count() >= goal })
}
