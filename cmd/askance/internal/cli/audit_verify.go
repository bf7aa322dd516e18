package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/message/proof"
)

func newAuditVerifyCommand(env *environment) *cobra.Command {
	var keys keyFiles
	var o proof.Options
	var anchor string
	var full bool
	c := &cobra.Command{
		Use:   "verify [FILE|-]",
		Short: "Find changed, removed, inserted or reordered records",
		Long: `Compares every record with the signed checkpoints and with the chain of its call, and
lists each mismatch with its sequence and call. It reads the journal of a running
engine or of a data folder, or an export (FILE, or - for standard input), and changes
nothing.

Without a server, the command records in the data folder up to which checkpoint it found
nothing, and the next verification begins there. The output says which records were
verified now and which earlier. Only --full finds records that were changed after they
were verified: use it from time to time, and whenever you are in doubt.

Findings: changed, removed, inserted and reordered records; a journal that was
rolled_back or truncated; purged records (--purged-through accepts an intended purge,
because the proof of purged records remains); a bad_checkpoint or lost_checkpoint; a
journal with no_checkpoint. Records after the last checkpoint are protected only by the
chains of their calls; askance audit checkpoint signs them.

The owner of the engine's private key can write another journal. Store the printed
anchor where only you can change it, and pass it to the next verification with --anchor.

Exits with code 7 if there are findings.`,
		Example: `  askance audit verify
  askance audit verify --full
  askance audit verify --nats nats://nats.internal:4222 --creds auditor.creds --key engine.pub
  askance audit verify journal.jsonl --key engine.pub --json
  zcat journal.jsonl.gz | askance audit verify - --key engine.pub`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("expected at most one export, got %d arguments", len(args))
			}
			var err error
			o.Anchor, err = parseAnchor(anchor)
			return err
		},
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if o.Keys, o.Retired, err = keys.load(env.files()); err != nil {
				return err
			}
			s, done, err := openAuditSource(c.Context(), env, args)
			if err != nil {
				return err
			}
			defer done()
			progress, end := newAuditBar(env, "verify", s.Last)
			o.Progress = progress
			if err := s.Continue(c.Context(), &o, full); err != nil {
				env.notef("Reading all records: %s.\n", term.SafeLine(err.Error()))
			}
			r, err := s.Verify(o)
			end()
			if err != nil {
				return err
			}
			if err := s.Remember(c.Context(), r, o); err != nil {
				env.notef("The next verification cannot continue from this one: %s.\n", term.SafeLine(err.Error()))
			}
			return printVerification(env, r, len(args) == 0)
		},
	}
	env.cfg.bindClient(c)
	keys.flag(c)
	c.Flags().Uint64Var(&o.PurgedThrough, "purged-through", 0, "accept that the records up to this sequence were purged")
	c.Flags().BoolVar(&full, "full", false, "read all records, including those that were verified before")
	c.Flags().StringVar(&anchor, "anchor", "", "checkpoint that must exist, as NUMBER:HASH")
	return c
}

// parseAnchor reads what Anchor.String writes.
func parseAnchor(text string) (proof.Anchor, error) {
	if text == "" {
		return proof.Anchor{}, nil
	}
	number, hash, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(number, 10, 64)
	h, herr := proof.ParseHash(hash)
	if err != nil || herr != nil || n == 0 {
		return proof.Anchor{}, usagef("--anchor is %q, use NUMBER:sha256:HEX as askance audit checkpoint prints it", text)
	}
	return proof.Anchor{Number: n, Hash: h}, nil
}

// printVerification prints a report and ends with an error if there are findings. live says that it
// is about a journal, not an export.
func printVerification(env *environment, r *proof.Report, live bool) error {
	text := verificationText(env.out, r)
	if live && hasKind(r, proof.NoCheckpoint) && !hasKind(r, proof.LostCheckpoint) {
		text += "By default an engine signs new records every minute. Sign them now with askance audit checkpoint, then verify again. If it was signed before, its checkpoints are missing: do not sign.\n"
	}
	if err := env.print(r, text); err != nil || r.OK {
		return err
	}
	return findingsf("%s", count(uint64(r.Found), "finding", "findings"))
}

func hasKind(r *proof.Report, k proof.Kind) bool {
	return slices.ContainsFunc(r.Findings, func(f proof.Finding) bool { return f.Kind == k })
}

