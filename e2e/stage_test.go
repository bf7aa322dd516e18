package e2e_test

import "testing"

// stage is a world with one or several engines, a worker for each remote tool, a runtime, an
// approver and an operator.
type stage struct {
	*world
	engine   *process // the only engine, with an embedded NATS server; nil if there are several
	workers  map[string]*process
	bot      client
	approver client
	operator client
	answers  func(session string) error // answers open approval requests; if nil, the approver does
}

// newStage returns a stage with one engine that has an embedded NATS server.
func newStage(t testing.TB) *stage {
	t.Helper()
	w := newWorld(t)
	return newStageIn(w, w.embedded())
}

func newStageIn(w *world, engine *process) *stage {
	w.t.Helper()
	s := &stage{world: w, engine: engine, workers: map[string]*process{}}
	s.engine.start()
	s.engine.up() // workers need NATS when they start
	s.open()
	return s
}

// newCluster returns a stage with an external NATS server and the named engines.
func newCluster(t testing.TB, names ...string) (*stage, *process, []*process) {
	t.Helper()
	w := newWorld(t)
	nats := w.external(0)
	nats.start()
	nats.up() // engines need NATS when they start
	s := &stage{world: w, workers: map[string]*process{}}
	var engines []*process
	for _, name := range names {
		p := w.replica(name)
		p.start()
		engines = append(engines, p)
	}
	s.open()
	for _, p := range engines {
		p.up()
	}
	return s, nats, engines
}

// open starts a worker for each remote tool, and connects the principals of the test when the
// workers are ready.
func (s *stage) open() {
	s.t.Helper()
	for _, tool := range remote {
		s.workers[tool] = s.worker("worker-"+tool, tool)
		s.workers[tool].start()
	}
	for _, p := range s.workers {
		p.up()
	}
	s.watch()
	s.bot, s.approver, s.operator = s.world.bot(), s.world.approver(), s.world.operator()
	s.must(s.bot.ready())
}

// finish lets every call end and checks the results, before and after unknown outcomes are
// resolved.
func (s *stage) finish() {
	s.t.Helper()
	s.rest()
	s.verify(true)
	s.settleAll()
	s.verify(false)
	s.proved()
	s.report()
}

func (s *stage) report() {
	s.t.Helper()
	s.tally.kills = s.kills()
	t := s.tally
	if n := s.restarts(); n > 0 {
		s.t.Logf("%d times an engine asked to be started again later", n)
	}
	s.t.Logf("%d kills: %d calls, %d attempts, %d effects, %d outcomes unknown (%d of remote tools), %d acknowledgements found in the journal, %d checkpoints",
		t.kills, t.calls, t.attempts, t.effects, t.unknown, t.unknownRemote, t.acked, t.checkpoints)
}
