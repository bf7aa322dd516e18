package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func newJournalCommand(env *environment) *cobra.Command {
	return newGroup(&cobra.Command{
		Use:   "journal",
		Short: "Check, archive, back up and restore a journal, accept a loss, set replicas",
		Long: `If records are missing that the signed checkpoints or the anchor file prove, an engine
refuses the journal and exits with code 8. These commands list what is missing and let
an operator accept the loss. They need a journal that no engine uses, except replicas and
backup, which work while engines run.`,
		Example: `  askance journal check
  askance journal backup /backup/monday
  askance journal restore /backup/monday --data NEW
  askance journal accept-loss --by ann --reason "disk failed, no backup"`,
	}, newJournalCheckCommand(env), newJournalAcceptLossCommand(env), newJournalArchiveCommand(env), newJournalReplicasCommand(env), newJournalBackupCommand(env), newJournalRestoreCommand(env))
}

// stopServe is the advice of a command that needs the journal for itself.
const stopServe = "stop askance serve first"

const keysOfSpace = "key file of the space's engines (default the one of the last run, or engine.key in the data folder)"

func addDamagedFlags(env *environment, c *cobra.Command) {
	env.cfg.bindJournal(c)
	env.cfg.bindAs(c, &env.cfg.Keys, keysOfSpace)
	env.cfg.bindAs(c, &env.cfg.Anchor, "anchor file (default the one of the last run, or anchors/SPACE in the data folder)")
}

func findDamagedJournal(env *environment) (node.Damaged, error) {
	d := node.Damaged{Dir: node.Dir(env.cfg.dir()), Space: env.cfg.spaceID(), Log: env.log}
	if d.Dir == "" {
		return d, usagef("cannot find a home folder for the data folder: pass --data")
	}
	last, err := readLastRun(string(d.Dir.Files(d.Space)))
	if err != nil {
		return d, err
	}
	d.Keys, d.Anchor = env.cfg.Keys, env.cfg.Anchor
	if last != nil {
		d.Keys, d.Anchor = cmp.Or(d.Keys, last.Keys), cmp.Or(d.Anchor, last.Anchor)
	}
	if url := env.cfg.NATS; url != "" {
		d.NATS = func(ctx context.Context) (*nats.Conn, error) {
			return bus.Connect(ctx, url, env.connectOptions(creds.EngineName, "askance journal", url, env.cfg.Creds))
		}
	}
	return d, nil
}

