package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/corpus"
	"github.com/askance-dev/askance/permission/suite"
)

// explaining are the flags of askance policy explain.
type explaining struct {
	policyFiles
	tool, args, call, test, now string
	caller                      permission.Caller
}

func newPolicyExplainCommand(env *environment) *cobra.Command {
	x := explaining{policyFiles: policyFiles{cfg: &env.cfg}}
	c := &cobra.Command{
		Use:   "explain [FILE...]",
		Short: "Explain what a policy decides about a call",
		Long: `Decides one call and shows the result of every rule for its tool: the first part of
the condition that was false, the values in it, and its place in the file. For a shell
command it shows each part. Nothing runs.

Pass the call with --tool and --args, as a JSON object with --call (see askance policy
replay --help), or as the name of a test in the rule files with --test.`,
		Example: `  askance policy explain rules.yaml --tools tools.yaml --tool refund --args '{"order": "A-1", "cents": 900}'
  askance policy explain rules.yaml --tools tools.yaml --tool refund --args @call.json --mode dont_ask --json
  askance policy explain rules.yaml --tools tools.yaml --test "large refunds ask"`,
		Args:              anyRuleFiles,
		ValidArgsFunction: completeRules,
		RunE:              func(c *cobra.Command, args []string) error { return runExplain(c.Context(), env, x, args) },
	}
	x.flags(c)
	f := c.Flags()
	f.StringVar(&x.tool, "tool", "", "name of the tool")
	f.StringVar(&x.args, "args", "{}", "arguments of the call: a JSON object, @FILE, or - for standard input")
	f.StringVar(&x.call, "call", "", "the whole call: a JSON object, @FILE, or - for standard input")
	f.StringVar(&x.test, "test", "", "name of a test in the rule files, for its call")
	env.cfg.bindAs(c, &env.cfg.Mode, "permission mode, over that of the policy")
	f.StringVar(&x.now, "now", "", "time of the call, such as 2026-11-21T12:00:00Z (default now)")
	env.cfg.bindAs(c, &env.cfg.Cwd, "working folder of the call")
	env.cfg.bindAs(c, &env.cfg.WorkingDirs, "folder in which tools can work; may be repeated")
	f.StringVar(&x.caller.User, "user", "", "user who requests the call")
	f.StringVar(&x.caller.Agent, "agent", "", "agent that proposes the call")
	f.StringVar(&x.caller.Tenant, "tenant", "", "tenant of the caller")
	f.StringSliceVar(&x.caller.Roles, "role", nil, "role of the caller; may be repeated")
	f.StringVar((*string)(&x.caller.Session), "session", "", "session of the call")
	_ = c.RegisterFlagCompletionFunc("tool", x.completeTools)
	return c
}

func runExplain(ctx context.Context, env *environment, x explaining, args []string) error {
	if named := len(slices.DeleteFunc([]string{x.tool, x.call, x.test}, func(s string) bool { return s == "" })); named != 1 {
		return usagef("name exactly one call: use --tool and --args, --call, or --test")
	}
	s, err := readPolicy(ctx, env, &x.policyFiles, args)
	if err != nil {
		return err
	}
	policy, b, err := s.load()
	if err != nil {
		return err
	}
	req, err := explainRequest(env, x, policy)
	if err != nil {
		return err
	}
	e := b.Explain(ctx, req)
	if env.json {
		return env.printDocument(explanation{e, e.Duration.Microseconds()})
	}
	if err := printExplanation(env, e); err != nil || s.declares(req.Tool) {
		return err
	}
	return env.printf("%s the tools file does not declare %s, so that only rules for any tool apply\n", env.out.Ask("note:"), term.SafeLine(req.Tool))
}

// declares says whether the tool is declared, or nothing says which tools are.
func (s policySource) declares(tool string) bool {
	return len(s.opts.Tools) == 0 || slices.ContainsFunc(s.opts.Tools, func(t permission.Tool) bool { return t.Name == tool })
}

// explanation is what --json prints.
type explanation struct {
	*permission.Explanation
	DurationUS int64 `json:"duration_us"`
}

// explainRequest reads the call to explain.
func explainRequest(env *environment, x explaining, policy permission.Policy) (permission.Request, error) {
	var req permission.Request
	switch {
	case x.call != "":
		text, err := env.readText("--call", x.call, corpus.MaxLine)
		if err != nil {
			return req, err
		}
		c, err := corpus.ReadCall([]byte(text))
		if err != nil {
			return req, usagef("--call: %w", err)
		}
		req = c.Request
	case x.test != "":
		i := slices.IndexFunc(policy.Tests, func(t permission.Test) bool { return t.Name == x.test })
		if i < 0 {
			return req, usagef("the rule files have no test %q; askance policy test --verbose lists the tests", x.test)
		}
		return policy.Tests[i].Call.Request(), nil
	default:
		text, err := env.readText("--args", x.args, corpus.MaxLine)
		if err != nil {
			return req, err
		}
		req = permission.Request{Tool: x.tool, Input: []byte(strings.TrimSpace(text)), Cwd: x.cfg.Cwd, WorkingDirs: x.cfg.WorkingDirs, Caller: x.caller}
	}
	return x.when(req)
}

