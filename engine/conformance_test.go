package engine_test

import (
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/engine/enginetest"
)

func TestConformance(t *testing.T) {
	enginetest.Run(t, func(testing.TB) engine.Journal { return engine.NewMemory() })
}
