package journal_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/engine/journaltest"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/toolcall"
)

// The journal on JetStream keeps the contract. The tests of package engine run
// engines on it.
func TestJournalContract(t *testing.T) {
	b := bustest.New(t)
	var spaces atomic.Int32
	journaltest.Run(t, func(t testing.TB) engine.Journal {
		nc, err := b.Connect(t.Context(), bus.ConnectOptions{Principal: "engine"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		space := toolcall.SpaceID(fmt.Sprint("s", spaces.Add(1)))
		j, err := journal.Open(t.Context(), nc, space, b.Keys(), journal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return j
	})
}
