package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/explain"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

func newPolicyStatusCommand(env *environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the policy in force in a running engine, and how often each rule decided",
		Long: `Asks a running engine for the policy in force with its files and their digests, the time
when it came into force, the error of the last reload, the calls that each rule decided,
and the differences of the shadow policy. A rule that a reload does not change keeps its
counts.

Each engine counts its own decisions since it started. The first line names the engine.`,
		Example: `  askance policy status
  askance policy status --json
  askance policy status --nats nats://nats.internal:4222 --creds auditor.creds`,
		Args: noArgs,
		RunE: operation[struct{}, api.PolicyStatusReply]{role: toolcall.RoleAuditor, call: api.PolicyStatus.Call, request: always(&struct{}{}), text: policyStatusText}.run(env),
	}
	env.cfg.bindClient(c)
	return c
}

func policyStatusText(out *term.Out, _ struct{}, r api.PolicyStatusReply) string {
	var b strings.Builder
	s := newSheet(out, 8, fmt.Sprintf("%s in engine %s", asked.Count(r.Rules, "rule"), term.SafeLine(r.Engine)))
	s.row("policy", term.SafeLine(r.Bundle))
	if !r.Loaded.IsZero() {
		s.row("since", r.Loaded.Local().Format(time.DateTime))
	}
	for _, f := range r.Files {
		s.row("file", term.SafeLine(fmt.Sprintf("%s (%s) %s", f.Name, f.Layer, f.Digest)))
	}
	for _, f := range r.Ignored {
		s.row("note", term.SafeLine(f))
	}
	s.row("calls", fmt.Sprintf("%d decided, %d could not be evaluated", r.Calls, r.Failures))
	if r.Alarm != "" {
		s.row("error", out.Bad("the newest policy has been refused since "+r.AlarmSince.Local().Format(time.DateTime)))
		for line := range strings.Lines(r.Alarm) {
			s.row("", term.SafeLine(strings.TrimRight(line, "\n")))
		}
	}
	b.WriteString(s.String())
	rules := slices.Clone(r.ByRule)
	slices.SortStableFunc(rules, func(x, y api.PolicyRuleCount) int { return cmp.Compare(y.Decided, x.Decided) })
	rows := make([][]string, 0, len(rules))
	for _, c := range rules {
		behavior := "-"
		if c.Behavior != "" {
			behavior = explain.Behavior(out, c.Behavior)
		}
		rows = append(rows, []string{term.SafeLine(c.Rule), behavior, fmt.Sprint(c.Decided), fmt.Sprint(c.Watched), fmt.Sprint(c.Failed), c.Since.Local().Format(time.DateTime)})
	}
	if len(rows) > 0 {
		b.WriteString("\n" + tableText(out, []string{"RULE", "BEHAVIOR", "DECIDED", "WATCHED", "FAILED", "SINCE"}, rows))
	}
	if r.Shadow != nil {
		b.WriteString("\n" + shadowText(out, r.Shadow))
	}
	return b.String()
}

func shadowText(out *term.Out, s *api.ShadowPolicyStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Shadow policy %s, %s: a different decision for %d of %d calls\n", term.SafeLine(s.Bundle), asked.Count(s.Rules, "rule"), s.Differing, s.Compared)
	if s.Alarm != "" {
		b.WriteString(out.Bad("the newest shadow policy is refused: ") + term.SafeLine(s.Alarm) + "\n")
	}
	for _, d := range s.Differences {
		fmt.Fprintf(&b, "  %d calls of %s in %s: %s -> %s\n", d.Count, term.SafeLine(d.Tool), term.SafeLine(string(d.Mode)), shortVerdictText(d.Live), shortVerdictText(d.Shadow))
	}
	return b.String()
}

func shortVerdictText(v api.PolicyVerdict) string {
	by := v.Rule
	if by == "" {
		by = asked.Source(v.Step)
	}
	return term.SafeLine(fmt.Sprintf("%s (%s)", v.Behavior, by))
}

func newPolicyShowCommand(env *environment) *cobra.Command {
	r := api.PolicyTextRequest{V: 1}
	c := &cobra.Command{
		Use:   "show [RULE]",
		Short: "Show the text of the policy in force in a running engine, or of one rule",
		Long: `Prints the rule files as the engine loaded them, or one rule with its file and line.
--version shows an earlier policy: askance policy status lists the versions since the
start of the engine.`,
		Example: `  askance policy show
  askance policy show refund-limit
  askance policy show --version sha256:d99fa30f… --json`,
		Args: optional(wantArgs(1, "at most one rule")),
		PreRunE: func(_ *cobra.Command, args []string) error {
			r.Rule = onlyArg(args)
			return nil
		},
		RunE: operation[api.PolicyTextRequest, api.PolicyTextReply]{role: toolcall.RoleAuditor, call: api.PolicyText.Call, request: always(&r), text: policyText}.run(env),
	}
	env.cfg.bindClient(c)
	c.Flags().StringVar(&r.Bundle, "version", "", "hash of an earlier policy (default: the one in force)")
	return c
}

func policyText(out *term.Out, r api.PolicyTextRequest, t api.PolicyTextReply) string {
	var b strings.Builder
	if r.Rule != "" {
		for _, rule := range t.Rules {
			fmt.Fprintf(&b, "%s\n%s\n", out.Dim(fmt.Sprintf("# %s:%d, in force since %s", term.SafeLine(rule.File), rule.Line, t.Loaded.Local().Format(time.DateTime))), term.Safe(rule.Text))
		}
		return b.String()
	}
	fmt.Fprintf(&b, "%s\n", out.Dim(fmt.Sprintf("# %s with %s, in force since %s", t.Bundle, asked.Count(len(t.Rules), "rule"), t.Loaded.Local().Format(time.DateTime))))
	for _, f := range t.Files {
		fmt.Fprintf(&b, "%s\n%s\n", out.Dim(fmt.Sprintf("# %s (layer %s)", term.SafeLine(f.Name), f.Layer)), strings.TrimRight(term.Safe(f.Text), "\n"))
		if f.Text == "" {
			b.WriteString(out.Dim("# too large to show in full; name a rule") + "\n")
		}
	}
	return b.String()
}
