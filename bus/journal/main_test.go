package journal_test

import (
	"testing"

	"github.com/askance-dev/askance/internal/bustest"
)

func TestMain(m *testing.M) { bustest.Main(m) }

// job is a remote tool.
const job = "job"
