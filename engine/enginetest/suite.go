package enginetest

import (
	"context"
	"fmt"
	"runtime/debug"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
)

// New makes an empty journal. It is called from the goroutine of the test
// that uses the journal, and cleans up with t.Cleanup.
type New func(t testing.TB) engine.Journal

// Run runs the whole suite on the journals that newJournal makes. Its tests
// run in parallel.
func Run(t *testing.T, newJournal func(t testing.TB) engine.Journal) {
	t.Run("journal", func(t *testing.T) { RunJournal(t, newJournal) })
	t.Run("engine", func(t *testing.T) { RunEngine(t, newJournal) })
}

// RunJournal runs the part of the suite that needs no engine.
func RunJournal(t *testing.T, newJournal New) {
	runAll(t, journalCases(), func(ctx context.Context, t *testing.T) *journalTest {
		j := newJournal(t)
		return &journalTest{T: t, ctx: ctx, Journal: j, space: spaceOf(j)}
	})
}

// RunEngine runs what engines do on the journal.
func RunEngine(t *testing.T, newJournal New) {
	for _, part := range []struct {
		name  string
		cases []testCase[*world]
	}{
		{"propose", proposeCases()},
		{"batch", batchCases()},
		{"hidden", hiddenCases()},
		{"answer", answerCases()},
		{"digest", digestCases()},
		{"remember", rememberCases()},
		{"remember by rule", rememberRuleCases()},
		{"remember an edit", rememberEditCases()},
		{"remember plain rules", rememberPlainCases()},
		{"revoke while something begins", revokeRaceCases()},
		{"quorum", quorumCases()},
		{"redact", redactCases()},
		{"interrupt", interruptCases()},
		{"an interrupt that comes first", interruptFirstCases()},
		{"worker", workerCases()},
		{"route", routeCases()},
		{"explanations on record", recordCases()},
		{"result", resultCases()},
		{"settle", settleCases()},
		{"restart", restartCases()},
		{"replicas", replicaCases()},
		{"an engine dies", deathCases()},
		{"events", eventCases()},
		{"query", queryCases()},
		{"roles", roleCases()},
		{"bad input", badInputCases()},
		{"faults", faultCases()},
	} {
		t.Run(part.name, func(t *testing.T) {
			runAll(t, part.cases, func(ctx context.Context, t *testing.T) *world { return newWorld(ctx, t, newJournal) })
		})
	}
}

type testCase[W any] struct {
	name string
	run  func(W)
}

// A case that takes longer than caseTime is given up: its context ends, and
// what honours it fails with an error that says so. What does not, within
// caseLimit, ends the test binary with the stacks of all goroutines.
const (
	caseTime  = 20 * time.Second
	caseLimit = 30 * time.Second
)

func runAll[W any](t *testing.T, cases []testCase[W], open func(ctx context.Context, t *testing.T) W) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t)
			c.run(open(ctx, t))
		})
	}
}

// bounded gives the context of a case that begins now. It must be called
// before the case registers its own cleanup, which is bounded too.
func bounded(t *testing.T) context.Context {
	t.Helper()
	watchdog := time.AfterFunc(caseLimit, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("enginetest: %s hangs: it has not ended after %s", t.Name(), caseLimit))
	})
	t.Cleanup(func() { watchdog.Stop() })
	ctx, cancel := context.WithTimeoutCause(t.Context(), caseTime, fmt.Errorf("enginetest: %s takes longer than %s", t.Name(), caseTime))
	t.Cleanup(cancel)
	return ctx
}
