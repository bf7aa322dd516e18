package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// copying backs up or restores a space.
type copying func(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, folder string, archives journal.ArchiveStore) (journal.Copied, error)

func newJournalBackupCommand(env *environment) *cobra.Command {
	backUp := func(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, folder string, archives journal.ArchiveStore) (journal.Copied, error) {
		file := env.cfg.Keys
		if file == "" {
			d, err := findDamagedJournal(env)
			if err != nil {
				return journal.Copied{}, err
			}
			file = cmp.Or(d.Keys, d.Dir.Files(space).Keys())
		}
		keys, err := keyfile.Load(file)
		if err != nil {
			return journal.Copied{}, err
		}
		copied, err := journal.BackUp(ctx, nc, space, keys, folder, archives)
		if err != nil && errors.Is(context.Cause(ctx), errSignal) && !errors.Is(err, message.ErrConflict) {
			err = withHint(message.Errorf(message.CodeInterrupted, "back up", "%w", errSignal), "remove "+folder+", which is incomplete, and run the backup again")
		}
		return copied, err
	}
	c := newCopyCommand(env, backUp, "Backed up", false, &cobra.Command{
		Use:   "backup FOLDER",
		Short: "Copy the journal, checkpoints and buckets of a space into a folder",
		Long: `Copies all streams of the space into a new folder: from the server of --nats, or from the
data folder. Engines can run meanwhile. Archive files come from the object store of the
space, or from the folder archive of the data folder. The copy does not include the key
file, the policy and tools files, or the credentials: store them with it, because the
engines cannot use the journal without engine.key.

It needs the engines' key file to verify the checkpoints, and with --nats their login
(--creds).`,
		Example: `  askance journal backup /backup/monday
  askance journal backup /backup/monday --nats nats://nats.internal:4222 --creds engine.creds --keys space.key`,
	})
	env.cfg.bindAs(c, &env.cfg.Keys, keysOfSpace)
	return c
}

func newJournalRestoreCommand(env *environment) *cobra.Command {
	restore := func(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, folder string, archives journal.ArchiveStore) (journal.Copied, error) {
		file := cmp.Or(env.cfg.Keys, node.Dir(env.cfg.dir()).Files(space).Keys())
		keys, missing := keyfile.Load(file)
		if id := journal.BackupKeyID(folder, space); missing == nil && id != "" && keys.ID() != id && env.cfg.NATS == "" {
			return journal.Copied{}, &message.Error{Code: message.CodeForeignStream, Op: "restore", What: file + " is not the key file of this backup",
				Hint: fmt.Sprintf("restore into a new folder with the engine.key of the backup; if the space was served with --spaces, put it into %s first", filepath.Join(env.cfg.dir(), "spaces", string(space)))}
		}
		copied, err := journal.Restore(ctx, nc, space, folder, archives)
		if err == nil && errors.Is(missing, fs.ErrNotExist) && (env.cfg.NATS == "" || env.cfg.Keys != "") {
			env.notef("Copy the engine.key of this backup to %s: engines cannot use the journal without it.\n", term.SafeLine(file))
		}
		for _, old := range [][2]string{{"rules", journal.PolicyBucketName(space)}, {"groups of people", journal.DirectoryBucketName(space)}} {
			if err == nil && slices.Contains(copied.Streams, "KV_"+old[1]) {
				env.notef("The %s in the bucket %s are as old as the backup: what was tightened since is undone. Put the current files there.\n", old[0], old[1])
			}
		}
		if me, ok := errors.AsType[*message.Error](err); ok && me.Code == message.CodeConflict && env.cfg.NATS == "" {
			own := *me
			own.What, own.Hint = "the data folder "+env.cfg.dir()+" already has a journal", "restore into a new folder"
			return copied, &own
		}
		return copied, err
	}
	return newCopyCommand(env, restore, "Restored", true, &cobra.Command{
		Use:   "restore FOLDER",
		Short: "Restore a space from a folder of askance journal backup",
		Long: `Creates the streams of the space on servers that have none of them, with three replicas
on a cluster, else one; without --nats in a data folder that has no journal. Archive files
go into the object store of the space, or into the data folder. Stop all engines first.

Engines exit with code 8 on the restored journal until its loss is accepted: see askance
journal check and askance journal accept-loss. Rules and groups of people in buckets are
those of the backup: put the current files there before engines start.`,
		Example: `  askance journal restore /backup/monday --data restored
  askance journal restore /backup/monday --nats nats://nats.internal:4222 --creds engine.creds`,
	})
}

