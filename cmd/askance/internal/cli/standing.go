package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/explain"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

func newStandingCommand(env *environment) *cobra.Command {
	return newGroup(&cobra.Command{
		Use:   "standing",
		Short: "Manage standing approvals",
		Long: `A standing approval (askance approve --remember) allows later calls until it ends: by
time, when its uses or its budget are exhausted, or when it is revoked. Offered rules
that were accepted without limits end with their session or when they are revoked.
Rules of the policy are not standing approvals: see askance policy.`,
		Example: `  askance standing list
  askance standing show sta_1f2e3d4c5b6a7988
  askance standing revoke sta_1f2e3d4c5b6a7988 --reason "the release is over"`,
	}, newStandingListCommand(env), newStandingShowCommand(env), newStandingRevokeCommand(env))
}

func newStandingListCommand(env *environment) *cobra.Command {
	r := toolcall.StandingApprovalsRequest{V: 1}
	c := &cobra.Command{
		Use:   "list",
		Short: "List standing approvals in force",
		Example: `  askance standing list
  askance standing list --all --tool pay --json`,
		Args: noArgs,
		RunE: operation[toolcall.StandingApprovalsRequest, toolcall.StandingApprovalsReply]{
			role: toolcall.RoleAuditor, call: listStandingApprovals, request: always(&r), text: standingApprovalsTable,
		}.run(env),
	}
	env.cfg.bindClient(c)
	c.Flags().BoolVar(&r.All, "all", false, "include standing approvals that have ended, if the engine still has them")
	c.Flags().StringVar(&r.Tool, "tool", "", "only standing approvals for this tool")
	return c
}

func listStandingApprovals(ctx context.Context, c api.Caller, r toolcall.StandingApprovalsRequest) (toolcall.StandingApprovalsReply, error) {
	out := toolcall.StandingApprovalsReply{StandingApprovals: []*toolcall.StandingApproval{}}
	for {
		page, err := api.Standings.Call(ctx, c, r)
		if err != nil {
			return out, err
		}
		out.StandingApprovals = append(out.StandingApprovals, page.StandingApprovals...)
		if r.After = page.Next; r.After == "" {
			return out, nil
		}
	}
}

func standingApprovalsTable(out *term.Out, _ toolcall.StandingApprovalsRequest, reply toolcall.StandingApprovalsReply) string {
	if len(reply.StandingApprovals) == 0 {
		return "No standing approvals.\n"
	}
	var rows [][]string
	for _, l := range reply.StandingApprovals {
		rows = append(rows, []string{
			explain.State(out, l), out.Name(term.SafeLine(string(l.ID))), term.Clip(asked.Allows(l), 40),
			term.Clip(asked.Grantors(l), 24), explain.End(l), strings.Join(append([]string{term.SafeLine(l.Text())}, asked.Same(l)...), ", "),
		})
	}
	return tableText(out, []string{"STATE", "ID", "ALLOWS", "GRANTED BY", "UNTIL", "LIMITS"}, rows)
}

func newStandingShowCommand(env *environment) *cobra.Command {
	c := &cobra.Command{
		Use:               "show ID",
		Short:             "Show a standing approval: its limits, who granted it, and the calls it allowed",
		Example:           `  askance standing show sta_1f2e3d4c5b6a7988`,
		Args:              oneStanding,
		ValidArgsFunction: completeStandings(env),
		RunE: operation[toolcall.ShowStandingApprovalRequest, toolcall.ShowStandingApprovalReply]{
			role: toolcall.RoleAuditor, call: api.ShowStandingApproval.Call, text: standingApprovalText,
			request: func(_ context.Context, _ *link, args []string) (toolcall.ShowStandingApprovalRequest, error) {
				return toolcall.ShowStandingApprovalRequest{V: 1, ID: toolcall.StandingID(args[0])}, nil
			},
		}.run(env),
	}
	env.cfg.bindClient(c)
	return c
}

var oneStanding = wantArgs(1, "one standing approval; askance standing list shows the ids")

func standingApprovalText(out *term.Out, _ toolcall.ShowStandingApprovalRequest, r toolcall.ShowStandingApprovalReply) string {
	l := r.Standing
	s := newSheet(out, 10, out.Name(term.SafeLine(string(l.ID)))+", "+explain.State(out, l))
	s.row("allows", asked.Allows(l))
	s.row("limits", term.SafeLine(l.Text()))
	s.row("until", explain.End(l))
	s.row("reason", term.SafeLine(l.Reason))
	for _, same := range asked.Same(l) {
		s.row("same", same)
	}
	of := "session " + string(l.Session) + ", user " + l.User
	if l.Agent != "" {
		of += ", agent " + l.Agent
	}
	s.row("of", term.SafeLine(of))
	s.row("from", term.SafeLine(keyPath(l.From))+", "+l.Digest)
	for _, v := range l.GrantedBy {
		s.row("granted by", term.SafeLine(asked.Actor(v.By))+", "+moment(v.At))
	}
	if e := l.Revoked; e != nil {
		s.row("revoked", term.SafeLine(asked.Actor(e.By))+", "+moment(e.At)+" "+term.SafeLine(e.Reason))
	}
	for _, u := range r.Uses {
		text := term.SafeLine(keyPath(u.Call)) + ", " + moment(u.At)
		if u.Amount != "" {
			text += ", " + u.Amount
		}
		s.row("used by", text)
	}
	return s.String()
}

func newStandingRevokeCommand(env *environment) *cobra.Command {
	var reason string
	var grantor bool
	c := &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a standing approval and its calls that have not started",
		Long: `Revokes a standing approval at once, with the calls that it allowed and that have not
started. You act as an operator, or with --approver as the approver who granted it.
Revoking it again changes nothing.`,
		Example: `  askance standing revoke sta_1f2e3d4c5b6a7988 --reason "wrong customer"
  askance standing revoke sta_1f2e3d4c5b6a7988 --approver --as ann`,
		Args:              oneStanding,
		ValidArgsFunction: completeStandings(env),
		RunE: func(c *cobra.Command, args []string) error {
			o := operation[toolcall.RevokeStandingApprovalRequest, *toolcall.StandingApproval]{
				role: toolcall.RoleOperator, call: api.RevokeStandingApproval.Call,
				request: always(&toolcall.RevokeStandingApprovalRequest{V: 1, ID: toolcall.StandingID(args[0]), Reason: reason}),
				text: func(out *term.Out, _ toolcall.RevokeStandingApprovalRequest, after *toolcall.StandingApproval) string {
					return out.Name(term.SafeLine(string(after.ID))) + " is " + explain.State(out, after) + "\n"
				},
			}
			if grantor {
				o.role = toolcall.RoleApprover
			}
			return o.run(env)(c, args)
		},
	}
	bindDeciding(env, c)
	c.Flags().StringVar(&reason, "reason", "", "reason, for the journal")
	c.Flags().BoolVar(&grantor, "approver", false, "act as the approver who granted it, not as an operator")
	return c
}
