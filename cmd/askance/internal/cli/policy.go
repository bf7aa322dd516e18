package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/explain"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/linediff"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/format"
	"github.com/askance-dev/askance/permission/lint"
	"github.com/askance-dev/askance/permission/suite"
)

func newPolicyCommand(env *environment) *cobra.Command {
	return newGroup(&cobra.Command{
		Use:   "policy",
		Short: "Check, test, explain and compare policies, and show the one in force",
		Long: `These commands need only rule files and a tools file. Name the files as arguments, or
with --policy, ASKANCE_POLICY or askance.yaml, as for askance serve. managed=FILE,
user=FILE and run=FILE set another layer than project. A command that reads a file once
accepts - for standard input, and process substitution (<(…)).

Only put, status and show need a running engine, and only put changes its policy.

docs/tutorials/policy.md leads from an empty folder to a tested policy in ten minutes.`,
		Example: `  askance policy lint rules.yaml --tools tools.yaml
  askance policy test rules.yaml --tools tools.yaml
  askance policy explain rules.yaml --tools tools.yaml --tool refund --args '{"cents": 900}'
  askance policy replay candidate.yaml --data ./data`,
	},
		newPolicyLintCommand(env), newPolicyTestCommand(env), newPolicyExplainCommand(env),
		newPolicyReplayCommand(env), newPolicyDiffCommand(env), newPolicyFmtCommand(env),
		newPolicyVarsCommand(env), newPolicySchemaCommand(env), newPolicyImportCommand(env),
		newPolicyPutCommand(env), newPolicyStatusCommand(env), newPolicyShowCommand(env),
	)
}

type policyFiles struct {
	cfg *config

	declared []toolfile.Tool // of the tools file, once it is read
}

func (p *policyFiles) flags(c *cobra.Command) {
	p.cfg.bindAs(c, &p.cfg.Policy, "rule file, or folder of rule files, prefixed with LAYER= if the layer is not project; may be repeated; the same as an argument")
	p.toolsFlag(c)
}

func (p *policyFiles) toolsFlag(c *cobra.Command) {
	p.cfg.bind(c, &p.cfg.Tools)
	_ = c.MarkFlagFilename("tools", "yaml", "yml")
}

