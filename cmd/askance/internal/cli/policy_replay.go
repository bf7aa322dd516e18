package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/corpus"
	"github.com/askance-dev/askance/toolcall"
)

type calling struct {
	cfg           *config
	file, session string
}

func (q *calling) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&q.file, "calls", "", "file of calls, one JSON object per line; - is standard input")
	f.StringVar(&q.session, "session", "", "only calls of this session")
	q.cfg.bindAs(c, &q.cfg.Mode, "permission mode of calls that name none, which overrides that of the policy")
	q.cfg.bindAs(c, &q.cfg.Cwd, "working folder of calls that name none")
	q.cfg.bindAs(c, &q.cfg.WorkingDirs, "folder in which tools can work, for calls that name none; may be repeated")
	_ = c.MarkFlagFilename("calls", "jsonl", "ndjson", "json")
}

const callsHelp = `A line of a file of calls is

  {"tool": "refund", "args": {"cents": 900}, "behavior": "allow", "rule": "small"}

where behavior and rule are the recorded decision. Optional members: name, caller
(agent, user, space, session, reply, roles, groups, tenant, run_id, parent_agent), mode, now,
cwd and working_dirs.`

func newPolicyReplayCommand(env *environment) *cobra.Command {
	p := policyFiles{cfg: &env.cfg}
	q := calling{cfg: &env.cfg}
	c := &cobra.Command{
		Use:   "replay [FILE...]",
		Short: "Decide recorded calls again and list changed decisions",
		Long: `Decides recorded calls with the given rule files and lists the calls whose decision
changes. The calls come from a journal (--data or --nats) or from a file (--calls).
Nothing runs, and the command writes nothing to the journal.

` + callsHelp + `

A journal records neither the mode nor the engine's folders: pass --mode, --cwd and
--working-dir if the rules use them. Without --cwd, the recorded folders of calls are ignored.

Exits with code 7 if a decision changes.`,
		Example: `  askance policy replay candidate.yaml --tools tools.yaml --data ./data
  askance policy replay candidate.yaml --tools tools.yaml --calls calls.jsonl --json
  askance policy replay candidate.yaml --tools tools.yaml --nats nats://nats.internal:4222 --session ticket-7`,
		Args:              anyRuleFiles,
		ValidArgsFunction: completeRules,
		RunE: func(c *cobra.Command, args []string) error {
			_, _, b, err := loadPolicy(c.Context(), env, &p, args)
			if err != nil {
				return err
			}
			calls, err := readCalls(c.Context(), env, q)
			if err != nil {
				return err
			}
			return printComparison(env, corpus.Replay(c.Context(), calls, b))
		},
	}
	p.flags(c)
	q.flags(c)
	env.cfg.bindClient(c)
	return c
}

func newPolicyDiffCommand(env *environment) *cobra.Command {
	p := policyFiles{cfg: &env.cfg}
	q := calling{cfg: &env.cfg}
	var journal bool
	c := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Compare the decisions of two policies",
		Long: `Decides each call with both policies and lists the calls on which they differ. BEFORE
and AFTER are rule files, or folders of rule files. The calls come from the tests in
both, from a file (--calls), or from a journal (--journal).

` + callsHelp + `

Exits with code 7 if a decision changes. Policies that agree here can still differ for
other calls.`,
		Example: `  askance policy diff rules.yaml candidate.yaml --tools tools.yaml
  askance policy diff rules/ candidate/ --tools tools.yaml --calls calls.jsonl
  askance policy diff rules.yaml candidate.yaml --tools tools.yaml --journal --data ./data`,
		Args:              wantArgs(2, "two policies, for instance: askance policy diff rules.yaml new.yaml"),
		ValidArgsFunction: completeRules,
		RunE: func(c *cobra.Command, args []string) error {
			var policies [2]permission.Policy
			var bundles [2]*permission.Bundle
			for i, path := range args {
				var err error
				if _, policies[i], bundles[i], err = loadPolicy(c.Context(), env, &p, []string{path}); err != nil {
					return err
				}
			}
			calls := corpus.FromTests(policies[:]...)
			if q.file != "" || journal {
				var err error
				if calls, err = readCalls(c.Context(), env, q); err != nil {
					return err
				}
			}
			return printComparison(env, corpus.Diff(c.Context(), calls, bundles[0], bundles[1]))
		},
	}
	p.toolsFlag(c)
	q.flags(c)
	env.cfg.bindClient(c)
	c.Flags().BoolVar(&journal, "journal", false, "use the calls of the journal")
	return c
}

