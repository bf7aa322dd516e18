package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/message"
)

func (a *app) approve() *cobra.Command {
	var d decision
	var remember bool
	c := &cobra.Command{
		Use:   "approve CALL",
		Short: "Approve exactly what a call asks",
		Long: `Approves a call as it stands. The answer names the digest of the question, so
what was shown is what runs: if the call was edited or asked anew meanwhile, the
answer is refused with exit code 3.`,
		Example: `  askance approve call_42                       # shows the call and asks back
  askance approve call_42 --yes
  askance approve call_42 --digest sha256:9f2…  # for scripts: what was seen before
  askance approve call_42 --remember            # and accept the rules it offers`,
		Args:              oneCall(&d.ad),
		ValidArgsFunction: a.completeCalls(message.ToolCallAsking),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.decide(c.Context(), &d, "Approve", func(_ context.Context, call *message.Call) (message.Answer, error) {
				answer := message.Answer{Kind: message.AnswerApprove}
				if remember {
					answer.Rules = call.Suggested
				}
				return answer, nil
			})
		},
	}
	a.at.flags(c)
	d.flags(c)
	c.Flags().BoolVar(&remember, "remember", false, "remember the offered rules for the session")
	return c
}
