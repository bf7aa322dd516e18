//go:build unix

package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/askance-dev/askance/e2e/internal/effect"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// signal sends a signal to the running process.
func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.life.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("signal %s: %v", p.name, err)
	}
}

// TestFrozenWorker stops a worker, without killing it, until the engine has given it up, and then
// lets it continue with its task. The effect happens once, and a result that comes too late
// changes nothing.
func TestFrozenWorker(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for i := range 6 {
		tool := remote[i%2]
		k := key("s", fmt.Sprintf("r%d", i), "c")
		s.started(k, s.block("c", tool, effect.Input{N: i, Before: 20, After: 20}))
		frozen := s.workers[tool]
		frozen.signal(syscall.SIGSTOP)
		s.givenUp(k)
		frozen.signal(syscall.SIGCONT)
		s.obs.await("the call ends", s.mind, func() bool { return !s.obs.call(k).Open() })
	}
	s.finish()
}

// TestFrozenEngine stops one of two engines, without killing it, while local tools run in it. The
// other engine gives them up and continues alone. The effects still happen once when the first
// engine wakes up.
func TestFrozenEngine(t *testing.T) {
	t.Parallel()
	s, _, engines := newCluster(t, "engine-a", "engine-b")
	frozen := 0
	for i := range 8 {
		tool := []string{note, post}[i%2]
		k := key("s", fmt.Sprintf("r%d", i), "c")
		s.started(k, s.block("c", tool, effect.Input{N: i, Before: 100, After: 100}))
		victim, other := engines[i/2%2], engines[1-i/2%2]
		victim.signal(syscall.SIGSTOP)
		if s.obs.call(k).Attempt.Worker == victim.id() {
			frozen++
			s.givenUp(k)
		}
		tr := s.begin(fmt.Sprintf("bot%d", i), 2)
		s.more(12) // the other engine continues
		if err := other.died(); err != nil {
			t.Fatal(err)
		}
		victim.signal(syscall.SIGCONT)
		tr.end()
	}
	s.finish()
	t.Logf("%d of 8 local calls ran in the engine that was stopped", frozen)
}

// TestFrozenAlone stops the only engine, with its embedded NATS server, for longer than a lease
// while tools run even longer. Their effects happen once, although the engine may believe on
// waking up that an owner is dead.
func TestFrozenAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for i, tool := range allTools {
		k := key("s", fmt.Sprintf("r%d", i), "c")
		s.started(k, s.block("c", tool, effect.Input{N: i, Before: 20, After: 2 * lease.Milliseconds()}))
		s.engine.signal(syscall.SIGSTOP)
		<-time.After(s.between(lease, 3*lease))
		s.engine.signal(syscall.SIGCONT)
	}
	s.finish()
}

// TestFrozenEngineRunAgain stops one of two engines while workers take calls of a tool that is not
// idempotent. An operator lets each call run again that was given up and whose tool left no
// trace. None of them runs twice.
func TestFrozenEngineRunAgain(t *testing.T) {
	t.Parallel()
	const rounds, calls = 3, 16
	s, _, engines := newCluster(t, "engine-a", "engine-b")
	second := s.worker("worker2-"+mail, mail)
	second.start()
	second.up()
	again := 0
	for round := range rounds {
		victim := engines[round%2]
		for n := range calls {
			_, err := s.bot.propose(proposal("s", fmt.Sprintf("r%d-%d", round, n), s.block("c", mail, effect.Input{N: n, Before: 50, After: 50})))
			s.must(err)
			if n == calls/4 {
				victim.signal(syscall.SIGSTOP)
			}
		}
		for thaw := time.Now().Add(8 * time.Second); time.Now().Before(thaw) && !s.ended(); {
			<-time.After(100 * ms)
			again += s.runAgainUntraced()
		}
		victim.signal(syscall.SIGCONT)
	}
	s.finish()
	t.Logf("an operator had %d calls run again", again)
}

// runAgainUntraced lets calls run again that have been blocked for a second and whose attempts
// have left no trace.
func (s *stage) runAgainUntraced() (resolved int) {
	s.t.Helper()
	runs := s.marks(effect.RunsFile)
	for _, c := range s.obs.all() {
		if c.Blocked == toolcall.BlockedUnknown && time.Since(c.UpdatedAt) > time.Second && len(runs[c.IdempotencyKey()]) == 0 {
			s.must(s.operator.resolve(c, toolcall.OutcomeRunAgain))
			resolved++
		}
	}
	return resolved
}

// started proposes one call and waits until its tool runs.
func (s *stage) started(k toolcall.Key, call message.ToolCallBlock) {
	s.t.Helper()
	started := s.obs.when(step(k, toolcall.CauseStart))
	_, err := s.bot.propose(proposal(string(k.Session), string(k.Reply), call))
	s.must(err)
	s.obs.await("the tool starts", s.mind, func() bool { return isClosed(started) })
}

// givenUp waits until an engine declares the owner of an attempt dead, or the call has ended. The
// engine has the lease and one second for that.
func (s *stage) givenUp(k toolcall.Key) {
	s.t.Helper()
	began, busy := time.Now(), s.busy()
	s.obs.await("the silent owner is given up", s.mind, func() bool {
		c := s.obs.call(k)
		return !c.Open() || c.Blocked == toolcall.BlockedUnknown || !c.RetryAt.IsZero() || c.Attempt.Number > 1
	})
	took, lost := time.Since(began), busy()
	if took > lease+time.Second+slack+lost {
		s.t.Errorf("%s: it took %s to notice a silent owner (the machine was too busy for %s of that), want the lease of %s and a second", describe(s.obs.call(k)), took, lost, lease)
	}
}

// busy returns a function that reports for how long the machine has since kept a process waiting
// that needed almost nothing: again and again a moment of a processor and a few bytes on the disk.
func (s *stage) busy() (lost func() time.Duration) {
	s.t.Helper()
	const beat = 20 * ms
	f, err := os.CreateTemp(s.dir, "busy")
	s.must(err)
	stop, sum := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var total time.Duration
		for !isClosed(stop) && s.t.Context().Err() == nil {
			began := time.Now()
			<-time.After(beat)
			_, err := f.WriteAt([]byte("x"), 0)
			if err == nil {
				err = f.Sync()
			}
			if err != nil {
				s.t.Error(err)
			}
			total += time.Since(began) - beat
		}
		sum <- total
	}()
	return func() time.Duration {
		close(stop)
		total := <-sum
		s.must(errors.Join(f.Close(), os.Remove(f.Name())))
		return total
	}
}