func verificationText(out *term.Out, r *proof.Report) string {
	s := newSheet(out, 9, out.Bold("Journal of the space "+term.SafeLine(string(r.Space))))
	if e := r.Earlier; e != nil {
		s.rowf("earlier", "%d to %d verified on %s, not read again", e.First, e.Checkpoint.To, e.At.Local().Format(time.DateTime))
		s.rowf("full", "last on %s; --full reads all records again", e.ReadAt.Local().Format(time.DateTime))
	}
	switch {
	case r.Records == 0 && r.Earlier != nil:
		s.rowf("records", "none are new")
	case r.Records == 0:
		s.rowf("records", "none")
	default:
		s.rowf("records", "%d to %d: %s, %s", r.First, r.Last, count(r.Records, "record", "records"), count(r.EventRecords, "event record", "event records"))
	}
	switch {
	case r.Partial:
		s.rowf("selection", "the export has a filter: records may be missing")
	case r.EventRecords == 0 && r.Earlier != nil:
	case r.EventRecords == 0:
		s.rowf("chained", "there are no event records")
	default:
		s.rowf("chained", "%s in %s", count(r.Chained, "event record", "event records"), count(r.Trees, "chain", "chains"))
	}
	if r.Redacted > 0 {
		s.rowf("redacted", "%s: the hash of the full body and the signed redaction prove them", count(r.Redacted, "record is", "records are"))
	}
	if r.Checkpoints > 0 {
		s.rowf("signed", "%d to %d, by %s, the last of %s", r.CoverFrom, r.CoverTo, count(r.Checkpoints, "checkpoint", "checkpoints"), r.LastAt.Local().Format(time.DateTime))
	}
	if r.Anchor.Number > 0 {
		s.rowf("anchor", "%s", r.Anchor)
	}
	if r.Archives > 0 {
		s.rowf("archived", "%s in %s", count(r.Archived, "record", "records"), count(r.Archives, "archive", "archives"))
	}
	if r.NotShown > 0 {
		s.rowf("", "%s proved but not shown, because files of archives are missing here: %s", count(r.NotShown, "record is", "records are"), shortList(r.Missing))
	}
	if r.Uncovered > 0 {
		s.rowf("unsigned", "%s not covered by a checkpoint: the last record of a call could be missing unnoticed", count(r.Uncovered, "record is", "records are"))
	}
	if r.Void > 0 {
		s.rowf("void", "%s: a NATS server stored each after the same record as an earlier one, or after such a record", count(r.Void, "record has no effect", "records have no effect"))
	}
	for _, v := range r.Voids {
		if v.Checkpoint > 0 {
			s.rowf("void", "checkpoint %d: %s", v.Checkpoint, v.What)
			continue
		}
		s.rowf("", "record %d of %s", v.Seq, out.Name(term.SafeLine(v.Call)))
	}
	for _, l := range r.Losses {
		s.rowf("loss", "accepted %s by %s: %s", l.At.Local().Format(time.DateTime), term.SafeLine(l.By), term.SafeLine(l.Reason))
		for _, m := range l.Missing {
			s.rowf("", "missing: %s", m)
		}
	}
	if r.OK {
		s.line(out.Good(noFindings(r)))
		if !r.Partial && r.CoverTo > 0 {
			s.line("Not proved: that nothing followed, and when the server stored a record. An anchor that you kept (--anchor) proves that the journal reaches it.")
		}
		return s.String()
	}
	for _, f := range r.Findings {
		s.line(findingText(out, f))
	}
	if more := r.Found - len(r.Findings); more > 0 {
		s.line(fmt.Sprintf("… and %d more", more))
	}
	return s.String()
}

// noFindings says what was verified without findings.
func noFindings(r *proof.Report) string {
	nothing := "Nothing"
	if len(r.Losses) > 0 {
		nothing = "Nothing else"
	}
	switch {
	case r.Earlier != nil && r.Records == 0:
		return "There is nothing new to verify."
	case r.Records == 0 && r.CoverTo < max(1, r.First):
		return "There is nothing to verify."
	case r.CoverTo == 0:
		return "No fault was found, but no checkpoint signs these records: this does not prove that nothing was changed or removed."
	case r.CoverTo < r.First:
		return "No fault was found. " + notSigned(r.First, r.Last)
	}
	text := fmt.Sprintf("%s was changed, removed, inserted or reordered from %d to %d.", nothing, r.First, r.CoverTo)
	if r.Partial {
		text = fmt.Sprintf("%s in the selection was changed, inserted or reordered from %d to %d.", nothing, r.First, r.CoverTo)
	}
	if r.Last > r.CoverTo {
		text += " " + notSigned(r.CoverTo+1, r.Last)
	}
	return text
}

func notSigned(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("Record %d is not signed.", from)
	}
	return fmt.Sprintf("Records %d to %d are not signed.", from, to)
}

func findingText(out *term.Out, f proof.Finding) string {
	text := out.Bad(string(f.Kind))
	switch {
	case f.Through > f.Seq:
		text += fmt.Sprintf(" %d to %d", f.Seq, f.Through)
	case f.Seq > 0:
		text += fmt.Sprintf(" %d", f.Seq)
	}
	if f.Call != "" {
		text += " of " + out.Name(term.SafeLine(f.Call))
	}
	if f.Checkpoint > 0 {
		text += out.Dim(fmt.Sprintf(" (checkpoint %d)", f.Checkpoint))
	}
	return text + ": " + term.SafeLine(f.What)
}
