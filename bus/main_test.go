package bus_test

import (
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message/api"
)

// The interfaces that the engine and the executor require.
var (
	_ engine.Journal     = (*journal.Journal)(nil)
	_ engine.Client      = (*bus.Client)(nil)
	_ engine.Signals     = (*bus.Signals)(nil)
	_ api.Caller         = (*engine.Port)(nil)
	_ bus.Observer       = (*engine.Engine)(nil)
	_ bus.TaskReader     = (*journal.Journal)(nil)
	_ bus.AuditLedger    = (*journal.Ledger)(nil)
	_ journal.Auditing   = (*bus.Client)(nil)
	_ executor.Transport = (*bus.Worker)(nil)
)

func TestMain(m *testing.M) { bustest.Main(m) }
