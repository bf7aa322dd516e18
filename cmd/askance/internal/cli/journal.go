package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
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
	d := node.Damaged{Dir: node.Dir(env.cfg.dir()), Space: env.cfg.spaceID()}
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

func examText(out *term.Out, x *bus.Exam) string {
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
	has := func(is func(bus.Flaw) bool) bool { return slices.ContainsFunc(x.Flaws, is) }
	if has(func(f bus.Flaw) bool { return f.Kind == bus.FlawUnreadable }) {
		s.WriteString("With an embedded server, accept-loss also removes the later records of the same file.\n")
	}
	if has(func(f bus.Flaw) bool { return f.Through == 0 || f.Through > x.Signed }) {
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
			by.Confirm = func(x *bus.Exam) error { return confirmLoss(c.Context(), env, x, yes) }
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

func confirmLoss(ctx context.Context, env *environment, x *bus.Exam, yes bool) error {
	if yes {
		return nil
	}
	if !env.isInteractive() {
		return usagef("not a terminal: pass --yes to accept the loss that %s shows", commandLineFor(env, "journal check"))
	}
	env.notef("%s", examText(env.out, x))
	return env.confirm(ctx, "Accept that these records are lost?", errAborted)
}