func readCalls(ctx context.Context, env *environment, q calling) ([]corpus.Call, error) {
	var calls []corpus.Call
	var err error
	if q.file != "" {
		calls, err = readFileCalls(env, q.file)
	} else {
		calls, err = readJournalCalls(ctx, env)
	}
	if err != nil {
		return nil, err
	}
	var mode permission.Mode
	if q.cfg.Mode != "" {
		if mode, err = permission.ParseMode(q.cfg.Mode); err != nil {
			return nil, usagef("--mode: %w", err)
		}
	}
	if q.session != "" {
		calls = slices.DeleteFunc(calls, func(c corpus.Call) bool { return string(c.Request.Caller.Session) != q.session })
	}
	switch {
	case len(calls) > 0:
	case q.session != "":
		return nil, &message.Error{Code: message.CodeNotFound, Op: "read calls", What: "no recorded call matches --session " + q.session, Hint: commandLineFor(env, "list --all -o wide") + " shows the sessions"}
	default:
		env.notef("There are no recorded calls.\n")
	}
	for i := range calls {
		r := &calls[i].Request
		r.Mode = cmp.Or(r.Mode, mode)
		r.Cwd = cmp.Or(r.Cwd, q.cfg.Cwd)
		if r.Cwd == "" {
			r.Folder = "" // without the engine's folder, no folder can be outside of it
		}
		if r.WorkingDirs == nil {
			r.WorkingDirs = q.cfg.WorkingDirs
		}
	}
	return calls, nil
}

func readFileCalls(env *environment, path string) ([]corpus.Call, error) {
	in := env.in
	if path != "-" {
		f, err := plainfile.OpenHanded(path)
		if err != nil {
			return nil, fmt.Errorf("calls: %w", err)
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	calls, err := corpus.Read(in)
	if err != nil {
		return nil, usagef("calls %s: %w", path, err)
	}
	return calls, nil
}

func readJournalCalls(ctx context.Context, env *environment) ([]corpus.Call, error) {
	l, err := env.connect(ctx, toolcall.RoleAuditor)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	calls, err := engine.ListAll(ctx, l, toolcall.ListRequest{All: true}, 0)
	if err != nil {
		return nil, err
	}
	return corpus.FromJournal(calls), nil
}

// printComparison prints a comparison, and ends with an error if decisions change.
func printComparison(env *environment, r *corpus.Report) error {
	if err := env.print(r, changesText(env.out, r)); err != nil {
		return err
	}
	if n := len(r.Changes); n > 0 {
		return findingsf("%s would change", asked.Count(n, "decision"))
	}
	return nil
}

func changesText(out *term.Out, r *corpus.Report) string {
	var b strings.Builder
	for _, c := range r.Changes {
		direction := out.Good("tighter")
		if c.Looser {
			direction = out.Bad("looser")
		}
		fmt.Fprintf(&b, "%s %s  %s -> %s  %s %s\n", direction, out.Name(term.SafeLine(c.Name)),
			verdictText(c.Before), verdictText(c.After), term.SafeLine(c.Tool), term.Clip(term.SafeLine(c.Args), 80))
		for _, line := range c.Why {
			fmt.Fprintf(&b, "  %s\n", term.SafeLine(line))
		}
	}
	fmt.Fprintf(&b, "%s: %d changed (%d looser, %d tighter), %d by another rule", asked.Count(r.Calls, "call"), len(r.Changes), r.Looser, r.Tighter, r.OtherRule)
	if r.Unknown > 0 {
		fmt.Fprintf(&b, "; %d without a recorded decision", r.Unknown)
	}
	b.WriteString("\n")
	return b.String()
}

func verdictText(v corpus.Verdict) string {
	if v.Rule == "" {
		return string(v.Behavior)
	}
	return string(v.Behavior) + " (" + term.SafeLine(v.Rule) + ")"
}
