package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/message"
)

func newApproveCommand(env *environment) *cobra.Command {
	var d decision
	var memory memory
	var sign signing
	c := &cobra.Command{
		Use:   "approve CALL",
		Short: "Approve exactly what a call asks",
		Long: `Approves a call as it stands. The answer names the digest of the question, so
what was shown is what runs: if the call was edited or asked anew meanwhile, the
answer is refused with exit code 3.

With --remember later calls like it are not asked about again: by the rules that
the question offers, in the session. With the flags beside it the rules are
remembered on terms: they can be narrowed (--rule), count the calls that they
answer for (--uses, --budget), and end (--until). A rule of the policy with
remember says what else may be; without one no answer reaches beyond its session.
Of a call that hides arguments nothing is remembered. askance rules lists what is
remembered and takes it back.`,
		Example: `  askance approve call_42                       # shows the call and asks back
  askance approve call_42 --yes
  askance approve call_42 --digest sha256:9f2…  # for scripts: what was seen before
  askance approve call_42 --remember            # and accept the rules it offers
  askance approve call_42 --sign-key ann.key    # where the rule takes your own signature
  askance approve call_42 --remember --scope session --until 2h --uses 3
  askance approve call_42 --remember --rule "git push origin:*"
  askance approve call_42 --remember --budget args.cents=10000`,
		Args:              oneCall(&d.ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallAsking),
		RunE: func(c *cobra.Command, _ []string) error {
			return decide(c.Context(), env, &d, "Approve", func(_ context.Context, call *message.Call) (message.Answer, error) {
				answer := message.Answer{Kind: message.AnswerApprove}
				key, err := sign.load(env.at.as)
				if err != nil {
					return answer, err
				}
				if key != nil {
					if answer.Signature, err = key.sign(call, time.Now()); err != nil {
						return answer, err
					}
				}
				return answer, memory.into(&answer, call, time.Now())
			})
		},
	}
	env.at.flags(c)
	d.flags(c)
	memory.flags(c)
	sign.flags(c)
	return c
}
