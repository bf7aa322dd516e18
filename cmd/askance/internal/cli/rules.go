package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
)

func newRulesCommand(env *environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "rules",
		Short: "Remembered rules: list them, show what they allowed, take them back",
		Long: `Rules that an approver let remember (askance approve --remember) answer for later
calls until they end: by time, when their uses or their budget are used up, or
when somebody takes them back. Suggested rules that were accepted without terms
last for their session, or until somebody takes them back. The rules of the policy
are not among them: see askance policy.`,
		Example: `  askance rules list
  askance rules show lse_1f2e3d4c5b6a7988
  askance rules revoke lse_1f2e3d4c5b6a7988 --reason "the release is over"`,
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
	var r message.LeasesRequest
	c := &cobra.Command{
		Use:   "list",
		Short: "List remembered rules that are in force",
		Example: `  askance rules list
  askance rules list --all --tool pay --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := env.connect(c.Context(), message.RoleAuditor)
			if err != nil {
				return err
			}
			defer l.Close()
			all, err := allLeases(c.Context(), l, r)
			if err != nil {
				return err
			}
			if env.json {
				return env.printDocument(message.LeasesReply{Leases: all})
			}
			return printLeases(env, all, time.Now())
		},
	}
	env.cfg.bindClient(c)
	c.Flags().BoolVar(&r.All, "all", false, "those that have ended too, as far as they are at hand")
	c.Flags().StringVar(&r.Tool, "tool", "", "only those about this tool")
	return c
}

func allLeases(ctx context.Context, c engine.Client, r message.LeasesRequest) ([]*message.Lease, error) {
	r.V = 1
	out := []*message.Lease{}
	for {
		page, err := c.Leases(ctx, r)
		if err != nil {
			return nil, err
		}
		out = append(out, page.Leases...)
		if r.After = page.Next; r.After == "" {
			return out, nil
		}
	}
}

func printLeases(env *environment, all []*message.Lease, now time.Time) error {
	if len(all) == 0 {
		return env.printf("No remembered rules.\n")
	}
	t := table.New().Border(lipgloss.HiddenBorder()).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).BorderColumn(false).
		StyleFunc(func(int, int) lipgloss.Style { return lipgloss.NewStyle().PaddingRight(2) }).
		Headers(env.out.Dim("STATE"), env.out.Dim("RULE"), env.out.Dim("ALLOWS"), env.out.Dim("GIVEN BY"), env.out.Dim("UNTIL"), env.out.Dim("TERMS"))
	for _, l := range all {
		t.Row(leaseStateText(env.out, l, now), env.out.Name(term.SafeLine(string(l.ID))), term.Clip(leaseRules(l), 40), term.Clip(term.SafeLine(strings.Join(givenBy(l), ", ")), 24), leaseEnd(l), term.SafeLine(l.Text()))
	}
	for line := range strings.Lines(t.Render() + "\n") {
		if err := env.printf("%s\n", strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func leaseStateText(out *term.Out, l *message.Lease, now time.Time) string {
	state := l.State(now)
	if state == message.LeaseActive {
		return out.Good(string(state))
	}
	return out.Dim(string(state))
}

func leaseRules(l *message.Lease) string {
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

func givenBy(l *message.Lease) []string {
	var out []string
	for _, v := range l.GrantedBy {
		out = append(out, v.By.Name)
	}
	return out
}

func leaseEnd(l *message.Lease) string {
	if l.Terms.Until.IsZero() {
		return "it is revoked"
	}
	return l.Terms.Until.Local().Format(time.DateTime)
}

func newRulesShowCommand(env *environment) *cobra.Command {
	c := &cobra.Command{
		Use:     "show RULE",
		Short:   "Show a remembered rule: its terms, who gave it, and the calls it allowed",
		Example: `  askance rules show lse_1f2e3d4c5b6a7988`,
		Args:    oneRule,
		RunE: func(c *cobra.Command, args []string) error {
			l, err := env.connect(c.Context(), message.RoleAuditor)
			if err != nil {
				return err
			}
			defer l.Close()
			r, err := l.ShowLease(c.Context(), message.ShowLeaseRequest{V: 1, ID: message.LeaseID(args[0])})
			if err != nil {
				return err
			}
			if env.json {
				return env.printDocument(r)
			}
			return env.printf("%s", leaseText(env.out, r, time.Now()))
		},
	}
	env.cfg.bindClient(c)
	return c
}

func oneRule(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("name one remembered rule, as askance rules list shows it")
	}
	return nil
}

// leaseText is a remembered rule in full.
func leaseText(out *term.Out, r message.ShowLeaseReply, now time.Time) string {
	var b strings.Builder
	l := r.Lease
	row := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %s %s\n", out.Dim(fmt.Sprintf("%-10s", label)), text)
		}
	}
	fmt.Fprintf(&b, "%s, %s\n", out.Name(term.SafeLine(string(l.ID))), leaseStateText(out, l, now))
	row("allows", leaseRules(l))
	row("terms", term.SafeLine(l.Text()))
	row("until", leaseEnd(l))
	row("answers", term.SafeLine(l.Reason))
	for path, value := range l.Same {
		row("same", term.SafeLine(path+" = "+value))
	}
	row("of", term.SafeLine("session "+string(l.Session)+", user "+l.User+", agent "+l.Agent))
	row("from", term.SafeLine(keyPath(l.From))+", "+l.Digest)
	for _, v := range l.GrantedBy {
		row("given by", term.SafeLine(asked.Actor(v.By))+", "+v.At.Local().Format(time.DateTime))
	}
	if e := l.Revoked; e != nil {
		row("revoked", term.SafeLine(asked.Actor(e.By))+", "+e.At.Local().Format(time.DateTime)+" "+term.SafeLine(e.Reason))
	}
	for _, u := range r.Uses {
		text := term.SafeLine(keyPath(u.Call)) + ", " + u.At.Local().Format(time.DateTime)
		if u.Amount != "" {
			text += ", " + u.Amount
		}
		row("used for", text)
	}
	return b.String()
}

func newRulesRevokeCommand(env *environment) *cobra.Command {
	var r message.RevokeLeaseRequest
	var given bool
	c := &cobra.Command{
		Use:   "revoke RULE",
		Short: "Take back a remembered rule, and what it allowed and did not begin",
		Long: `Takes back a remembered rule at once: it allows nothing more, and calls that it
has allowed and that nobody has started are taken back. An operator may, and with
--approver whoever gave it. To do it again changes nothing.`,
		Example: `  askance rules revoke lse_1f2e3d4c5b6a7988 --reason "wrong customer"
  askance rules revoke lse_1f2e3d4c5b6a7988 --approver --as ann`,
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
			r.V, r.ID = 1, message.LeaseID(args[0])
			after, err := l.RevokeLease(c.Context(), r)
			if err != nil {
				return err
			}
			if env.json {
				return env.printDocument(after)
			}
			return env.printf("%s is %s\n", env.out.Name(term.SafeLine(string(after.ID))), leaseStateText(env.out, after, time.Now()))
		},
	}
	env.cfg.bindClient(c)
	c.Flags().StringVar(&r.Reason, "reason", "", "why, for the record")
	c.Flags().BoolVar(&given, "approver", false, "as the approver who gave it, not as an operator")
	return c
}
