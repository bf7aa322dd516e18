package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/directory"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/lint"
	"github.com/askance-dev/askance/permission/suite"
)

type linting struct {
	policyFiles
	recorded                string
	runLimit, executorLimit time.Duration
	strict, codes           bool
}

func newPolicyLintCommand(env *environment) *cobra.Command {
	l := linting{policyFiles: policyFiles{cfg: &env.cfg}}
	c := &cobra.Command{
		Use:     "lint [FILE...]",
		Aliases: []string{"check"},
		Short:   "Find mistakes in a policy that loads",
		Long: `Reports errors, which no policy should have, and warnings, which can be intended; each
has a code, a place and a fix. --codes explains every code. The command also runs the
tests of the rule files to see which rules they cover.

Exits with code 7 if there are errors, with --strict also for warnings.`,
		Example: `  askance policy lint rules.yaml --tools tools.yaml
  askance policy lint rules/ --tools tools.yaml --directory people.yaml --strict
  askance policy lint --codes`,
		Args:              anyRuleFiles,
		ValidArgsFunction: completeRules,
		RunE: func(c *cobra.Command, args []string) error {
			if l.codes {
				return env.print(lint.Codes(), lintCodesText(env.out))
			}
			return runLint(c.Context(), env, l, args)
		},
	}
	l.flags(c)
	f := c.Flags()
	env.cfg.bindAs(c, &env.cfg.Directory, "file with people and groups, to count approvers, as for askance serve --directory; may be repeated")
	f.StringVar(&l.recorded, "recorded", "", "file of askance policy test --record, to find later changes")
	durationVar(f, &l.runLimit, "run-limit", 0, "longest lifetime of a run, to check expiries")
	durationVar(f, &l.executorLimit, "executor-limit", 0, "longest execution, to check timeouts")
	f.BoolVar(&l.strict, "strict", false, "treat warnings as errors")
	f.BoolVar(&l.codes, "codes", false, "print all codes without a policy")
	return c
}

func runLint(ctx context.Context, env *environment, l linting, args []string) error {
	s, err := readPolicy(ctx, env, &l.policyFiles, args)
	if err != nil {
		return err
	}
	opts := lint.Options{Options: s.opts, RunLimit: l.runLimit, ExecutorLimit: l.executorLimit}
	if opts.Directory, err = readDirectory(env.cfg.Directory); err != nil {
		return err
	}
	if l.recorded != "" {
		if opts.Recorded, err = readRecord(l.recorded); err != nil {
			return err
		}
	}
	printNotices(env, s.ignored)
	if policy, b, err := s.load(); err == nil {
		opts.Coverage = suite.Run(ctx, policy, b)
		printNotices(env, b.Notices())
	}
	report := lint.Run(s.files, opts)
	if err := env.print(report, lintText(env.out, report)); err != nil {
		return err
	}
	switch {
	case report.Errors > 0:
		return findingsf("lint found %s", asked.Count(report.Errors, "error"))
	case l.strict && report.Warnings > 0:
		return findingsf("lint found %s, which --strict treats as errors", asked.Count(report.Warnings, "warning"))
	}
	return nil
}

// printNotices prints what can surprise an author: rules that mean less here than the
// same text means elsewhere, and files that are not read.
func printNotices(env *environment, notices []permission.Notice) {
	for _, n := range notices {
		env.notef("note: %s\n", term.SafeLine(n.String()))
	}
}

func lintText(out *term.Out, r *lint.Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		level := string(f.Level) + " " + string(f.Code) + ":"
		paint := out.Ask
		if f.Level == lint.Error {
			paint = out.Bad
		}
		b.WriteString(strings.Replace(term.SafeLine(f.String()), level, paint(level), 1) + "\n")
	}
	fmt.Fprintf(&b, "%s, %s in %s\n", asked.Count(r.Errors, "error"), asked.Count(r.Warnings, "warning"), asked.Count(r.Rules, "rule"))
	return b.String()
}

func lintCodesText(out *term.Out) string {
	var b strings.Builder
	for _, d := range lint.Codes() {
		fmt.Fprintf(&b, "%s  %s\n     %s\n     %s\n     %s\n", out.Bold(string(d.Code)), d.Finding, out.Dim(d.Level), d.Why, d.Fix)
	}
	return b.String()
}

// lintPolicy lints the rule files of the last run as askance policy lint does, if they are on this
// machine, and checks the files with people.
func (d *diagnosis) lintPolicy(ctx context.Context, env *environment) {
	if isRemote(env) {
		return
	}
	last, err := readLastRun(string(env.files()))
	if err != nil || last == nil {
		return
	}
	var people *lint.Directory
	if _, err := directory.Load(last.Directory...); err != nil {
		d.addError("people", err, "correct the file: a running server keeps the last good one, and none starts with this one")
	} else if !last.DirectoryBucket { // otherwise more people are there
		people, _ = readDirectory(last.Directory) // as just read
	}
	if len(last.Policy) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, policyChecks)
	defer cancel()
	s, err := readPolicy(ctx, env, &policyFiles{cfg: last}, last.Policy)
	if err != nil {
		return // the server reports on its own policy
	}
	words := []string{"askance policy lint"}
	for _, file := range last.Policy {
		words = append(words, spelling.ShellWord(file))
	}
	if last.Tools != "" {
		words = append(words, "--tools", spelling.ShellWord(last.Tools))
	}
	if people != nil {
		for _, file := range last.Directory {
			words = append(words, "--directory", spelling.ShellWord(file))
		}
	}
	command := strings.Join(words, " ")
	found := func(what string) string {
		return "lint finds " + what + " in the rules; askance policy lint also reads their tests"
	}
	switch r := lint.Run(s.files, lint.Options{Options: s.opts, Directory: people}); {
	case r.Errors > 0:
		d.add("lint", levelProblem, found(asked.Count(r.Errors, "error")), command)
	case r.Warnings > 0:
		d.add("lint", levelWarning, found(asked.Count(r.Warnings, "warning")), command)
	default:
		d.add("lint", levelOK, found("nothing"), "")
	}
}

// readDirectory reads the people and groups of files of askance serve --directory,
// or of files that list people without a group; nil if there are no files.
func readDirectory(paths []string) (*lint.Directory, error) {
	if len(paths) == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	all := &lint.Directory{Groups: map[string][]string{}}
	for _, path := range paths {
		data, err := textfile.ReadHanded("directory", path, textfile.MaxBytes)
		if err == nil {
			err = directory.CheckEnd(path, data)
		}
		if err != nil {
			return nil, err
		}
		var d struct {
			Version   textfile.Integer    `yaml:"version"`
			Users     []string            `yaml:"users"`
			Groups    map[string][]string `yaml:"groups"`
			Approvers map[string]any      `yaml:"approvers"` // their keys do not matter here
		}
		if err := textfile.DecodeYAML(data, &d); err != nil {
			return nil, &textfile.Error{Kind: "directory", File: path, Err: err}
		}
		all.Users = slices.Concat(all.Users, d.Users, slices.Sorted(maps.Keys(d.Approvers)))
		for group, members := range d.Groups {
			all.Groups[group] = append(all.Groups[group], members...)
		}
	}
	return all, nil
}

func readRecord(path string) (*lint.Record, error) {
	data, err := textfile.ReadHanded("record", path, textfile.MaxBytes)
	if err != nil {
		return nil, err
	}
	var r lint.Record
	if err := strictjson.Unmarshal(data, &r); err != nil {
		return nil, &textfile.Error{Kind: "record", File: path, Err: errors.New(strictjson.AtLine(err, string(data)))}
	}
	return &r, nil
}
