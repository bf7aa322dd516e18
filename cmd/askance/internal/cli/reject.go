package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/message"
)

func newRejectCommand(env *environment) *cobra.Command {
	var d decision
	var feedback string
	c := &cobra.Command{
		Use:   "reject CALL",
		Short: "Reject a call, and tell the model why",
		Example: `  askance reject call_42 --feedback "refund only the shipping"
  askance reject call_42 --yes`,
		Args:              oneCall(&d.ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallAsking),
		RunE: func(c *cobra.Command, _ []string) error {
			return decide(c.Context(), env, &d, "Reject", func(context.Context, *message.Call) (message.Answer, error) {
				return message.Answer{Kind: message.AnswerReject, Feedback: feedback}, nil
			})
		},
	}
	env.at.flags(c)
	d.flags(c)
	c.Flags().StringVar(&feedback, "feedback", "", "what the model is told")
	return c
}