// when fills in mode and time.
func (x explaining) when(req permission.Request) (permission.Request, error) {
	if x.cfg.Mode != "" {
		mode, err := permission.ParseMode(x.cfg.Mode)
		if err != nil {
			return req, usagef("--mode: %w", err)
		}
		req.Mode = mode
	}
	switch {
	case x.now != "":
		now, err := time.Parse(time.RFC3339, x.now)
		if err != nil {
			return req, usagef("--now is %q, use a time such as 2026-11-21T12:00:00Z", x.now)
		}
		req.Now = now
	case req.Now.IsZero():
		req.Now = time.Now().UTC()
	}
	return req, nil
}

// printExplanation prints one line, and a tree of the rules.
func printExplanation(env *environment, e *permission.Explanation) error {
	var b strings.Builder
	by := "no rule decides"
	if e.Rule != "" {
		by = "by rule " + env.out.Name(term.SafeLine(e.Rule))
	}
	fmt.Fprintf(&b, "%s %s (step %s, mode %s)\n", behaviorText(env.out, e.Decision), by, e.Step, e.Mode)
	fmt.Fprintf(&b, "  %s\n", term.SafeLine(e.Reason))
	if e.Message != "" {
		for line := range strings.SplitSeq(e.Message, "\n") {
			fmt.Fprintf(&b, "  %s %s\n", env.out.Dim(">"), term.SafeLine(line))
		}
	}
	if need := requirementText(e); need != "" {
		fmt.Fprintf(&b, "  needs %s\n", need)
	}
	for i, t := range e.Trace {
		branch := "├─"
		if i == len(e.Trace)-1 {
			branch = "└─"
		}
		fmt.Fprintf(&b, "%s %s\n", env.out.Dim(branch), ruleLine(env.out, t))
	}
	if len(e.Shell) > 0 {
		fmt.Fprintf(&b, "%s in the command line:\n", asked.Count(len(e.Shell), "command"))
		for _, p := range e.Shell {
			fmt.Fprintf(&b, "  %s\n", pieceLine(env.out, p))
		}
	}
	if n := len(e.NotEvaluated); n > 0 {
		fmt.Fprintf(&b, "%s for other tools\n", asked.Count(n, "rule"))
	}
	for _, err := range e.Errors {
		if err.Rule != "" && err.Field == "input" {
			continue // the error about the call says it
		}
		fmt.Fprintf(&b, "%s %s\n", env.out.Bad("failed:"), term.SafeLine(err.Error()))
	}
	if e.NearMiss != "" {
		fmt.Fprintf(&b, "near miss: %s\n", term.SafeLine(e.NearMiss))
	}
	return env.printf("%s", b.String())
}

func behaviorText(out *term.Out, b message.Behavior) string {
	switch b {
	case message.BehaviorAllow:
		return out.Good(string(b))
	case message.BehaviorAsk:
		return out.Ask(string(b))
	default:
		return out.Bad(string(b))
	}
}

// ruleLine is a rule of the trace on one line, with its place.
func ruleLine(out *term.Out, t *permission.Traced) string {
	text := term.SafeLine(suite.RuleText(t))
	name := term.SafeLine(t.Rule)
	text = strings.Replace(text, "rule "+name, "rule "+out.Name(name), 1)
	if t.Because != nil && t.Because.Line > 0 {
		text += "  " + out.Dim(placeText(permission.Place{File: t.Because.File, Line: t.Because.Line, Col: t.Because.Col}))
	}
	return text
}

func pieceLine(out *term.Out, p permission.Piece) string {
	verdict := out.Bad("not covered")
	if p.Covered {
		verdict = out.Good("covered")
	}
	text := verdict + "  " + term.SafeLine(p.Text)
	if p.Why != "" {
		text += "  " + out.Dim(term.SafeLine(p.Why))
	}
	return text
}

func placeText(p permission.Place) string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d:%d", term.SafeLine(p.File), p.Line, p.Col)
}

// requirementText says who can respond, and how long; "" if the call needs no
// approval.
func requirementText(e *permission.Explanation) string {
	if e.Decision != message.BehaviorAsk {
		return ""
	}
	r := e.Requirement
	text := "an approval"
	if r.Quorum > 1 {
		text = fmt.Sprintf("the approval of %d people", r.Quorum)
	}
	if len(r.Users) > 0 {
		text += " by " + strings.Join(r.Users, " or ")
	}
	for _, set := range r.Approvers {
		text += " by " + strings.Join(append(slices.Clone(set.Users), prefixed("group ", set.Groups)...), " or ")
	}
	if r.ExcludeRequester {
		text += ", not by the requester,"
	}
	if r.ExcludeEditor {
		text += ", not by a person who edits the arguments,"
	}
	if r.Expiry > 0 {
		text += " within " + shortDuration(r.Expiry)
	}
	return term.SafeLine(text)
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

// shortDuration leaves out what is zero: 1h, not 1h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// valueText is a value on one line.
func valueText(v any) string {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