func completeRules(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// anyRuleFiles are the arguments of a command about one policy.
func anyRuleFiles(*cobra.Command, []string) error { return nil }

type policySource struct {
	files   []permission.File
	ignored []permission.Notice // other files in the folders
	opts    permission.Options
}

// readPolicy reads the rule files and the tools. Arguments take precedence over --policy
// and the settings.
func readPolicy(ctx context.Context, env *environment, p *policyFiles, args []string) (policySource, error) {
	paths := args
	if len(paths) == 0 {
		paths = p.cfg.Policy
	}
	if len(paths) == 0 {
		return policySource{}, usagef("no rule files: name them as arguments, or with --policy")
	}
	var s policySource
	var err error
	if s.opts, err = p.options(); err != nil {
		return s, err
	}
	s.files, s.ignored, err = readRuleFiles(ctx, env, paths)
	return s, err
}

// readRuleFiles reads rule files once, so it accepts standard input and process
// substitution, which an engine could not read again.
func readRuleFiles(ctx context.Context, env *environment, paths []string) ([]permission.File, []permission.Notice, error) {
	var once []permission.File
	var again []string
	for _, path := range paths {
		layer, bare := permission.CutLayer(path)
		f := permission.File{Name: bare, Layer: layer}
		var err error
		switch {
		case bare == "-":
			f.Name = standardInput
			f.Data, err = env.readStandardInput("rules", permission.MaxFileBytes)
		case plainfile.HandedOver(bare):
			f.Data, err = textfile.ReadHanded("rule file", bare, permission.MaxFileBytes)
		default:
			again = append(again, path)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		once = append(once, f)
	}
	if len(again) == 0 {
		return once, nil, nil
	}
	source := permission.Paths(again...)
	files, err := source.Read(ctx)
	return append(files, once...), source.Ignored(), err
}

const standardInput = "standard input"

// options returns those of an engine with these tools, without its time limits.
func (p *policyFiles) options() (permission.Options, error) {
	if p.cfg.Tools != "" && p.declared == nil { // only once: it can be a pipe
		data, err := textfile.ReadHanded("tools file", p.cfg.Tools, textfile.MaxBytes)
		if err == nil {
			p.declared, err = toolfile.Parse(p.cfg.Tools, data)
		}
		if err != nil {
			return permission.Options{}, err
		}
	}
	opts := node.PolicyOptions(p.declared)
	opts.Unhurried = true
	return opts, nil
}

func (s policySource) load() (permission.Policy, *permission.Bundle, error) {
	b, err := permission.Load(s.files, s.opts)
	if err != nil {
		return permission.Policy{}, nil, err
	}
	policy, err := permission.Parse(s.files...)
	return policy, b, err
}

func loadPolicy(ctx context.Context, env *environment, p *policyFiles, args []string) (s policySource, policy permission.Policy, b *permission.Bundle, err error) {
	if s, err = readPolicy(ctx, env, p, args); err == nil {
		policy, b, err = s.load()
	}
	return s, policy, b, err
}

func (p *policyFiles) completeTools(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	opts, err := p.options()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(slices.Values(toolNames(opts.Tools))), cobra.ShellCompDirectiveNoFileComp
}

func toolNames(tools []permission.Tool) []string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return names
}

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
		if r.Results[i].Passed && !s.declares(policy, t.Call.Tool) {
			r.Results[i].Doubts = append(r.Results[i].Doubts, "the tools file does not declare "+t.Call.Tool+", so only rules for any tool and for its server apply")
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

type formatted struct {
	File    string `json:"file"`
	Changed bool   `json:"changed"`
}

type formatting struct {
	policyFiles
	check, diff bool
}

func newPolicyFmtCommand(env *environment) *cobra.Command {
	p := formatting{policyFiles: policyFiles{cfg: &env.cfg}}
	c := &cobra.Command{
		Use:   "fmt [FILE...]",
		Short: "Format rule files and keep their comments",
		Long: `Puts keys into their usual order, separates rules with blank lines and indents by two
spaces. Comments keep their place, and values do not change. A file whose policy would
change is not written.

With - it formats standard input to standard output. --check writes nothing and exits
with code 7 if a file is not formatted.`,
		Example: `  askance policy fmt rules.yaml
  askance policy fmt rules/ --check --diff
  askance policy fmt - < rules.yaml`,
		Args:              anyRuleFiles,
		ValidArgsFunction: completeRules,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "-" {
				return formatInput(env)
			}
			return formatFiles(c.Context(), env, p, args)
		},
	}
	f := c.Flags()
	env.cfg.bindAs(c, &env.cfg.Policy, "rule file, or folder of rule files; may be repeated; the same as an argument")
	f.BoolVar(&p.check, "check", false, "write nothing; exit code 7 if a file is not formatted")
	f.BoolVar(&p.diff, "diff", false, "show what changes")
	return c
}

func formatInput(env *environment) error {
	text, err := env.readStandardInput("fmt", permission.MaxFileBytes)
	if err != nil {
		return err
	}
	out, err := format.Source(standardInput, text)
	if err != nil {
		return err
	}
	_, err = env.out.Write(out)
	return err
}

func formatFiles(ctx context.Context, env *environment, p formatting, args []string) error {
	if len(args) == 0 {
		args = p.cfg.Policy
	}
	if len(args) == 0 {
		return usagef("no rule files: name them as arguments, or - for standard input")
	}
	files, err := permission.Paths(args...).Read(ctx)
	if err != nil {
		return err
	}
	done, changed := []formatted{}, 0
	var failed []error
	for _, f := range files {
		out, err := format.Source(f.Name, f.Data)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		same := bytes.Equal(out, f.Data)
		done = append(done, formatted{f.Name, !same})
		if same {
			continue
		}
		changed++
		if err := p.rewriteFile(env, f, out); err != nil {
			return err
		}
	}
	if env.json {
		if err := env.printDocument(done); err != nil {
			return err
		}
	}
	switch {
	case len(failed) > 0:
		return errors.Join(failed...)
	case p.check && changed > 0:
		return findingsf("%s not formatted; run askance policy fmt", asked.Count(changed, "file"))
	}
	return nil
}

// rewriteFile prints the name of a file that changes, and writes it unless files are only checked.
func (p formatting) rewriteFile(env *environment, f permission.File, out []byte) error {
	if !env.json {
		if err := env.printf("%s\n", term.SafeLine(f.Name)); err != nil {
			return err
		}
		if p.diff {
			was, is := strings.TrimSuffix(string(f.Data), "\n"), strings.TrimSuffix(string(out), "\n")
			if err := env.printf("%s", diffText(env.out, linediff.Lines(strings.Split(was, "\n"), strings.Split(is, "\n")))); err != nil {
				return err
			}
		}
	}
	if p.check {
		return nil
	}
	if err := rewriteInPlace(f.Name, out, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", f.Name, err)
	}
	return nil
}
