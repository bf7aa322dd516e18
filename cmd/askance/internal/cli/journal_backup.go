package cli

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/toolcall"
)

// copying backs up or restores a space.
type copying func(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, folder string) ([]string, error)

func newJournalBackupCommand(env *environment) *cobra.Command {
	return newCopyCommand(env, bus.BackUp, "Backed up", &cobra.Command{
		Use:   "backup FOLDER",
		Short: "Copy the journal, checkpoints and buckets of a space into a folder",
		Long: `Copies all streams of the space from the server of --nats into a new folder. Engines can
run meanwhile. The copy does not have the key file, the policy and tools files, and the
credentials: keep them with it, because the journal is worthless without engine.key.

It needs the login of the engines (--creds).`,
		Example: `  askance journal backup /backup/monday --nats nats://nats.internal:4222 --creds engine.creds`,
	})
}

func newJournalRestoreCommand(env *environment) *cobra.Command {
	return newCopyCommand(env, bus.Restore, "Restored", &cobra.Command{
		Use:   "restore FOLDER",
		Short: "Restore a space from a folder of askance journal backup",
		Long: `Makes the streams of the space on servers that have none of them: three replicas on a
cluster, else one. Stop all engines first.

An engine whose anchor file knows later records then ends with exit code 8: look with
askance journal check, and accept the loss with askance journal accept-loss.`,
		Example: `  askance journal restore /backup/monday --nats nats://nats.internal:4222 --creds engine.creds`,
	})
}

func newCopyCommand(env *environment, do copying, done string, c *cobra.Command) *cobra.Command {
	c.Args = cobra.ExactArgs(1)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		nc, err := dialCluster(ctx, env)
		if err != nil {
			return err
		}
		defer nc.Close()
		names, err := do(ctx, nc, env.cfg.spaceID(), args[0])
		if err != nil {
			return err
		}
		return env.print(names, done+" "+strings.Join(names, ", ")+".\n")
	}
	env.cfg.bindJournal(c)
	return c
}

// dialCluster connects to the server of --nats as engines do.
func dialCluster(ctx context.Context, env *environment) (*nats.Conn, error) {
	if env.cfg.NATS == "" {
		return nil, usagef("no server or cluster is named: name it with --nats")
	}
	return bus.Connect(ctx, env.cfg.NATS, env.connectOptions(creds.EngineName, "askance journal", env.cfg.NATS, env.cfg.Creds))
}
