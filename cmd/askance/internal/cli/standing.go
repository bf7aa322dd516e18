package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
	"github.com/spf13/cobra"
)

func newRulesCommand(env *environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "standing",
		Short: "Manage standing approvals",
		Long: `A standing approval (askance approve --remember) allows later calls until it ends: by
time, when its uses or its budget are exhausted, or when it is revoked. Offered rules
that were accepted without limits end with their session or when they are revoked.
Rules of the policy are not standing approvals: see askance policy.`,
		Example: `  askance standing list
  askance standing show sta_1f2e3d4c5b6a7988
  askance standing revoke sta_1f2e3d4c5b6a7988 --reason "the release is over"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newRulesListCommand(env), newRulesShowCommand(env), newRulesRevokeCommand(env))
	return c
}

func newRulesListCommand(env *environment) *cobra.Command {
	var r message.StandingApprovalsRequest
	c := &cobra.Command{
		Use:   "list",
		Short: "List standing approvals in force",
		Example: `  askance standing list
  askance standing list --all --tool pay --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := env.connect(c.Context(), message.RoleAuditor)
			if err != nil {
				return err
			}
			defer l.Close()
			all, err := allStandingApprovals(c.Context(), l, r)
			if err != nil {
				return err
			}
			if env.json {
				return env.printDocument(message.StandingApprovalsReply{StandingApprovals: all})
			}
			return printStandingApprovals(env, all, time.Now())
		},
	}
	env.cfg.bindClient(c)
	c.Flags().BoolVar(&r.All, "all", false, "standing approvals that have ended, too, as far as the engine still has them")
	c.Flags().StringVar(&r.Tool, "tool", "", "only standing approvals for this tool")
	return c
}

func allStandingApprovals(ctx context.Context, c engine.Client, r message.StandingApprovalsRequest) ([]*message.StandingApproval, error) {
	r.V = 1
	out := []*message.StandingApproval{}
	for {
		page, err := c.StandingApprovals(ctx, r)
		if err != nil {
			return nil, err
		}
		out = append(out, page.StandingApprovals...)
		if r.After = page.Next; r.After == "" {
			return out, nil
		}
	}
}

