package cli

import (
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/message"
)

func newSettleCommand(env *environment) *cobra.Command {
	var ad address
	var r message.SettleRequest
	var output string
	c := &cobra.Command{
		Use:   "settle CALL --outcome OUTCOME",
		Short: "Say what became of a call whose outcome nobody knows",
		Long: `A call is held when its owner died after the start and the tool is not idempotent,
when every permitted attempt was lost, or when no worker took it in time. Find
out what happened, then say so:

  happened         the effect took place; --output is its result
  did_not_happen   it did not; the model sees an error
  run_again        offer it once more, as a new attempt`,
		Example: `  askance list --held
  askance settle call_42 --outcome happened --output "refund re_123"
  askance settle call_42 --outcome run_again --note "the provider never saw it"`,
		Args:              oneCall(&ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallSubmitted, message.ToolCallAllowed),
		RunE: func(c *cobra.Command, _ []string) error {
			if r.Outcome == "" {
				return usagef("--outcome is missing: say happened, did_not_happen or run_again")
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
				after, err := l.Settle(c.Context(), r)
				if err != nil {
					return err
				}
				return printOutcome(env, after)
			})
		},
	}
	env.at.flags(c)
	ad.flags(c)
	f := c.Flags()
	f.StringVar((*string)(&r.Outcome), "outcome", "", "happened, did_not_happen or run_again")
	f.StringVar(&output, "output", "", "result, with happened: a text, @FILE, or - for standard input")
	f.StringVar(&r.Note, "note", "", "what you found out, for the record")
	f.IntVar(&r.Attempt, "attempt", 0, "settle only this attempt (default: the present one)")
	_ = c.RegisterFlagCompletionFunc("outcome", cobra.FixedCompletions([]string{"happened", "did_not_happen", "run_again"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}
