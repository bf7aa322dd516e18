package e2e_test

import "testing"

// TestAnythingKilled kills processes chosen by the seed during traffic: NATS, one of two engines,
// or one of four workers.
func TestAnythingKilled(t *testing.T) {
	t.Parallel()
	const kills = 30
	s, nats, engines := newCluster(t, "engine-a", "engine-b")
	victims := append([]*process{nats}, engines...)
	for _, tool := range remote {
		second := s.worker("worker2-"+tool, tool)
		second.start()
		second.up()
		victims = append(victims, s.workers[tool], second)
	}
	tr := s.begin("bot", 6)
	for range kills {
		s.more(5 + s.pick(30))
		<-s.moment()
		victim := victims[s.pick(len(victims))]
		victim.kill()
		victim.start()
		victim.up()
	}
	tr.end()
	s.finish()
	t.Logf("%d turns", tr.turns.Load())
}
