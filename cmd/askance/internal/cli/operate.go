package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
)

func newResolveCommand(env *environment) *cobra.Command {
	var ad address
	var r message.ResolveRequest
	var output string
	c := &cobra.Command{
		Use:   "resolve CALL --outcome OUTCOME",
		Short: "Resolve a call whose outcome is unknown",
		Long: `A call is blocked if its worker died after the start and the tool is not idempotent,
if every permitted attempt was lost, or if no worker took it in time. Find out what
happened, then resolve the call:

  happened         the effect took place; --output is the result
  did_not_happen   the effect did not take place; the model gets an error
  run_again        offer the call to a worker again, as a new attempt`,
		Example: `  askance list --blocked
  askance resolve call_42 --outcome happened --output "refund re_123"
  askance resolve call_42 --outcome run_again --note "the provider never saw it"`,
		Args:              oneCall(&ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallSubmitted, message.ToolCallAllowed),
		RunE: func(c *cobra.Command, _ []string) error {
			if r.Outcome == "" {
				return usagef("--outcome is missing: use happened, did_not_happen or run_again")
			}
			var err error
			if r.Output, err = env.readText("--output", output, message.MaxOutputBytes); err != nil {
				return err
			}
			return env.withCall(c.Context(), message.RoleOperator, &ad, func(l *link, call *message.Call) error {
				r.V, r.Key = 1, call.Key
				if r.Attempt == 0 {
					r.Attempt = call.Attempt.Number
				}
				after, err := l.Resolve(c.Context(), r)
				if err != nil {
					return err
				}
				return printOutcome(env, after)
			})
		},
	}
	env.cfg.bindClient(c)
	ad.flags(c)
	f := c.Flags()
	f.StringVar((*string)(&r.Outcome), "outcome", "", "happened, did_not_happen or run_again")
	f.StringVar(&output, "output", "", "result, with happened: a text, @FILE, or - for standard input")
	f.StringVar(&r.Note, "note", "", "what you found out, for the journal")
	f.IntVar(&r.Attempt, "attempt", 0, "resolve only this attempt (default the present one)")
	_ = c.RegisterFlagCompletionFunc("outcome", cobra.FixedCompletions([]string{"happened", "did_not_happen", "run_again"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func newRevokeCommand(env *environment) *cobra.Command {
	var ad address
	var r message.RevokeRequest
	c := &cobra.Command{
		Use:               "revoke CALL",
		Short:             "Revoke a call that is allowed and has not started",
		Example:           `  askance revoke call_42 --reason "wrong customer"`,
		Args:              oneCall(&ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallSubmitted, message.ToolCallAllowed),
		RunE: func(c *cobra.Command, _ []string) error {
			return env.withCall(c.Context(), message.RoleOperator, &ad, func(l *link, call *message.Call) error {
				r.V, r.Key = 1, call.Key
				after, err := l.Revoke(c.Context(), r)
				if err != nil {
					return err
				}
				return printOutcome(env, after)
			})
		},
	}
	env.cfg.bindClient(c)
	ad.flags(c)
	c.Flags().StringVar(&r.Reason, "reason", "", "reason, for the journal and the model")
	return c
}

func newInterruptCommand(env *environment) *cobra.Command {
	var ad address
	var r message.InterruptRequest
	c := &cobra.Command{
		Use:   "interrupt CALL",
		Short: "Interrupt every open call of a reply",
		Long: `Interrupts the reply that a call belongs to, with all its open calls. No call of it
starts afterwards, and workers get the order to stop running calls.`,
		Example: `  askance interrupt call_42 --reason "wrong ticket"
  askance interrupt --session ticket-7 --reply reply-1`,
		ValidArgsFunction: env.completeCalls(),
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && ad.session != "" && ad.reply != "" {
				return nil
			}
			return oneCall(&ad)(c, args)
		},
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := env.connect(c.Context(), message.RoleOperator)
			if err != nil {
				return err
			}
			defer l.Close()
			r.V, r.Session, r.Reply = 1, message.SessionID(ad.session), message.ReplyID(ad.reply)
			if err := findReply(c.Context(), l, &ad, &r); err != nil {
				return err
			}
			reply, err := l.Interrupt(c.Context(), r)
			if err != nil {
				return err
			}
			if env.json {
				return env.printDocument(reply)
			}
			var text strings.Builder
			fmt.Fprintf(&text, "Reply %s interrupted, %d open calls ended.\n", term.SafeLine(string(r.Session)+"/"+string(r.Reply)), len(reply.Calls))
			for _, call := range reply.Calls {
				text.WriteString(outcomeText(env.out, call) + "\n")
			}
			return env.printf("%s", text.String())
		},
	}
	env.cfg.bindClient(c)
	ad.flags(c)
	c.Flags().StringVar(&r.Reason, "reason", "", "reason, for the journal")
	return c
}

// findReply finds the reply. A reply without any call is a typing error.
func findReply(ctx context.Context, c engine.Client, ad *address, r *message.InterruptRequest) error {
	if ad.arg != "" {
		call, err := ad.find(ctx, c)
		if err != nil {
			return err
		}
		r.Session, r.Reply = call.Session, call.Reply
		return nil
	}
	calls, err := c.List(ctx, message.ListRequest{V: 1, Session: r.Session, Reply: r.Reply, All: true, Limit: 1})
	if err == nil && len(calls.Calls) == 0 {
		err = &message.Error{Code: message.CodeNotFound, Op: "interrupt", What: fmt.Sprintf("the reply %s/%s has no calls", r.Session, r.Reply), Hint: "askance list --all shows all calls"}
	}
	return err
}
