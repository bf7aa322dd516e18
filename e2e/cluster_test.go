package e2e_test

import (
	"fmt"
	"testing"
)

// TestNATSKilled kills the NATS server during traffic on two engines. Nothing that was
// acknowledged is lost, and every call ends.
func TestNATSKilled(t *testing.T) {
	t.Parallel()
	const kills = killsPerPoint
	s, nats, _ := newCluster(t, "engine-a", "engine-b")
	tr := s.begin("bot", 6)
	for range kills {
		s.more(10 + s.pick(40))
		<-s.moment()
		nats.kill()
		nats.start()
	}
	s.more(20)
	tr.end()
	s.finish()
	if s.tally.kills < kills {
		t.Errorf("%d kills, want %d", s.tally.kills, kills)
	}
	t.Logf("%d turns", tr.turns.Load())
}

// TestEngineKilled kills one of two engines during traffic. The other continues alone, including
// the dead engine's calls, until every call has ended. Only then the dead engine comes back and
// the other one is killed.
func TestEngineKilled(t *testing.T) {
	t.Parallel()
	const kills = killsPerPoint
	s, _, engines := newCluster(t, "engine-a", "engine-b")
	for i := range kills {
		tr := s.begin(fmt.Sprintf("bot%d", i), 4)
		s.more(10 + s.pick(30))
		<-s.moment()
		victim := engines[i%2]
		victim.kill()
		s.more(12) // the other engine continues
		tr.end()
		s.rest()
		victim.start()
	}
	s.finish()
	if s.tally.kills < kills {
		t.Errorf("%d kills, want %d", s.tally.kills, kills)
	}
}
