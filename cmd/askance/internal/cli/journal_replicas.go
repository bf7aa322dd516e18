package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
)

// replicasTimeout bounds the copying to new servers.
const replicasTimeout = 10 * time.Minute

func newJournalReplicasCommand(env *environment) *cobra.Command {
	wait := replicasTimeout
	c := &cobra.Command{
		Use:   "replicas [N]",
		Short: "Show or set how many servers of a cluster hold the journal",
		Long: `Lists the streams of the space with the servers that have all of their messages. With N
(1, 3 or 5) it changes all of them, waits until every server has everything, and prints
the result. Engines can run meanwhile: they claim quorum from 3 replicas on.

It needs the login of the engines (--creds). Run it again if it was interrupted.`,
		Example: `  askance journal replicas --nats nats://nats.internal:4222 --creds engine.creds
  askance journal replicas 3 --nats nats://nats.internal:4222 --creds engine.creds`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), wait)
			defer cancel()
			return runJournalReplicas(ctx, env, args)
		},
	}
	env.cfg.bindJournal(c)
	durationVar(c.Flags(), &wait, "timeout", replicasTimeout, "how long to wait for the copies")
	return c
}

func runJournalReplicas(ctx context.Context, env *environment, args []string) error {
	n := 0
	if len(args) == 1 {
		var err error
		if n, err = strconv.Atoi(args[0]); err != nil || n == 0 || bus.CheckReplicas(n) != nil {
			return usagef("%q is not a number of replicas, use 1, 3 or 5", args[0])
		}
	}
	nc, err := dialCluster(ctx, env)
	if err != nil {
		return err
	}
	defer nc.Close()
	if n > 0 {
		report := func(r bus.Replicated) { env.notef("%s\n", replicatedText(r)) }
		if err := bus.SetReplicas(ctx, nc, env.cfg.spaceID(), n, report); err != nil {
			return err
		}
	}
	all, err := bus.Replication(ctx, nc, env.cfg.spaceID())
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, r := range all {
		fmt.Fprintln(&text, replicatedText(r))
	}
	return env.print(all, text.String())
}

func replicatedText(r bus.Replicated) string {
	return fmt.Sprintf("%-28s %d of %d replicas complete: %s", term.SafeLine(r.Stream), len(r.Current), r.Replicas, term.SafeLine(strings.Join(r.Current, ", ")))
}
