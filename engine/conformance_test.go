package engine_test

import (
	"context"
	"fmt"
	"runtime/debug"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/engine/journaltest"
	"github.com/askance-dev/askance/internal/bustest"
)

func TestMain(m *testing.M) { bustest.Main(m) }

// newJournal makes an empty journal for one case, on the goroutine of the case.
type newJournal func(t testing.TB) engine.Journal

func newMemory(testing.TB) engine.Journal { return engine.NewMemory() }

// onJetStream starts a server on which each journal is a space of its own.
func onJetStream(t *testing.T) newJournal {
	b := bustest.New(t)
	return func(t testing.TB) engine.Journal { return b.NewSpace(t) }
}

func TestJournalInMemory(t *testing.T) { journaltest.Run(t, newMemory) }

func TestEngineInMemory(t *testing.T) {
	t.Parallel()
	runEngine(t, newMemory)
}

func TestEngineOnJetStream(t *testing.T) {
	t.Parallel()
	runEngine(t, onJetStream(t))
}

// runEngine runs all cases on journals that open makes. After each case it audits the whole
// journal: the state machine could have written every history, and a durable event record
// allowed every effect, once, with the input that was decided.
func runEngine(t *testing.T, open newJournal) {
	for _, part := range []struct {
		name  string
		cases []engineCase
	}{
		{"propose", proposeCases()},
		{"requester", requesterCases()},
		{"declare", declareCases()},
		{"denials", denialCases()},
		{"batch", batchCases()},
		{"hidden", hiddenCases()},
		{"submit_response", answerCases()},
		{"digest", digestCases()},
		{"remember", rememberCases()},
		{"remember by rule", rememberRuleCases()},
		{"remember an edit", rememberEditCases()},
		{"remember plain rules", rememberPlainCases()},
		{"an external call begins", beginCases()},
		{"revoke while a call begins", revokeRaceCases()},
		{"budget", budgetCases()},
		{"quorum", quorumCases()},
		{"redact", redactCases()},
		{"interrupt", interruptCases()},
		{"an interrupt that comes first", interruptFirstCases()},
		{"worker", workerCases()},
		{"route", routeCases()},
		{"recorded explanations", recordCases()},
		{"result", resultCases()},
		{"resolve", resolveCases()},
		{"restart", restartCases()},
		{"replicas", replicaCases()},
		{"an engine dies", deathCases()},
		{"events", eventCases()},
		{"query", queryCases()},
		{"newest", newestCases()},
		{"preview", previewCases()},
		{"summary", summaryCases()},
		{"roles", roleCases()},
		{"bad input", badInputCases()},
		{"faults", faultCases()},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range part.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					ctx := bounded(t)
					c.run(newWorld(ctx, t, open))
				})
			}
		})
	}
}

type engineCase struct {
	name string
	run  func(*world)
}

// A case that takes longer than caseTime is given up: its context ends, and calls that honor
// it fail with an error that says so. A case that still runs after caseLimit ends the test
// binary with the stacks of all goroutines.
const (
	caseTime  = 60 * time.Second
	caseLimit = 90 * time.Second
)

// bounded returns the context of a case that begins now. Call it before the case registers
// its own cleanup, so that the limit includes that cleanup.
func bounded(t *testing.T) context.Context {
	t.Helper()
	watchdog := time.AfterFunc(caseLimit, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("%s hangs: it has not ended after %s", t.Name(), caseLimit))
	})
	t.Cleanup(func() { watchdog.Stop() })
	ctx, cancel := context.WithTimeoutCause(t.Context(), caseTime, fmt.Errorf("%s takes longer than %s", t.Name(), caseTime))
	t.Cleanup(cancel)
	return ctx
}
