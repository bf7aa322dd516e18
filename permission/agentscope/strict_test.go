package agentscope

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/message"
)

// In the strict reading every recorded decision is upstream's, down to the part
// that decided and the rules that it suggests.
func TestStrictDecisions(t *testing.T) {
	for _, row := range decisions(t) {
		if diff := cmp.Diff(row.Expect, row.decide(t, Strict)); diff != "" {
			t.Errorf("%s (-upstream +ours):\n%s", row.Name, diff)
		}
	}
}

func TestStrictAnalyses(t *testing.T) {
	for _, row := range analyses(t) {
		quirk := row.Quirk
		row.Quirk = ""
		if diff := cmp.Diff(row, analyse(row.Command, true)); diff != "" {
			t.Errorf("%q %s (-upstream +ours):\n%s", row.Command, quirk, diff)
		}
	}
}

func TestStrictMatches(t *testing.T) {
	for _, row := range matches(t) {
		for _, b := range []message.Behavior{message.BehaviorAllow, message.BehaviorDeny, message.BehaviorAsk} {
			if got, err := row.match(t, Strict, b); err != nil || got != row.Match {
				t.Errorf("%s rule %v of %s with %v: %v, %v; upstream: %v", b, deref(row.Content), row.Tool, row.Input, got, err, row.Match)
			}
		}
	}
}

func deref(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}
