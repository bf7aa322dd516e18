package e2e_test

import (
	"fmt"
	"testing"

	"github.com/askance-dev/askance/toolcall"
)

// TestTwoWorkers has two workers for each tool and kills one or the other during a run. No call of
// a tool that is not idempotent ever runs twice, and while no process dies each attempt has one
// worker.
func TestTwoWorkers(t *testing.T) {
	t.Parallel()
	const rounds = 20
	s := newStage(t)
	second := map[string]*process{}
	for _, tool := range remote {
		second[tool] = s.worker("worker2-"+tool, tool)
		second[tool].start()
		second[tool].up()
	}
	for i := range rounds {
		tool := remote[i%2]
		session, reply := fmt.Sprintf("s%d", i%3), fmt.Sprintf("r%d", i)
		struck := key(session, reply, "c0")
		seen := s.obs.when(step(struck, toolcall.CauseStart))
		request := proposal(session, reply)
		for n := range 6 {
			request.Calls = append(request.Calls, s.block(fmt.Sprintf("c%d", n), tool, s.input(false)))
		}
		if _, err := s.bot.propose(request); err != nil {
			t.Fatal(err)
		}
		victim := s.workers[tool]
		if s.pick(2) == 0 {
			victim = second[tool]
		}
		s.killAt(victim, seen, 40*ms, fmt.Sprintf("round %d: %s starts", i, tool))
		victim.start()
	}
	s.finish()
	if len(s.owners()) < 4 {
		t.Errorf("the attempts were started by %v, want all four workers among them", s.owners())
	}
}

// owners returns the number of attempts that each worker started.
func (s *stage) owners() map[string]int {
	out := map[string]int{}
	for _, c := range s.obs.all() {
		if c.Attempt.Worker != "" {
			out[c.Attempt.Worker]++
		}
	}
	return out
}
