package cli

import (
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/message"
)

func newRevokeCommand(env *environment) *cobra.Command {
	var ad address
	var r message.RevokeRequest
	c := &cobra.Command{
		Use:               "revoke CALL",
		Short:             "Take back a call that was allowed and has not started",
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
	env.at.flags(c)
	ad.flags(c)
	c.Flags().StringVar(&r.Reason, "reason", "", "why, for the record and the model")
	return c
}
