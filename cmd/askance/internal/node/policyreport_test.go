package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission"
)

// TestReporterTellsWatchedRules: a rule that only warns or audits would never be
// heard of otherwise. What was said is not said again.
func TestReporterTellsWatchedRules(t *testing.T) {
	var out bytes.Buffer
	r := reporter{log: slog.New(slog.NewTextHandler(&out, nil)), failed: map[string]uint64{}, watched: map[string]uint64{}}
	for _, step := range []struct {
		watched uint64
		want    string
	}{{3, "rule=cap times=3"}, {3, ""}, {4, "rule=cap times=1"}} {
		out.Reset()
		r.say(permission.Status{ByRule: []permission.RuleCount{{Rule: "cap", Watched: step.watched}}})
		if got := out.String(); !strings.Contains(got, step.want) || (step.want == "") != (got == "") {
			t.Errorf("said %q, want %q in it", got, step.want)
		}
	}
}
