package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/toolcall"
)

// copying backs up or restores a space.
type copying func(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, folder string, archives bus.ArchiveStore) (bus.Copied, error)

func newJournalBackupCommand(env *environment) *cobra.Command {
	backUp := func(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, folder string, archives bus.ArchiveStore) (bus.Copied, error) {
		file := env.cfg.Keys
		if file == "" {
			d, err := findDamagedJournal(env)
			if err != nil {
				return bus.Copied{}, err
			}
			file = cmp.Or(d.Keys, d.Dir.Files(space).Keys())
		}
		keys, err := keyfile.Load(file)
		if err != nil {
			return bus.Copied{}, err
		}
		return bus.BackUp(ctx, nc, space, keys, folder, archives)
	}
	c := newCopyCommand(env, backUp, "Backed up", &cobra.Command{
		Use:   "backup FOLDER",
		Short: "Copy the journal, checkpoints and buckets of a space into a folder",
		Long: `Copies all streams of the space from the server of --nats into a new folder. Engines can
run meanwhile. Archive files come from the object store of the space, or from the folder
archive of the data folder. The copy does not include the key file, the policy and tools
files, or the credentials: store them with it, because the journal is worthless without
engine.key.

It needs the engines' login (--creds), and their key file to verify the checkpoints.`,
		Example: `  askance journal backup /backup/monday --nats nats://nats.internal:4222 --creds engine.creds --keys space.key`,
	})
	env.cfg.bindAs(c, &env.cfg.Keys, keysOfSpace)
	return c
}

func newJournalRestoreCommand(env *environment) *cobra.Command {
	return newCopyCommand(env, bus.Restore, "Restored", &cobra.Command{
		Use:   "restore FOLDER",
		Short: "Restore a space from a folder of askance journal backup",
		Long: `Creates the streams of the space on servers that have none of them, with three replicas
on a cluster, else one. Archive files go into the object store of the space. Stop all
engines first.

An engine whose anchor file proves later records then exits with code 8: see askance
journal check, and accept the loss with askance journal accept-loss.`,
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
		var folder bus.ArchiveStore // a machine without a home folder has none
		if data := env.cfg.dir(); data != "" {
			folder = bus.ArchiveFolder(node.Dir(data).Files(env.cfg.spaceID()).Archives())
		}
		copied, err := do(ctx, nc, env.cfg.spaceID(), args[0], bus.NewArchiveBucket(nc, env.cfg.spaceID(), folder))
		if err != nil {
			return err
		}
		var text strings.Builder
		fmt.Fprintf(&text, "%s %s.\n", done, strings.Join(slices.Concat(copied.Streams, copied.Archives), ", "))
		for _, name := range copied.Missing {
			fmt.Fprintf(&text, "%s is not in the folder: its records are proved but not shown.\n", term.SafeLine(name))
		}
		return env.print(copied, text.String())
	}
	env.cfg.bindJournal(c)
	return c
}

// dialCluster connects to the server of --nats as engines do.
func dialCluster(ctx context.Context, env *environment) (*nats.Conn, error) {
	if env.cfg.NATS == "" {
		return nil, usagef("no NATS server: pass its URL with --nats")
	}
	return bus.Connect(ctx, env.cfg.NATS, env.connectOptions(creds.EngineName, "askance journal", env.cfg.NATS, env.cfg.Creds))
}
