package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/explain"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/corpus"
)

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
	f.StringVar(&x.test, "test", "", "name of a test in the rule files, whose call to decide")
	env.cfg.bindAs(c, &env.cfg.Mode, "permission mode, which overrides that of the policy")
	f.StringVar(&x.now, "now", "", "time of the call, such as 2026-11-21T12:00:00Z (default now)")
	env.cfg.bindAs(c, &env.cfg.Cwd, "working folder of the call")
	env.cfg.bindAs(c, &env.cfg.WorkingDirs, "folder in which tools can work; may be repeated")
	f.StringVar(&x.caller.User, "user", "", "user who requests the call")
	f.StringVar(&x.caller.Agent, "agent", "", "agent that proposes the call")
	f.StringVar(&x.caller.Tenant, "tenant", "", "tenant of the caller")
	f.StringSliceVar(&x.caller.Groups, "group", nil, "group of that user; may be repeated")
	f.StringSliceVar(&x.caller.Roles, "role", nil, "role of the caller; may be repeated")
	f.StringVar((*string)(&x.caller.Session), "session", "", "session of the call")
	_ = c.RegisterFlagCompletionFunc("tool", x.completeTools)
	return c
}

func runExplain(ctx context.Context, env *environment, x explaining, args []string) error {
	if named := len(slices.DeleteFunc([]string{x.tool, x.call, x.test}, func(s string) bool { return s == "" })); named != 1 {
		return usagef("name exactly one call: use --tool and --args, --call, or --test")
	}
	s, policy, b, err := loadPolicy(ctx, env, &x.policyFiles, args)
	if err != nil {
		return err
	}
	req, err := explainRequest(env, x, policy)
	if err != nil {
		return err
	}
	e := b.Explain(ctx, req)
	text, refused := explain.Policy(env.out, e), ""
	if i := slices.IndexFunc(e.Errors, func(f permission.RuleError) bool { return f.Rule == "" && f.Field == "input" }); i >= 0 {
		text, refused = "The engine refuses this call before it evaluates any rule.\n", e.Errors[i].Msg
	} else if !s.declares(req.Tool) && !slices.ContainsFunc(policy.Rules, func(r permission.Rule) bool { return slices.Contains(r.Tools, permission.Frontend+req.Tool) }) {
		refused = "the tools file does not declare " + req.Tool + didYouMean("", spelling.Nearest(req.Tool, toolNames(s.opts.Tools))) + "; if a runtime defines it, rules for any tool apply"
	}
	if refused != "" { // before the policy decides
		text = env.out.Bad("refused:") + " " + term.SafeLine(refused) + "\n" + text
	}
	return env.print(explanation{e, e.Duration.Microseconds()}, text)
}

// declares reports whether the tool is declared, or whether no tools are.
func (s policySource) declares(tool string) bool {
	return len(s.opts.Tools) == 0 || slices.ContainsFunc(s.opts.Tools, func(t permission.Tool) bool { return t.Name == tool })
}

type explanation struct {
	*permission.Explanation
	DurationUS int64 `json:"duration_us"`
}

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
		return policy.Tests[i].Call, nil
	default:
		text, err := env.readText("--args", x.args, corpus.MaxLine)
		if err != nil {
			return req, err
		}
		req = permission.Request{Tool: strings.TrimPrefix(x.tool, permission.Frontend), Input: []byte(strings.TrimSpace(text)), Cwd: x.cfg.Cwd, WorkingDirs: x.cfg.WorkingDirs, Caller: x.caller}
	}
	return x.when(req)
}

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
