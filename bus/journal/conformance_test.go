package journal_test

import (
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/engine/journaltest"
	"github.com/askance-dev/askance/internal/bustest"
)

// The journal on JetStream keeps the contract. The tests of package engine run
// engines on it.
func TestJournalContract(t *testing.T) {
	b := bustest.New(t)
	journaltest.Run(t, func(t testing.TB) engine.Journal { return b.NewSpace(t) })
}