// newCopyCommand returns a command that copies with the server of --nats, or of the data folder. A
// restore may make the store of that folder, and syncs all of its files once, at the end.
func newCopyCommand(env *environment, do copying, done string, restores bool, c *cobra.Command) *cobra.Command {
	c.Args = wantArgs(1, "one folder, for instance: askance journal "+c.Name()+" /backup/monday")
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		if restores { // before the data folder gets a store
			if _, err := os.Stat(args[0]); errors.Is(err, fs.ErrNotExist) {
				return &message.Error{Code: message.CodeNotFound, Op: "journal", What: "there is no folder " + args[0], Hint: "name a folder that askance journal backup wrote"}
			}
			if _, err := journal.BackupContents(args[0]); err != nil {
				return err
			}
		}
		nc, archives, closeAll, err := dialStore(ctx, env, restores)
		if err != nil {
			return err
		}
		copied, err := do(ctx, nc, env.cfg.spaceID(), args[0], archives)
		if err = cmp.Or(err, closeAll()); err != nil {
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

// dialStore connects as engines do to the server of --nats or of the data folder. It starts the
// folder's own server if none runs.
func dialStore(ctx context.Context, env *environment, restores bool) (nc *nats.Conn, archives journal.ArchiveStore, closeAll func() error, err error) {
	dir, space, url := node.Dir(env.cfg.dir()), env.cfg.spaceID(), env.cfg.NATS
	if dir != "" { // else a machine without a home folder
		archives = journal.ArchiveFolder(dir.Files(space).Archives())
	}
	if url == "" {
		if _, err := os.Stat(string(dir)); err != nil && restores {
			return nil, nil, nil, &message.Error{Code: message.CodeNotFound, Op: "journal", What: "the data folder cannot be used", Hint: "pass --data or --nats; on this machine, make the folder and put the engine.key of the backup into it", Err: err}
		}
		if url, err = dir.URL(); err != nil {
			return nil, nil, nil, err
		}
	}
	if url != "" {
		nc, err = bus.Connect(ctx, url, env.connectOptions(creds.EngineName, "askance journal", url, engineLogin(env)))
		if err == nil {
			return nc, journal.NewArchiveBucket(nc, space, archives), func() error { nc.Close(); return nil }, nil
		}
		if env.cfg.NATS != "" || ctx.Err() != nil {
			return nil, nil, nil, err
		}
	}
	of := journal.DurabilityCached
	if !restores {
		of = journal.DurabilityFsynced
		if err := dir.Exists(); err != nil {
			return nil, nil, nil, err
		}
	}
	server, err := embed.Start(ctx, embed.Options{StoreDir: dir.Store(), AddressFiles: dir.Addresses(), Durability: of}) // a killed server leaves its address
	if err != nil {
		return nil, nil, nil, err
	}
	if nc, err = server.Connect(ctx, bus.ConnectOptions{Principal: creds.EngineName}); err != nil {
		server.Close()
		return nil, nil, nil, err
	}
	return nc, node.ArchivesOf(nc, server, dir.Files(space), space), func() error {
		nc.Close()
		server.Close()
		if !restores {
			return nil
		}
		return syncFiles(dir.Store())
	}, nil
}

// syncFiles makes everything in a folder durable.
func syncFiles(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && runtime.GOOS == "windows" { // cannot sync a folder
			return err
		}
		flag := os.O_RDWR
		if d.IsDir() {
			flag = os.O_RDONLY
		}
		f, err := os.OpenFile(path, flag, 0) //nolint:gosec // G304: a file of the data folder
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

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
		Args: optional(wantArgs(1, "at most one number of replicas")),
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
		if n, err = strconv.Atoi(args[0]); err != nil || n == 0 || journal.CheckReplicas(n) != nil {
			return usagef("%q is not a number of replicas, use 1, 3 or 5", args[0])
		}
	}
	url := env.cfg.NATS
	if url == "" {
		return usagef("no NATS server: pass its URL with --nats")
	}
	nc, err := bus.Connect(ctx, url, env.connectOptions(creds.EngineName, "askance journal", url, env.cfg.Creds))
	if err != nil {
		return err
	}
	defer nc.Close()
	if n > 0 {
		report := func(r journal.Replicated) { env.notef("%s\n", replicatedText(r)) }
		if err := journal.SetReplicas(ctx, nc, env.cfg.spaceID(), n, report); err != nil {
			return err
		}
	}
	all, err := journal.Replication(ctx, nc, env.cfg.spaceID())
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, r := range all {
		fmt.Fprintln(&text, replicatedText(r))
	}
	return env.print(all, text.String())
}

// replicatedText says which servers hold a stream: for a moment, more than are set.
func replicatedText(r journal.Replicated) string {
	has := fmt.Sprintf("%d of %d replicas complete", len(r.Current), r.Replicas)
	if len(r.Current) > r.Replicas {
		has = fmt.Sprintf("%s set, still on %d servers", asked.Count(r.Replicas, "replica"), len(r.Current))
	}
	return fmt.Sprintf("%-28s %s: %s", term.SafeLine(r.Stream), has, term.SafeLine(strings.Join(r.Current, ", ")))
}
