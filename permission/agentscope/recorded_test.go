package agentscope

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// further is another row of the kinds in testdata/agentscope; see testdata/recorded/README.md.
type further struct {
	decided
	Stricter string `json:"stricter"` // why we differ
}

// The oracle returns upstream's decision. So do we, unless a reason is noted or a deviation is
// listed. In explore mode we deny calls that an ask rule matches, unless they are read-only.
func TestRecordedDecisions(t *testing.T) {
	listed := map[string]int{}
	for _, row := range rows[further](t, "recorded/permission.jsonl", 500) {
		if diff := cmp.Diff(row.Expect, row.upstream(t)); diff != "" {
			t.Errorf("%s %s in %s, oracle (-upstream +oracle):\n%s", row.Name, row.call(), row.Mode, diff)
		}
		got := row.decide(t)
		want := row.Expect
		if want.Behavior == message.BehaviorAsk && want.Step == permission.StepRule && got.Step == permission.StepFallbackExplore {
			want = verdict{Behavior: message.BehaviorDeny, Step: permission.StepFallbackExplore}
		}
		diff := cmp.Diff(want, row.asUpstream(got))
		if class := row.listed(); class != "" && row.Stricter == "" && diff != "" {
			listed[class]++
			if got.Behavior == message.BehaviorAllow {
				t.Errorf("%s %s in %s: allowed by %s", row.Name, row.call(), row.Mode, got.Step)
			}
			diff = ""
		}
		if (diff != "") != (row.Stricter != "") {
			t.Errorf("%s %s in %s, noted as stricter %q (-upstream +ours):\n%s", row.Name, row.call(), row.Mode, row.Stricter, diff)
		}
		if looseness[got.Behavior] > looseness[row.Expect.Behavior] {
			t.Errorf("%s %s in %s: %s, upstream %s", row.Name, row.call(), row.Mode, got.Behavior, row.Expect.Behavior)
		}
	}
	if listed["search_above_a_rule"] != 12 || listed["edit_in_dont_ask"] == 0 {
		t.Errorf("the rows of listed deviations are %v", listed)
	}
}

func TestRecordedAnalyses(t *testing.T) {
	for _, row := range rows[analysed](t, "recorded/bash_analysis.jsonl", 500) {
		if diff := cmp.Diff(row, analyseAsUpstream(row.Command)); diff != "" {
			t.Errorf("%q (-upstream +ours):\n%s", row.Command, diff)
		}
	}
}

func TestRecordedMatches(t *testing.T) {
	for _, row := range rows[matched](t, "recorded/match_rule.jsonl", 500) {
		if got, err := row.upstream(); err != nil || got != row.Match {
			t.Errorf("rule %v of %s with %v: %v, %v; upstream: %v", deref(row.Content), row.Tool, row.Input, got, err, row.Match)
		}
	}
}
