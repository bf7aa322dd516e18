package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/message"
)

func newHandOverCommand(env *environment) *cobra.Command {
	var d decision
	var to, note string
	c := &cobra.Command{
		Use:   "hand-over CALL [--to NAME]",
		Short: "Leave a question to somebody else, with a note",
		Long: `Leaves a question to others: to the person named with --to, or to whoever else
may answer it. The question stays open, and its time goes on. You cannot approve
it afterwards, only reject it; an approval that you gave before is taken back.
Nobody may answer because of this who could not before.`,
		Example: `  askance hand-over call_42 --to bob --note "you know the customer"
  askance hand-over call_42 --note "I am related to the payee" --yes`,
		Args:              oneCall(&d.ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallAsking),
		RunE: func(c *cobra.Command, _ []string) error {
			return decide(c.Context(), env, &d, "Hand over", func(context.Context, *message.Call) (message.Answer, error) {
				answer := message.Answer{Kind: message.AnswerAbstain, Note: note}
				if to != "" {
					answer.Kind, answer.To = message.AnswerHandOver, to
				}
				return answer, nil
			})
		},
	}
	env.at.flags(c)
	d.flags(c)
	c.Flags().StringVar(&to, "to", "", "who should answer; left out, you abstain")
	c.Flags().StringVar(&note, "note", "", "for the people who look next")
	return c
}