func newJournalCheckCommand(env *environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "List lost records",
		Long: `Compares the journal with its signed checkpoints and with the anchor file, and lists
what is missing: the sequences, how many of them were signed, and their calls if the
checkpoints name them. The command changes nothing.

The embedded NATS server can truncate a damaged file when it starts: copy the data
folder first if you want to try a repair.

A running engine checks its own journal every five seconds. Exits with code 8 if
records are missing.`,
		Example: `  askance journal check
  askance journal check --data /var/lib/askance --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := findDamagedJournal(env)
			if err != nil {
				return err
			}
			x, err := d.Examine(c.Context())
			if err != nil {
				return inUse(err, stopServe)
			}
			if err := env.print(x, examText(env.out, x)); err != nil {
				return err
			}
			return x.Error()
		},
	}
	addDamagedFlags(env, c)
	return c
}

func examText(out *term.Out, x *journal.Exam) string {
	s := newSheet(out, 10, out.Bold("Journal of the space "+term.SafeLine(string(x.Space))))
	s.rowf("records", "%s, the last one is %d", count(x.Records, "record", "records"), x.Last)
	if !x.LastAt.IsZero() {
		s.rowf("last", "stored %s", x.LastAt.Local().Format(time.DateTime))
	}
	s.rowf("signed", "up to %d, the last checkpoint is %d", x.Signed, x.Checkpoint)
	if x.Known > 0 {
		s.rowf("known", "up to %d, according to the anchor file %s", x.Known, x.Anchor)
	}
	for _, l := range x.Losses {
		s.rowf("accepted", "%s by %s: %s", l.At.Local().Format(time.DateTime), term.SafeLine(l.By), term.SafeLine(l.Reason))
	}
	if x.OK {
		s.line(out.Good("Nothing is missing."))
		return s.String()
	}
	for _, f := range x.Flaws {
		s.line(fmt.Sprintf("%s %s", out.Bad(string(f.Kind)), term.SafeLine(f.What)))
	}
	const most = 20
	names := x.LostNames()
	for _, name := range names[:min(most, len(names))] {
		s.line(fmt.Sprintf("%s signed records of %s", out.Bad("lost"), out.Name(term.SafeLine(name))))
	}
	if more := len(names) - most; more > 0 {
		s.line(fmt.Sprintf("… and %d more", more))
	}
	has := func(is func(journal.Flaw) bool) bool { return slices.ContainsFunc(x.Flaws, is) }
	if has(func(f journal.Flaw) bool { return f.Kind == journal.FlawUnreadable }) {
		s.WriteString("With an embedded server, accept-loss also removes the later records of the same file.\n")
	}
	if has(func(f journal.Flaw) bool { return f.Through == 0 || f.Through > x.Signed }) {
		s.WriteString("The calls of the unsigned records are not known.\n")
	}
	return s.String()
}

func newJournalAcceptLossCommand(env *environment) *cobra.Command {
	var by node.Acceptance
	var yes bool
	c := &cobra.Command{
		Use:   "accept-loss --by NAME --reason TEXT",
		Short: "Accept that records are lost, and close the affected calls",
		Long: `Use this only if no backup has the records. It adds a signed statement of who accepted
the loss, why, and which sequences are missing to the chain of checkpoints; askance
audit verify shows it from then on. The engine can start again afterwards.

No known call runs a second time because of the loss:
- every open call ends as interrupted, with the advice to check its effect
- the replies of those calls end, and their runtimes start new ones
- calls, replies and sessions that lost all signed records cannot be used again
- every standing approval is revoked

Calls whose records were all lost before a checkpoint signed them are unknown. If a
runtime proposes such a call again with the same id, it runs. Ask the runtimes which
calls they proposed since the last checkpoint.

An embedded server then removes the records that it cannot read, and the later records
of the same file. The command changes nothing before you confirm.`,
		Example: `  askance journal accept-loss --by ann --reason "disk failed, no backup"
  askance journal accept-loss --by ann --reason "purged on purpose" --yes --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if by.By == "" || by.Reason == "" {
				return usagef("--by or --reason is missing: both are signed into the chain of checkpoints")
			}
			if len(by.By) > toolcall.MaxIDBytes || len(by.Reason) > toolcall.MaxTextBytes {
				return usagef("--by or --reason is too long")
			}
			d, err := findDamagedJournal(env)
			if err != nil {
				return err
			}
			by.Confirm = func(x *journal.Exam) error {
				return confirmUnless(c.Context(), env, yes, "accept the loss that "+commandLineFor(env, "journal check")+" shows",
					examText(env.out, x), "Accept that these records are lost?")
			}
			done, err := d.AcceptLoss(c.Context(), by)
			if err != nil {
				return inUse(err, stopServe)
			}
			return env.print(done, fmt.Sprintf("%s Checkpoint %d records it.\n  %s interrupted, %d lost entries closed, %s revoked.\n", env.out.Good("The loss is accepted."), done.Checkpoint.Number,
				count(uint64(len(done.Interrupted)), "open call", "open calls"), len(done.Closed), count(uint64(done.Revoked), "standing approval", "standing approvals")))
		},
	}
	addDamagedFlags(env, c)
	f := c.Flags()
	f.StringVar(&by.By, "by", "", "name of the person who accepts the loss")
	f.StringVar(&by.Reason, "reason", "", "why the records are lost")
	f.BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return c
}

func newJournalArchiveCommand(env *environment) *cobra.Command {
	var r journal.Retention
	c := &cobra.Command{
		Use:   "archive --older-than DURATION",
		Short: "Move finished calls out of the journal into compressed files",
		Long: `Writes the records of finished replies into files, compares them with the signed
checkpoints, signs what it moves, and then deletes that from the journal. The files are in
the folder archive of the data folder; with --nats, in the object store
ASKANCE_ARCHIVE_SPACE of that server, where all engines find them. A reply stays if it has
a record newer than --older-than or an open call, if it granted a standing approval that is
in force, if a destination of webhooks has not got all of it, or if it has the last record,
which shows that none is missing. NATS forgets a destination that is not served for 30
days; askance webhooks forget removes it now.

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
				return usagef("--older-than is missing: pass how long replies stay after their last record, such as 30d")
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
			return env.print(done, archivingText(env, done, r.DryRun))
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
func retentionText(r journal.Retention) string {
	text := "older than " + permission.FormatDuration(r.OlderThan)
	if r.Keep > 0 {
		text += fmt.Sprintf(", %d calls kept", r.Keep)
	}
	if r.MaxBytes > 0 {
		text += fmt.Sprintf(", until the journal has %d bytes", r.MaxBytes)
	}
	return text
}

func archivingText(env *environment, a journal.Archiving, dry bool) string {
	out := env.out
	what := fmt.Sprintf("%s, %s and %s", count(uint64(a.Replies), "reply", "replies"), count(uint64(a.Calls), "call", "calls"), count(a.Records, "record", "records"))
	var s strings.Builder
	if a.Resumed > 0 {
		fmt.Fprintf(&s, "An earlier archive was completed: %s deleted.\n", count(a.Resumed, "record was", "records were"))
	}
	switch {
	case a.Records == 0 && len(a.HeldBack) > 0:
		s.WriteString("Nothing can be archived.\n")
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
	for _, h := range a.HeldBack {
		name := term.SafeLine(h.Name)
		fmt.Fprintf(&s, "%s: the destination %s of webhooks has not received %s. If no webhooks file names it any more, run %s.\n",
			count(uint64(h.Replies), "old reply stays", "old replies stay"), out.Bold(name), count(h.Waiting, "record", "records"), commandLineFor(env, "webhooks forget "+spelling.ShellWord(name), "creds"))
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