func printStandingApprovals(env *environment, all []*message.StandingApproval, now time.Time) error {
	if len(all) == 0 {
		return env.printf("No standing approvals.\n")
	}
	t := table.New().Border(lipgloss.HiddenBorder()).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).BorderColumn(false).
		StyleFunc(func(int, int) lipgloss.Style { return lipgloss.NewStyle().PaddingRight(2) }).
		Headers(env.out.Dim("STATE"), env.out.Dim("ID"), env.out.Dim("ALLOWS"), env.out.Dim("GRANTED BY"), env.out.Dim("UNTIL"), env.out.Dim("LIMITS"))
	for _, l := range all {
		t.Row(standingApprovalStateText(env.out, l, now), env.out.Name(term.SafeLine(string(l.ID))), term.Clip(standingApprovalRules(l), 40), term.Clip(term.SafeLine(strings.Join(givenBy(l), ", ")), 24), standingApprovalEnd(l), term.SafeLine(l.Text()))
	}
	for line := range strings.Lines(t.Render() + "\n") {
		if err := env.printf("%s\n", strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func standingApprovalStateText(out *term.Out, l *message.StandingApproval, now time.Time) string {
	state := l.State(now)
	if state == message.StandingActive {
		return out.Good(string(state))
	}
	return out.Dim(string(state))
}

func standingApprovalRules(l *message.StandingApproval) string {
	var out []string
	for _, r := range l.Terms.Rules {
		text := r.ToolName
		if r.RuleContent != nil && *r.RuleContent != "" {
			text += "(" + *r.RuleContent + ")"
		}
		out = append(out, term.SafeLine(text))
	}
	return strings.Join(out, ", ")
}

func givenBy(l *message.StandingApproval) []string {
	var out []string
	for _, v := range l.GrantedBy {
		out = append(out, v.By.Name)
	}
	return out
}

func standingApprovalEnd(l *message.StandingApproval) string {
	if l.Terms.Until.IsZero() {
		return "it is revoked"
	}
	return l.Terms.Until.Local().Format(time.DateTime)
}

func newRulesShowCommand(env *environment) *cobra.Command {
	c := &cobra.Command{
		Use:     "show RULE",
		Short:   "Show a standing approval: its limits, who granted it, and the calls it allowed",
		Example: `  askance standing show sta_1f2e3d4c5b6a7988`,
		Args:    oneRule,
		RunE: func(c *cobra.Command, args []string) error {
			l, err := env.connect(c.Context(), message.RoleAuditor)
			if err != nil {
				return err
			}
			defer l.Close()
			r, err := l.ShowStandingApproval(c.Context(), message.ShowStandingApprovalRequest{V: 1, ID: message.StandingID(args[0])})
			if err != nil {
				return err
			}
			if env.json {
				return env.printDocument(r)
			}
			return env.printf("%s", standingApprovalText(env.out, r, time.Now()))
		},
	}
	env.cfg.bindClient(c)
	return c
}

func oneRule(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("want one standing approval; askance standing list shows the ids")
	}
	return nil
}

// standingApprovalText is a standing approval in full.
func standingApprovalText(out *term.Out, r message.ShowStandingApprovalReply, now time.Time) string {
	var b strings.Builder
	l := r.Standing
	row := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %s %s\n", out.Dim(fmt.Sprintf("%-10s", label)), text)
		}
	}
	fmt.Fprintf(&b, "%s, %s\n", out.Name(term.SafeLine(string(l.ID))), standingApprovalStateText(out, l, now))
	row("allows", standingApprovalRules(l))
	row("limits", term.SafeLine(l.Text()))
	row("until", standingApprovalEnd(l))
	row("reason", term.SafeLine(l.Reason))
	for path, value := range l.Same {
		row("same", term.SafeLine(path+" = "+value))
	}
	row("of", term.SafeLine("session "+string(l.Session)+", user "+l.User+", agent "+l.Agent))
	row("from", term.SafeLine(keyPath(l.From))+", "+l.Digest)
	for _, v := range l.GrantedBy {
		row("granted by", term.SafeLine(asked.Actor(v.By))+", "+v.At.Local().Format(time.DateTime))
	}
	if e := l.Revoked; e != nil {
		row("revoked", term.SafeLine(asked.Actor(e.By))+", "+e.At.Local().Format(time.DateTime)+" "+term.SafeLine(e.Reason))
	}
	for _, u := range r.Uses {
		text := term.SafeLine(keyPath(u.Call)) + ", " + u.At.Local().Format(time.DateTime)
		if u.Amount != "" {
			text += ", " + u.Amount
		}
		row("used by", text)
	}
	return b.String()
}

func newRulesRevokeCommand(env *environment) *cobra.Command {
	var r message.RevokeStandingApprovalRequest
	var given bool
	c := &cobra.Command{
		Use:   "revoke RULE",
		Short: "Revoke a standing approval and its calls that have not started",
		Long: `Revokes a standing approval at once, with the calls that it allowed and that have not
started. The role is operator; with --approver it is the approver who granted it. To
revoke it again changes nothing.`,
		Example: `  askance standing revoke sta_1f2e3d4c5b6a7988 --reason "wrong customer"
  askance standing revoke sta_1f2e3d4c5b6a7988 --approver --as ann`,
		Args: oneRule,
		RunE: func(c *cobra.Command, args []string) error {
			role := message.RoleOperator
			if given {
				role = message.RoleApprover
			}
			l, err := env.connect(c.Context(), role)
			if err != nil {
				return err
			}
			defer l.Close()
			r.V, r.ID = 1, message.StandingID(args[0])
			after, err := l.RevokeStandingApproval(c.Context(), r)
			if err != nil {
				return err
			}
			if env.json {
				return env.printDocument(after)
			}
			return env.printf("%s is %s\n", env.out.Name(term.SafeLine(string(after.ID))), standingApprovalStateText(env.out, after, time.Now()))
		},
	}
	env.cfg.bindClient(c)
	c.Flags().StringVar(&r.Reason, "reason", "", "reason, for the journal")
	c.Flags().BoolVar(&given, "approver", false, "act as the approver who granted it, not as an operator")
	return c
}
