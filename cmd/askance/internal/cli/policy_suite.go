package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/explain"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/lint"
	"github.com/askance-dev/askance/permission/suite"
)

type policyTesting struct {
	policyFiles
	record        string
	verbose, full bool
}

func newPolicyTestCommand(env *environment) *cobra.Command {
	p := policyTesting{policyFiles: policyFiles{cfg: &env.cfg}}
	c := &cobra.Command{
		Use:   "test [FILE...]",
		Short: "Run the tests of rule files and measure their coverage",
		Long: `Runs every test of the rule files. A failed test shows the expected result, the actual
result and the reason. Then the command lists what no test covers: rules, and the parts
of their conditions between &&; each part should be true in one test and false in
another.

Exits with code 7 if a test fails, with --full also if something is not covered. A
policy without tests passes.`,
		Example: `  askance policy test rules.yaml --tools tools.yaml
  askance policy test rules/ --tools tools.yaml --full --record rules.recorded
  askance policy test rules.yaml --tools tools.yaml --json`,
		Args:              anyRuleFiles,
		ValidArgsFunction: completeRules,
		RunE:              func(c *cobra.Command, args []string) error { return runPolicyTest(c.Context(), env, p, args) },
	}
	p.flags(c)
	f := c.Flags()
	f.BoolVarP(&p.verbose, "verbose", "v", false, "also list passed tests")
	f.BoolVar(&p.full, "full", false, "fail if a rule or a part of its condition is not covered")
	f.StringVar(&p.record, "record", "", "if all tests pass, record the tools and the language in this file, for lint --recorded")
	return c
}

func runPolicyTest(ctx context.Context, env *environment, p policyTesting, args []string) error {
	s, policy, b, err := loadPolicy(ctx, env, &p.policyFiles, args)
	if err != nil {
		return err
	}
	report := suite.Run(ctx, policy, b)
	s.doubtTools(policy, report)
	if err := env.print(report, suiteText(env.out, report, p.verbose)); err != nil {
		return err
	}
	switch {
	case report.Failed > 0:
		return findingsf("%d of %s failed", report.Failed, asked.Count(len(report.Results), "test"))
	case p.full && slices.ContainsFunc(report.Rules, func(c *suite.RuleCoverage) bool { return len(missingTests(report, c)) > 0 }):
		return findingsf("the tests do not cover every rule, which --full requires; add the tests that the list names")
	case p.record != "":
		data, err := strictjson.Marshal(lint.NewRecord(s.opts.Tools))
		if err != nil {
			return err
		}
		return replaceFile(p.record, append(data, '\n'), 0o644)
	}
	return nil
}

// doubtTools finds tests about tools that the tools file does not declare: such a
// call always needs approval.
func (s policySource) doubtTools(policy permission.Policy, r *suite.Report) {
	for i, t := range policy.Tests {
		if r.Results[i].Passed && !s.declares(t.Call.Tool) {
			r.Results[i].Doubts = append(r.Results[i].Doubts, "the tools file does not declare "+t.Call.Tool+", so only rules for any tool apply")
		}
	}
}

// missingTests lists what no test of the rule covers.
func missingTests(r *suite.Report, c *suite.RuleCoverage) []string {
	switch {
	case c.Matched == 0 && c.Spared == 0:
		return []string{"is not covered by a test"}
	case c.Matched == 0:
		return []string{"applies in no test"}
	default:
		return r.Missing(c.Rule)
	}
}

func suiteText(out *term.Out, r *suite.Report, verbose bool) string {
	var b strings.Builder
	for _, res := range r.Results {
		b.WriteString(testResultText(out, res, verbose))
	}
	full := 0
	for _, c := range r.Rules {
		missing := missingTests(r, c)
		if len(missing) == 0 {
			full++
		}
		for _, m := range missing {
			fmt.Fprintf(&b, "%s %s %s\n", out.Ask("not covered"), out.Name(term.SafeLine(c.Rule)), term.SafeLine(m))
		}
	}
	if len(r.Results) == 0 {
		b.WriteString("There are no tests. Add some under tests: in the rule file.\n")
	}
	fmt.Fprintf(&b, "%s: %d passed, %d failed; %d of %s and %d of %s covered\n", asked.Count(len(r.Results), "test"), r.Passed, r.Failed,
		full, asked.Count(len(r.Rules), "rule"), r.Covered, asked.Count(r.Parts, "part"))
	return b.String()
}

func testResultText(out *term.Out, res *suite.Result, verbose bool) string {
	var b strings.Builder
	place := out.Dim(explain.Place(res.Place))
	for _, doubt := range res.Doubts {
		fmt.Fprintf(&b, "%s %s passes, but %s  %s\n", out.Ask("note"), term.SafeLine(res.Name), term.SafeLine(doubt), place)
	}
	switch {
	case res.Passed && verbose:
		fmt.Fprintf(&b, "%s %s\n", out.Good("pass"), term.SafeLine(res.Name))
	case !res.Passed:
		fmt.Fprintf(&b, "%s %s  %s\n", out.Bad("FAIL"), out.Bold(term.SafeLine(res.Name)), place)
		for _, f := range res.Faults {
			fmt.Fprintf(&b, "  %s: expected %s, got %s\n", f.What, out.Good(term.SafeLine(f.Want)), out.Bad(term.SafeLine(f.Got)))
		}
		for _, line := range res.Why {
			fmt.Fprintf(&b, "  %s\n", term.SafeLine(line))
		}
	}
	return b.String()
}
