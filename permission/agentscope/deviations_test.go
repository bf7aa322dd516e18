package agentscope

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

var update = flag.Bool("update", false, "rewrite DEVIATIONS.md")

// untagged contains the rows without a tag that we decide more strictly, with the reason for
// each. The test fails for a deviating row that is not listed and for a listed row that agrees.
// TestUntaggedRowsDoHarm shows for each what upstream's decision lets happen.
var untagged = map[string]string{
	"deny_prefix_not_first": "a deny rule applies to every simple command of a line, not only to the first: in AgentScope one approval, " +
		"or in bypass mode none, would run what the rule denies",
	"allow_glob_dotdot": "an allow rule applies to the file that a path resolves to: `..` leads out of the rule's folder, " +
		"and AgentScope would write a file that no rule allows",
	"touch_quoted_outside": "an argument in quotes is a path, too, and this one is outside the working directories: " +
		"AgentScope would write a file that no rule and no mode allows",
	"write_in_cwd/dont_ask": "dont_ask never allows what default mode asks about: AgentScope would write the file, and no rule allows it",
	"mv_in_cwd/dont_ask":    "dont_ask never allows what default mode asks about: AgentScope would move the file, and no rule allows it",
}

// listed returns the listed deviation that a recorded row without a note shows, or "".
// DEVIATIONS.md lists them.
func (d decided) listed() string {
	protects := func(r message.PermissionRule) bool {
		return r.ToolName == d.Tool && r.Behavior != message.BehaviorAllow && r.RuleContent != nil && *r.RuleContent != ""
	}
	switch {
	case d.Mode == permission.ModeDontAsk && d.Expect.Behavior == message.BehaviorAllow && d.Expect.Step == StepWorkingDirectory:
		return "edit_in_dont_ask"
	case (d.Tool == "Grep" || d.Tool == "Glob") && d.Expect.Step == permission.StepReadOnly && slices.ContainsFunc(d.Rules, protects):
		return "search_above_a_rule"
	}
	return ""
}

// looseness orders behaviors.
var looseness = map[message.Behavior]int{message.BehaviorDeny: 0, message.BehaviorAsk: 1, message.BehaviorAllow: 2}

// We agree with every recorded decision except for rows that are tagged as unsafe or odd and the
// few named above. We are never looser.
func TestDecisions(t *testing.T) {
	for _, row := range decisions(t) {
		got := row.decide(t)
		tag := row.Hazard + row.Quirk
		_, listed := untagged[row.Name]
		switch agrees := cmp.Equal(row.Expect, row.asUpstream(got)); {
		case agrees && (tag != "" || listed):
			t.Errorf("%s (%s%s): we agree with upstream", row.Name, tag, untagged[row.Name])
		case !agrees && tag == "" && !listed:
			t.Errorf("%s (-upstream +ours):\n%s", row.Name, cmp.Diff(row.Expect, got))
		}
		if looseness[got.Behavior] > looseness[row.Expect.Behavior] {
			t.Errorf("%s: %s, upstream %s", row.Name, got.Behavior, row.Expect.Behavior)
		}
		if row.Hazard != "" && got.Behavior == message.BehaviorAllow {
			t.Errorf("%s: the hazard %s is allowed", row.Name, row.Hazard)
		}
	}
}

// Our analysis differs from upstream's only in the cuts after multi-byte characters, which we
// make in the right place.
func TestAnalyses(t *testing.T) {
	for _, row := range analyses(t) {
		quirk := row.Quirk
		row.Quirk = ""
		if agrees := cmp.Equal(row, analyse(row.Command)); agrees == (quirk != "") {
			t.Errorf("%q: agrees %v, tagged %q", row.Command, agrees, quirk)
		}
	}
}

// An allow rule never matches more than upstream's, and a deny or ask rule never matches less.
func TestMatches(t *testing.T) {
	for _, row := range matches(t) {
		if got, err := row.match(t, message.BehaviorAllow); got && (err != nil || !row.Match) {
			t.Errorf("allow rule %v of %s matches %v (%v)", deref(row.Content), row.Tool, row.Input, err)
		}
		for _, b := range []message.Behavior{message.BehaviorDeny, message.BehaviorAsk} {
			if got, err := row.match(t, b); row.Match && !got && err == nil {
				t.Errorf("%s rule %v of %s does not match %v", b, deref(row.Content), row.Tool, row.Input)
			}
		}
	}
}

