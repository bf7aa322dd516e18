package cli

import (
	"context"
	"crypto/ed25519"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/explain"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/terms"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
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
	for _, s := range reply.StandingApprovals {
		rows = append(rows, []string{
			explain.State(out, s), out.Name(term.SafeLine(string(s.ID))), term.Clip(asked.Allows(s), 40),
			term.Clip(asked.Grantors(s), 24), explain.End(s), strings.Join(append([]string{term.SafeLine(s.Text())}, asked.Same(s)...), ", "),
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
	sa := r.Standing
	s := newSheet(out, 10, out.Name(term.SafeLine(string(sa.ID)))+", "+explain.State(out, sa))
	s.row("allows", asked.Allows(sa))
	s.row("limits", term.SafeLine(sa.Text()))
	s.row("until", explain.End(sa))
	s.row("reason", term.SafeLine(sa.Reason))
	for _, same := range asked.Same(sa) {
		s.row("same", same)
	}
	of := "session " + string(sa.Session) + ", user " + sa.User
	if sa.Agent != "" {
		of += ", agent " + sa.Agent
	}
	s.row("of", term.SafeLine(of))
	s.row("from", term.SafeLine(keyPath(sa.From))+", "+sa.Digest)
	for _, v := range sa.GrantedBy {
		s.row("granted by", term.SafeLine(asked.Actor(v.By))+", "+moment(v.At))
	}
	if e := sa.Revoked; e != nil {
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

// memory is the standing approval that an approval asks for.
type memory struct {
	remember     bool
	scope, until string
	uses         int
	budget       string
	rules        []string
	cmd          *cobra.Command // whose flags they are

	named bool                   // a limit was given
	terms toolcall.StandingTerms // what check read
}

func (m *memory) flags() {
	f := m.cmd.Flags()
	f.BoolVar(&m.remember, "remember", false, "create a standing approval from the offered rules, for the session unless --scope says otherwise")
	f.StringVar(&m.scope, "scope", "session", "calls that the standing approval covers: call_like, session, agent, user or space")
	f.StringVar(&m.until, "until", "", "end of the standing approval: a duration from now, such as 2h, or a time, such as 2026-01-31T18:00:00Z")
	f.IntVar(&m.uses, "uses", 0, "number of later calls; 0: as many as the policy permits")
	f.StringVar(&m.budget, "budget", "", "limit for the sum of a field over the later calls, such as args.cents=10000")
	f.StringArrayVar(&m.rules, "rule", nil, "rule content that is narrower than one of the offered rules, to use instead of them; may be repeated")
}

// check reads the flags, without a call and before anything is shown or sent.
func (m *memory) check(now time.Time) error {
	m.named = slices.ContainsFunc([]string{"scope", "until", "uses", "budget", "rule"}, func(flag string) bool {
		f := m.cmd.Flags().Lookup(flag)
		return f != nil && f.Changed
	})
	if !m.remember && m.named {
		return usagef("--scope, --until, --uses, --budget and --rule limit a standing approval: pass --remember as well")
	}
	t := toolcall.StandingTerms{Uses: m.uses}
	var err error
	if t.Scope, err = terms.Scope(m.scope); err != nil {
		return usagef("--scope %w", err)
	}
	if t.Until, err = terms.Until(m.until, now); err != nil {
		return usagef("--until %w", err)
	}
	if t.Budget, err = terms.Budget(m.budget); err != nil {
		return usagef("--budget %w", err)
	}
	m.terms = t
	return nil
}

// into adds the standing approval to a response. Offered rules without terms use the field
// that every AgentScope client has. Only the engine has the offered rules of an edited call.
func (m *memory) into(response *toolcall.Response, call *toolcall.Call) {
	switch {
	case !m.remember:
		return
	case !m.named && response.Input == nil && (call.Request == nil || call.Request.Requirement.Remember == nil):
		response.Rules = call.Suggested
		return
	}
	t := m.terms
	for _, content := range m.rules {
		t.Rules = append(t.Rules, terms.Allow(call.Tool, content))
	}
	response.Remember = &t
}

type signing struct {
	cfg   *config
	cmd   *cobra.Command // whose flags they are
	lasts time.Duration
}

func (s *signing) flags() {
	s.cfg.bind(s.cmd, &s.cfg.SignKey)
	durationVar(s.cmd.Flags(), &s.lasts, "sign-for", 24*time.Hour, "lifetime of the signature: no worker starts the call after it")
}

type signer struct {
	key   ed25519.PrivateKey
	as    string
	lasts time.Duration
}

// load reads the key; nil without --sign-key.
func (s *signing) load() (*signer, error) {
	if s.cfg.SignKey == "" {
		return nil, nil //nolint:nilnil // no signature was requested
	}
	if s.lasts <= 0 {
		return nil, usagef("--sign-for must be positive")
	}
	key, err := keyfile.LoadApproverKey(s.cfg.SignKey)
	if err != nil {
		return nil, err
	}
	return &signer{key, s.cfg.As, s.lasts}, nil
}

// keyID names the key as lists of approvers do.
func (s *signer) keyID() string { return toolcall.KeyID(s.key.Public().(ed25519.PublicKey)) }

// sign signs the approval of what the person reviewed. It computes the digest itself
// and does not trust the one that the engine sent.
func (s *signer) sign(call *toolcall.Call, now time.Time) (*toolcall.ApproverSignature, error) {
	digest, err := call.Request.Digest()
	if err != nil {
		return nil, err
	}
	if digest != call.Digest || call.Request.Key != call.Key || call.Request.Tool != call.Tool {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "sign", What: "the digest does not match the approval request that the engine sent", Hint: "do not approve the call, and tell the operator of the engine"}
	}
	return toolcall.SignApproval(*call.Request, s.as, now.Add(s.lasts), s.key)
}
