package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/permission"
)

// A lease that heartbeats cannot keep is refused before the engine works.
func TestShortestLease(t *testing.T) {
	for lease, good := range map[time.Duration]bool{
		0: true, time.Nanosecond: false, engine.MinLease - 1: false, engine.MinLease: true, time.Hour: true,
	} {
		_, err := engine.New("default", engine.NewMemory(), new(permission.Bundle), []engine.Tool{{Tool: permission.Tool{Name: "pay"}, Lease: lease}})
		if (err == nil) != good || err != nil && (!strings.Contains(err.Error(), `"pay"`) || !strings.Contains(err.Error(), "500ms")) {
			t.Errorf("an engine with a lease of %s: %v", lease, err)
		}
	}
}
