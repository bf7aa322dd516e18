package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/e2e/internal/effect"
	"github.com/askance-dev/askance/toolcall"
)

// killsPerPoint is the number of kills in time at each crash point, and maxRounds the maximum
// number of tries.
const (
	killsPerPoint = 20
	maxRounds     = 8 * killsPerPoint
)

// play strikes at p until it was hit often enough, then checks everything.
func (s *stage) play(p point) {
	s.t.Helper()
	var strikes []strike
	hits := 0
	for hits < killsPerPoint {
		if len(strikes) >= maxRounds {
			s.t.Fatalf("%d of %d kills came in time, want %d", hits, len(strikes), killsPerPoint)
		}
		for range killsPerPoint - hits {
			strikes = append(strikes, s.round(p, len(strikes)))
		}
		s.rest() // now the journal has everything from before the kills
		hits = s.hits(p, strikes)
	}
	s.finish()
	s.t.Logf("%d of %d kills came in time; the struck calls at their last step: %s", hits, len(strikes), s.lastSteps(strikes))
	if p.slow && s.tally.unknown == 0 {
		s.t.Error("no outcome was unknown, want some for a tool that is not idempotent and was killed during its run")
	}
}

// round proposes a few calls, kills a process at the point of the first call, starts the process
// again, and checks that everything is as it was before.
func (s *stage) round(p point, i int) strike {
	s.t.Helper()
	session, reply := fmt.Sprintf("s%d", i%3), fmt.Sprintf("r%d", i)
	tool := p.tools[i%len(p.tools)]
	struck := key(session, reply, "struck")
	request := proposal(session, reply,
		s.block("struck", tool, s.struckInput(p)),
		s.block("neighbor", s.dice.tool(), s.input(false)),
		s.block("asks", s.dice.tool(), s.input(true)),
		s.block("never", s.dice.tool(), effect.Input{N: s.pick(1e6), Forbid: true}),
	)
	sight := p.see(s.world, struck)
	asked := s.obs.when(step(struck, toolcall.CauseAsk))

	errs := make(chan error, 2)
	go func() {
		_, err := s.bot.propose(request)
		errs <- err
	}()
	go func() {
		if !p.answer {
			errs <- nil
			return
		}
		<-asked
		errs <- s.approver.answer(s.obs.call(struck), toolcall.Response{Kind: toolcall.ResponseApprove})
	}()
	victim := s.engine
	if p.worker {
		victim = s.workers[tool]
	}
	dead := s.killAt(victim, sight.seen, p.spread, fmt.Sprintf("round %d: %s of %s", i, p.name, tool))
	if p.both {
		s.workers[tool].kill()
	}
	victim.start()
	if p.twice {
		<-time.After(s.between(0, 100*ms))
		victim.kill()
		dead = time.Now()
		victim.start()
	}
	for range 2 {
		if err := <-errs; err != nil {
			s.t.Fatalf("round %d: %v", i, err)
		}
	}
	s.found(session)
	if p.both {
		victim.up() // a worker ends without a server
		s.workers[tool].start()
		s.workers[tool].up()
	}
	s.must(s.answerOpen(session))
	return strike{struck: struck, dead: dead, sight: sight}
}

func (s *stage) struckInput(p point) effect.Input {
	in := s.input(p.ask)
	if p.slow {
		in.Before, in.After = in.Before+20, in.After+20
	}
	return in
}

// hits reads from the journal how many kills came in time.
func (s *stage) hits(p point, strikes []strike) int {
	n := 0
	for _, st := range strikes {
		st.causes = map[toolcall.Cause]bool{}
		for _, r := range s.obs.history(st.struck) {
			if r.Time.After(st.dead) {
				break
			}
			st.last = r.Record
			for _, step := range r.Record.Path {
				st.causes[toolcall.Cause(step.Cause)] = true
			}
		}
		if p.hit(st) {
			n++
		}
	}
	return n
}

// lastSteps counts how the struck calls ended.
func (s *stage) lastSteps(strikes []strike) string {
	n := map[string]int{}
	for _, st := range strikes {
		n[s.obs.call(st.struck).Cause]++
	}
	var out []string
	for _, cause := range slices.Sorted(maps.Keys(n)) {
		out = append(out, fmt.Sprintf("%d %s", n[cause], cause))
	}
	return strings.Join(out, ", ")
}
