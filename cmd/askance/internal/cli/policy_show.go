package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

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
		Args: cobra.MaximumNArgs(1),
		PreRunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				r.Rule = args[0]
			}
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
			b.WriteString(out.Dim("# too large to show whole; name a rule") + "\n")
		}
	}
	return b.String()
}
