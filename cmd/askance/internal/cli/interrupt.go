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

func newInterruptCommand(env *environment) *cobra.Command {
	var ad address
	var r message.InterruptRequest
	c := &cobra.Command{
		Use:   "interrupt CALL",
		Short: "End every open call of a reply",
		Long: `Ends every open call of the reply that a call belongs to, and the reply itself:
nothing of it begins any more, and what runs is told to stop.`,
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
			if err := interrupted(c.Context(), l, &ad, &r); err != nil {
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
			fmt.Fprintf(&text, "The reply %s is interrupted, %d open calls were ended.\n", term.SafeLine(string(r.Session)+"/"+string(r.Reply)), len(reply.Calls))
			for _, call := range reply.Calls {
				text.WriteString(outcomeText(env.out, call) + "\n")
			}
			return env.printf("%s", text.String())
		},
	}
	env.at.flags(c)
	ad.flags(c)
	c.Flags().StringVar(&r.Reason, "reason", "", "why, for the record")
	return c
}

// interrupted finds the reply that is meant. One that nobody has ever proposed a
// call in is a slip of the keyboard.
func interrupted(ctx context.Context, c engine.Client, ad *address, r *message.InterruptRequest) error {
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
		err = &message.Error{Code: message.CodeNotFound, Op: "interrupt", What: fmt.Sprintf("no call of the reply %s/%s is known", r.Session, r.Reply), Hint: "askance list --all shows what there is"}
	}
	return err
}
