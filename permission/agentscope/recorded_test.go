package agentscope

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/message"
)

// further are more rows of the kinds of testdata/agentscope; see
// testdata/recorded/README.md.
type further struct {
	decided
	Stricter string `json:"stricter"` // why the guarded reading differs
}

// The strict reading gives upstream's answer, and the guarded one does so
// wherever no reason is noted.
func TestRecordedDecisions(t *testing.T) {
	for _, row := range rows[further](t, "recorded/permission.jsonl", 500) {
		if diff := cmp.Diff(row.Expect, row.decide(t, Strict)); diff != "" {
			t.Errorf("%s %s in %s, strict (-upstream +ours):\n%s", row.Name, row.call(), row.Mode, diff)
		}
		got := row.decide(t, Guarded)
		diff := cmp.Diff(row.Expect, got)
		if (diff != "") != (row.Stricter != "") {
			t.Errorf("%s %s in %s, guarded, noted as stricter %q (-upstream +ours):\n%s", row.Name, row.call(), row.Mode, row.Stricter, diff)
		}
		if looseness[got.Behavior] > looseness[row.Expect.Behavior] {
			t.Errorf("%s %s in %s: %s, upstream %s", row.Name, row.call(), row.Mode, got.Behavior, row.Expect.Behavior)
		}
	}
}

func TestRecordedAnalyses(t *testing.T) {
	for _, row := range rows[analysed](t, "recorded/bash_analysis.jsonl", 500) {
		if diff := cmp.Diff(row, analyse(row.Command, true)); diff != "" {
			t.Errorf("%q (-upstream +ours):\n%s", row.Command, diff)
		}
	}
}

func TestRecordedMatches(t *testing.T) {
	for _, row := range rows[matched](t, "recorded/match_rule.jsonl", 500) {
		for _, b := range []message.Behavior{message.BehaviorAllow, message.BehaviorDeny, message.BehaviorAsk} {
			if got, err := row.match(t, Strict, b); err != nil || got != row.Match {
				t.Errorf("%s rule %v of %s with %v: %v, %v; upstream: %v", b, deref(row.Content), row.Tool, row.Input, got, err, row.Match)
			}
		}
	}
}
