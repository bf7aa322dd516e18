package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func newJournalArchiveCommand(env *environment) *cobra.Command {
	var r bus.Retention
	c := &cobra.Command{
		Use:   "archive --older-than DURATION",
		Short: "Move finished calls out of the journal into compressed files",
		Long: `Writes the records of finished replies into files, compares them with the signed
checkpoints, signs what it moves, and then deletes that from the journal. The files are in
the folder archive of the data folder; with --nats, in the object store
ASKANCE_ARCHIVE_SPACE of that server, where all engines find them. A reply stays if it has
a record newer than --older-than or an open call, if it granted a standing approval that is
in force, or if it has the last record of the journal, which shows that none is missing.

askance audit verify checks journal and files together, askance show reads both, and the
ids of archived calls and replies cannot be used again. Keep the files: while an .index
file is missing, engines refuse all new calls. The command makes it again from the
.jsonl.zst file, which can otherwise be kept elsewhere.

With --nats, engines can run meanwhile: the command waits until all of them refuse the ids,
half a minute for each archive. Stop the engine of a data folder first, or start it with
--archive-older-than: then it archives once a day while it runs. After an interruption, run
the command again.`,
		Example: `  askance journal archive --older-than 30d --dry-run
  askance journal archive --older-than 30d --keep 100000
  askance journal archive --older-than 30d --nats nats://nats.internal:4222 --creds engine.creds --keys space.key`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case !c.Flags().Changed("older-than"):
				return usagef("--older-than is missing: pass the time for which a reply had no record, such as 30d")
			case r.OlderThan < 0:
				return usagef("--older-than is negative, use a time such as 30d")
			case len(r.By) > toolcall.MaxIDBytes:
				return usagef("--by is too long")
			}
			r.Reason = retentionText(r)
			d, err := findDamagedJournal(env)
			if err != nil {
				return err
			}
			var end func()
			r.Progress, end = newStageBar(env)
			done, err := d.Archive(c.Context(), r)
			end()
			if err != nil {
				return inUse(err, stopServe+", or start it with --archive-older-than: then it archives once a day")
			}
			return env.print(done, archivingText(env.out, done, r.DryRun))
		},
	}
	addDamagedFlags(env, c)
	f := c.Flags()
	durationVar(f, &r.OlderThan, "older-than", 0, "archive replies whose last record is older than this")
	f.IntVar(&r.Keep, "keep", 0, "keep this many of these calls, the newest")
	f.Uint64Var(&r.MaxBytes, "max-bytes", 0, "stop when the journal has at most this many bytes")
	f.StringVar(&r.By, "by", "operator", "name that is signed with the archive")
	f.BoolVar(&r.DryRun, "dry-run", false, "only print what would be archived")
	return c
}

// retentionText returns the reason that is signed.
func retentionText(r bus.Retention) string {
	text := "older than " + permission.FormatDuration(r.OlderThan)
	if r.Keep > 0 {
		text += fmt.Sprintf(", %d calls kept", r.Keep)
	}
	if r.MaxBytes > 0 {
		text += fmt.Sprintf(", until the journal has %d bytes", r.MaxBytes)
	}
	return text
}

func archivingText(out *term.Out, a bus.Archiving, dry bool) string {
	what := fmt.Sprintf("%s, %s and %s", count(uint64(a.Replies), "reply", "replies"), count(uint64(a.Calls), "call", "calls"), count(a.Records, "record", "records"))
	var s strings.Builder
	if a.Resumed > 0 {
		fmt.Fprintf(&s, "An earlier archive was completed: %s deleted.\n", count(a.Resumed, "record was", "records were"))
	}
	switch {
	case a.Records == 0:
		s.WriteString("No finished reply is old enough.\n")
	case dry:
		fmt.Fprintf(&s, "Would archive %s: %s of the journal's %s.\n", what, sizeText(a.Bytes), sizeText(a.LeftOver))
	default:
		fmt.Fprintf(&s, "%s %s, %s in the journal, %s in the files.\nThe journal now has %s.\n", out.Good("Archived"), what, sizeText(a.Bytes), sizeText(uint64(a.Stored)), sizeText(a.LeftOver))
	}
	for _, name := range a.Archives {
		fmt.Fprintf(&s, "  %s\n", term.SafeLine(name))
	}
	for _, name := range a.Removed {
		fmt.Fprintf(&s, "Removed %s, left by an interrupted run.\n", term.SafeLine(name))
	}
	for _, name := range a.Unknown {
		fmt.Fprintf(&s, "%s belongs to no archive of this journal. Move it elsewhere, and keep it if it may hold the only copy of calls.\n", term.SafeLine(name))
	}
	return s.String()
}

func sizeText(n uint64) string {
	if n < 1e6 {
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
