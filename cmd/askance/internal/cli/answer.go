package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/message"
)

func newAnswerCommand(env *environment) *cobra.Command {
	var d decision
	var output string
	c := &cobra.Command{
		Use:   "answer CALL --output TEXT",
		Short: "Answer for the tool: the text becomes the result, nothing runs",
		Example: `  askance answer call_42 --output "done by hand, ticket 17"
  askance answer call_42 --output @result.txt --yes
  date | askance answer call_42 --output - --yes`,
		Args:              oneCall(&d.ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallAsking),
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("output") {
				return usagef("--output is missing: it becomes the tool's result")
			}
			return decide(c.Context(), env, &d, "Answer for", func(context.Context, *message.Call) (message.Answer, error) {
				text, err := env.readText("--output", output, message.MaxOutputBytes)
				return message.Answer{Kind: message.AnswerForTool, Output: strings.TrimRight(text, "\n")}, err
			})
		},
	}
	env.at.flags(c)
	d.flags(c)
	c.Flags().StringVar(&output, "output", "", "the result: a text, @FILE, or - for standard input")
	return c
}
