package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/hookfile"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/message"
)

func newWebhooksTestCommand(env *environment) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "test DESTINATION", Short: "Send one trial message",
		Long: `Sends one trial message to a destination of a webhooks file, signed as all messages
are, and says whether it was taken. Its type is ping. It goes out from this machine: no
server is asked, and nothing is tried again.`,
		Example: "  askance webhooks test ops-bot --webhooks hooks.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("want the name of one destination of the webhooks file")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if file == "" {
				return usagef("want --webhooks FILE, the file that askance serve is given")
			}
			all, err := hookfile.Load(file)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(all, func(d webhook.Destination) bool { return d.Name == args[0] })
			if i < 0 {
				return &message.Error{Code: message.CodeNotFound, Op: "test a webhook", What: "the file has no destination " + term.SafeLine(args[0]), Hint: "name one of " + file}
			}
			id, err := webhook.Try(c.Context(), all[i], nil)
			if err != nil {
				return &message.Error{Code: message.CodeUnavailable, Op: "test a webhook", What: err.Error(), Hint: "mend the receiver or its address, then try again"}
			}
			if env.json {
				return env.printDocument(map[string]any{"destination": args[0], "id": id, "taken": true})
			}
			return env.printf("Taken: %s\n", id)
		},
	}
	c.Flags().StringVar(&file, "webhooks", "", "the webhooks file")
	return c
}