// DEVIATIONS.md is generated from the rows and must be up to date.
func TestDeviations(t *testing.T) {
	got := deviations(t)
	if *update {
		if err := os.WriteFile("DEVIATIONS.md", []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("DEVIATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("DEVIATIONS.md differs from the rows; run this test with -update (-file +rows):\n%s", diff)
	}
}

const head = `# Where askance differs from AgentScope's own tools

For authors of policies who know AgentScope's rules: where askance decides otherwise.
A test generates this page from the recorded rows in testdata/agentscope; do not edit it.

`

// classes describes the deviations of whole classes of calls.
const classes = `## Modes and searches

Four differences hold for every call of their kind; TestRecordedDecisions compares them with the recorded rows.

- For a command askance suggests the rule that covers this command or line and nothing else. AgentScope suggests the first two words of each command with anything behind them.
- Mode dont_ask allows only what default mode allows. AgentScope also allows edits in working directories there.
- A search by Glob or Grep that may find a file which a deny or ask rule is about is asked about. AgentScope compares the rule with the folder alone.
- A deny or ask rule with content about a tool of kind read is also about the calls of bash, edit, glob and grep that can show what is in the file. In AgentScope it is about its own tool.

`

func deviations(t *testing.T) string {
	var b strings.Builder
	b.WriteString(head)
	decisionTables(t, &b)
	b.WriteString(classes)
	analysisTable(t, &b)
	matchTable(t, &b)
	return b.String()
}

func decisionTables(t *testing.T, b *strings.Builder) {
	var tagged, others []string
	rows := decisions(t)
	for _, row := range rows {
		got := row.decide(t)
		if cmp.Equal(row.Expect, row.asUpstream(got)) {
			continue
		}
		why, listed := untagged[row.Name]
		if !listed {
			why = row.Hazard + row.Quirk
		}
		line := fmt.Sprintf("| %s | %s | %s | %s | %s |\n", code(row.call()), row.Mode, answer(row.Expect), answer(got), why)
		if listed {
			others = append(others, line)
		} else {
			tagged = append(tagged, line)
		}
	}
	fmt.Fprintf(b, "## Decisions\n\n%d of %d rows differ. The recording marks the rows of the first table as unsafe or odd. "+
		"It does not mark those of the second; TestUntaggedRowsDoHarm runs each of them in bash and shows that AgentScope's decision "+
		"would let something happen that no rule allows.\n\n", len(tagged)+len(others), len(rows))
	for _, part := range [][]string{tagged, others} {
		b.WriteString("| call, and rules | mode | AgentScope | askance | why |\n|---|---|---|---|---|\n" + strings.Join(part, "") + "\n")
	}
}

func (d decided) call() string {
	out := d.Tool + " " + string(d.Input)
	for _, r := range d.Rules {
		out += fmt.Sprintf("; %s %s", r.Behavior, deref(r.RuleContent))
	}
	return out
}

func answer(v verdict) string {
	out := string(v.Behavior) + " by " + string(v.Step)
	if v.BypassImmune {
		out += ", immune"
	}
	var contents []string
	for _, s := range v.Suggested {
		contents = append(contents, code(deref(s.RuleContent)))
	}
	if contents != nil {
		out += "; suggests " + strings.Join(contents, ", ")
	}
	return out
}

func analysisTable(t *testing.T, b *strings.Builder) {
	b.WriteString("## Parts of a command\n\nAgentScope counts bytes but cuts characters, so every part after a multi-byte character is shifted.\n\n" +
		"| command | AgentScope | askance |\n|---|---|---|\n")
	for _, row := range analyses(t) {
		row.Quirk = ""
		if got := analyse(row.Command); !cmp.Equal(row, got) {
			fmt.Fprintf(b, "| %s | %s | %s |\n", code(row.Command), code(strings.Join(row.Subcommands, " ; ")), code(strings.Join(got.Subcommands, " ; ")))
		}
	}
	b.WriteString("\n")
}

func matchTable(t *testing.T, b *strings.Builder) {
	var lines []string
	rows := matches(t)
	for _, row := range rows {
		allow, errAllow := row.match(t, message.BehaviorAllow)
		deny, errDeny := row.match(t, message.BehaviorDeny)
		if allow == row.Match && deny == row.Match && errAllow == nil && errDeny == nil {
			continue
		}
		input, err := json.Marshal(row.Input)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", row.Tool, code(deref(row.Content)), code(string(input)),
			matchWord(row.Match, nil), matchWord(allow, errAllow), matchWord(deny, errDeny)))
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	fmt.Fprintf(b, "## Contents of rules\n\n%d of %d rows differ. An allow rule matches less than in AgentScope, a deny or ask rule more. "+
		"If askance cannot know what a command does before it runs, a deny or ask rule may match, and the call is asked about.\n\n", len(lines), len(rows))
	b.WriteString("| tool | content | input | AgentScope | as an allow rule | as a deny or ask rule |\n|---|---|---|---|---|---|\n" + strings.Join(lines, ""))
}

func matchWord(m bool, err error) string {
	switch {
	case err != nil:
		return "may match"
	case m:
		return "matches"
	}
	return "no"
}

// code formats a text for a table.
func code(s string) string {
	s = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", "&#124;", "\n", "⏎", "`", "&#96;", "*", "&#42;", `\`, "&#92;").Replace(s)
	return "<code>" + s + "</code>"
}
