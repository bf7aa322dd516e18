package cli

import (
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/replay"
	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/message"
)

func newEventsReplayCommand(env *environment) *cobra.Command {
	var r message.EventsRequest
	c := &cobra.Command{
		Use:   "replay [SESSION]",
		Short: "Rebuild a reply's message from its events alone, and print it",
		Long: `Reads a session's AgentScope events and applies them one after the other to an
empty message, as any frontend does. Nothing else is looked at. Without --reply it
is the session's last reply; without SESSION there must be only one. A call that a
person edited keeps the model's arguments in the message, as the format has it; the
line "edited" below it has those that ran.`,
		Example: `  askance events replay ticket-7
  askance events replay ticket-7 --reply reply-1 --json`,
		Args: oneSession(&r.Session),
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := env.connect(c.Context(), message.RoleAuditor)
			if err != nil {
				return err
			}
			defer l.Close()
			if r.Session, err = theSession(c.Context(), l, r.Session); err != nil {
				return err
			}
			b, err := replay.Message(c.Context(), l, r.Session, r.Reply)
			if err != nil {
				return err
			}
			if env.json {
				return env.printDocument(b.Msg)
			}
			return story.Message(env.out, b.Msg, b.Edited)
		},
	}
	env.at.flags(c)
	c.Flags().StringVar((*string)(&r.Reply), "reply", "", "the reply (default: the last one)")
	return c
}
