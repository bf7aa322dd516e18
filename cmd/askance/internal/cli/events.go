package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
)

func newEventsCommand(env *environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "events",
		Short: "Follow a session's events, or rebuild a message from them",
		Example: `  askance events tail ticket-7
  askance events replay ticket-7`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q, use tail or replay", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newEventsTailCommand(env), newEventsReplayCommand(env))
	return c
}

// oneSession takes the session argument. Without one there must be only one
// session with calls.
func oneSession(into *message.SessionID) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > 1:
			return usagef("want one session, got %d arguments", len(args))
		case len(args) == 1:
			*into = message.SessionID(args[0])
		}
		return nil
	}
}

// theSession is the one that was named, or the only one there is.
func theSession(ctx context.Context, c engine.Client, named message.SessionID) (message.SessionID, error) {
	if named != "" {
		return named, nil
	}
	calls, err := engine.ListAll(ctx, c, message.ListRequest{All: true}, 0)
	if err != nil {
		return "", err
	}
	var sessions []string
	for _, call := range calls {
		sessions = append(sessions, string(call.Session))
	}
	slices.Sort(sessions)
	switch sessions = slices.Compact(sessions); len(sessions) {
	case 0:
		return "", &message.Error{Code: message.CodeNotFound, Op: "find session", What: "there are no calls here", Hint: "name the session"}
	case 1:
		return message.SessionID(sessions[0]), nil
	default:
		return "", usagef("there are %d sessions, name one of %q", len(sessions), sessions[:min(len(sessions), maxCandidates)])
	}
}
