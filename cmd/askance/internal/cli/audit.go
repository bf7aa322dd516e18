package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/audit"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// auditor is an engine over NATS, or a data folder, as an auditor uses it.
type auditor interface {
	journal.Auditing
	Checkpoint(ctx context.Context) (*proof.Checkpoint, error)
}

func newAuditCommand(env *environment) *cobra.Command {
	return newGroup(&cobra.Command{
		Use:   "audit",
		Short: "Verify the audit log and export proofs",
		Long: `Every event record has the hash of the record before it, and engines sign checkpoints
over the whole journal. With the engine's public key (engine.pub), an auditor finds
records that were changed, removed, inserted or reordered.`,
		Example: `  askance audit verify
  askance audit export > journal.jsonl
  askance audit verify journal.jsonl --key engine.pub
  askance audit receipt call_42 > call_42.receipt
  askance audit check call_42.receipt --key engine.pub`,
	},
		newAuditVerifyCommand(env), newAuditCheckpointCommand(env), newAuditReceiptCommand(env),
		newAuditCheckCommand(env), newAuditExportCommand(env),
	)
}

// keyFiles are files with engines' public keys.
type keyFiles []string

func (k *keyFiles) flag(c *cobra.Command) {
	c.Flags().StringArrayVar((*[]string)(k), "key", nil, "file with the engine's public key (default engine.pub of the data folder); may be repeated")
	_ = c.MarkFlagFilename("key", "pub")
}

// load reads the keys, including retired ones, because records can be old. Without --key
// it reads the keys of the data folder.
func (k keyFiles) load(dir node.Dir) (toolcall.KeySet, proof.Retired, error) {
	if len(k) > 0 {
		return keyfile.LoadPublicEver(k...)
	}
	keys, retired, err := keyfile.LoadPublicEver(dir.PublicKeys())
	if errors.Is(err, fs.ErrNotExist) {
		if own, err := keyfile.Load(dir.Keys()); err == nil { // a restored folder has no engine.pub before serve ran
			return own.VerificationKeys(), own.RetirementTimes(), nil
		}
		return nil, nil, &message.Error{Code: message.CodeNotFound, Op: "audit", What: string(dir) + " has no engine.pub, so no signature can be verified", Hint: "name the data folder of the engine with --data, or pass the engine's public key with --key"}
	}
	return keys, retired, err
}

// openAuditSource opens an export, or the journal that the flags name. done closes it.
func openAuditSource(ctx context.Context, env *environment, args []string) (s *audit.Source, done func(), err error) {
	if len(args) == 1 && args[0] == "-" {
		return openAuditInput(env)
	}
	if len(args) == 1 {
		s, err = audit.OpenFile(args[0])
		return s, func() {}, err
	}
	l, err := env.connect(ctx, toolcall.RoleAuditor)
	if err != nil {
		return nil, nil, err
	}
	if s, err = audit.Open(ctx, l.audit, env.cfg.spaceID()); err != nil {
		l.Close()
		return nil, nil, err
	}
	if l.exam != nil {
		x, err := l.exam(ctx)
		if err != nil {
			l.Close()
			return nil, nil, err
		}
		if s.Flaws = x.Flaws; x.Archived == 0 { // the files of archives are read each time
			s.Verified = l.verified
		}
	}
	return s, l.Close, nil
}

// openAuditInput copies standard input into a file, because an export is read more than once.
func openAuditInput(env *environment) (s *audit.Source, done func(), err error) {
	f, err := os.CreateTemp("", "askance-audit-*.jsonl")
	if err != nil {
		return nil, nil, fmt.Errorf("audit: %w", err)
	}
	done = func() { _ = os.Remove(f.Name()) } // the system cleans its temporary folder
	_, err = io.Copy(f, env.in)
	if err = errors.Join(err, f.Close()); err == nil {
		s, err = audit.OpenFile(f.Name())
	}
	if err != nil {
		done()
	}
	return s, done, err
}

func newAuditBar(env *environment, what string, last uint64) (progress func(seq uint64), done func()) {
	if env.json || !env.err.Terminal() || last == 0 {
		return func(uint64) {}, func() {}
	}
	bar := progressbar.NewOptions64(int64(last), progressbar.OptionSetWriter(env.err), progressbar.OptionSetWidth(30), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(50*time.Millisecond))
	return func(seq uint64) { _ = bar.Set64(int64(seq)) }, func() { _ = bar.Finish() } // the bar is not essential
}

// newStageBar is newAuditBar for work of several stages. One goroutine at a time may report.
func newStageBar(env *environment) (progress func(what string, done, all uint64), done func()) {
	var now string
	set, end := func(uint64) {}, func() {}
	return func(what string, done, all uint64) {
		if what != now {
			end()
			now = what
			set, end = newAuditBar(env, what, all)
		}
		set(done)
	}, func() { end() }
}

func newAuditCheckpointCommand(env *environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "checkpoint",
		Short: "Sign all records that are not signed yet",
		Long: `Engines sign the journal every minute, after a thousand records, and when they stop.
This command signs it now and prints the name of the last checkpoint. Keep the name in
another place: askance audit verify --anchor checks that the checkpoint still exists.`,
		Example: `  askance audit checkpoint
  askance audit checkpoint --json`,
		Args: noArgs,
		RunE: connected(env, toolcall.RoleAuditor, func(ctx context.Context, l *link, _ []string) error {
			last, err := l.audit.Checkpoint(ctx)
			if err != nil {
				return err
			}
			if last == nil {
				return &message.Error{Code: message.CodeNotFound, Op: "checkpoint", What: "the journal is empty", Hint: "propose a call first"}
			}
			hash, err := last.Hash()
			if err != nil {
				return err
			}
			anchor := proof.Anchor{Number: last.Number, Hash: hash}
			return env.print(map[string]any{"anchor": anchor.String(), "checkpoint": last},
				fmt.Sprintf("Checkpoint %d signs records %d to %d with key %s.\n%s\n", last.Number, last.From, last.To, last.KeyID, env.out.Dim("anchor "+anchor.String())))
		}),
	}
	env.cfg.bindClient(c)
	return c
}

func newAuditExportCommand(env *environment) *cobra.Command {
	var e audit.Exporting
	var format, output, since, until string
	c := &cobra.Command{
		Use:   "export",
		Short: "Export the journal as JSON Lines, which can be verified, or as CSV",
		Long: `Writes records and checkpoints as JSON Lines (jsonl), which askance audit verify FILE
reads on any machine. Each line has the exact body of a record and a summary. csv has
only the summaries, one line for each record, for spreadsheets: an apostrophe precedes
text that a spreadsheet could read as a formula.

With a filter, each record can still be verified, but not that none is missing. A
record must match all filters; of several --state or --cause, one is enough.
Streamed events have only a session, a reply and a time.

Memory use is constant. The output file appears when it is complete.`,
		Example: `  askance audit export --output journal.jsonl
  askance audit export --session ticket-7 --approver ann
  askance audit export --format csv --tool pay --cause approve --since 2026-03-01T00:00:00Z > approved.csv`,
		Args: func(_ *cobra.Command, args []string) error {
			var err error
			if e.Filter.Since, e.Filter.Until, err = window(since, until, time.Now()); err != nil {
				return err
			}
			for _, s := range e.Filter.States {
				if err := checkWord("state", s, stateWords); err != nil {
					return err
				}
			}
			var causes []string
			for _, row := range toolcall.Table() {
				causes = append(causes, string(row.Cause))
			}
			for _, cause := range e.Filter.Causes {
				if !slices.Contains(causes, cause) {
					return usagef("--cause %q is not a step of a call%s", cause, didYouMean("", spelling.Nearest(cause, causes)))
				}
			}
			if err := checkWord("format", format, []string{"jsonl", "csv"}); err != nil {
				return err
			}
			e.CSV = format == "csv"
			return noArgs(nil, args)
		},
		RunE: func(c *cobra.Command, _ []string) error {
			s, done, err := openAuditSource(c.Context(), env, nil)
			if err != nil {
				return err
			}
			defer done()
			progress, end := newAuditBar(env, "export", s.Last)
			e.Progress = progress
			n := uint64(0)
			err = env.writeOutput(output, func(w io.Writer) error {
				n, err = audit.Export(w, s, e)
				return err
			})
			end()
			if err == nil && output != "" {
				env.notef("%s written to %s\n", count(n, "record", "records"), output)
			}
			return err
		},
	}
	env.cfg.bindClient(c)
	f := c.Flags()
	f.StringVar(&format, "format", "jsonl", "jsonl or csv")
	f.StringVar(&output, "output", "", "file to write (default standard output)")
	f.StringVar(&e.Filter.Session, "session", "", "only this session")
	f.StringVar(&e.Filter.Reply, "reply", "", "only this reply")
	f.StringVar(&e.Filter.Call, "call", "", "only this call")
	f.StringVar(&e.Filter.Tool, "tool", "", "only calls of this tool")
	f.StringVar(&e.Filter.Approver, "approver", "", "only records of calls to which this person had responded")
	f.StringArrayVar(&e.Filter.States, "state", nil, "only records after which the call was in this state; may be repeated")
	f.StringArrayVar(&e.Filter.Causes, "cause", nil, "only records with this step, such as approve or result; may be repeated")
	f.StringVar(&since, "since", "", "only records stored at this time or later: 24h (ago), 2026-03-01 or 2026-03-01T12:00:00Z")
	f.StringVar(&until, "until", "", "only records stored before this time, in the same forms")
	f.BoolVar(&e.Filter.NoEvents, "no-events", false, "leave out streamed events")
	return c
}

func newAuditReceiptCommand(env *environment) *cobra.Command {
	var ad address
	var output string
	c := &cobra.Command{
		Use:   "receipt CALL",
		Short: "Write a receipt: one file that proves the history of a call",
		Long: `Writes the event records of a call, each with its path to the root of a signed
checkpoint: the approval request, the responses and how their authors were
authenticated, the grants, the attempts, and the digest of the result. Records without
a signature are signed first. askance audit check verifies the file with only the
engine's public key.

A receipt does not contain text that rules redact. The engine signs what a redacted
record shows, so the receipt proves that as well.`,
		Example: `  askance audit receipt call_42 --output call_42.receipt
  askance audit receipt ticket-7/reply-1/call_42 > call_42.receipt`,
		Args:              oneCall(&ad),
		ValidArgsFunction: env.completeCalls(),
		RunE: func(c *cobra.Command, _ []string) error {
			return env.withCall(c.Context(), toolcall.RoleAuditor, &ad, func(l *link, call *toolcall.Call) error {
				r, err := journal.MakeReceipt(c.Context(), l.audit, call.Key)
				if err != nil {
					return err
				}
				b, err := r.Encode()
				if err != nil {
					return err
				}
				err = env.writeOutput(output, func(w io.Writer) error {
					_, err := w.Write(append(b, '\n'))
					return err
				})
				if err == nil && output != "" {
					env.notef("Receipt of %s written to %s: %s.\n", term.SafeLine(keyPath(call.Key)), output, count(uint64(len(r.Records)), "record", "records"))
				}
				return err
			})
		},
	}
	env.cfg.bindClient(c)
	ad.flags(env, c)
	c.Flags().StringVar(&output, "output", "", "file to write (default standard output)")
	return c
}

func newAuditCheckCommand(env *environment) *cobra.Command {
	var keys keyFiles
	c := &cobra.Command{
		Use:   "check FILE|-",
		Short: "Verify a receipt without a server",
		Long: `Verifies a receipt of askance audit receipt: the signatures of the checkpoints, the
path of each record to them, the chain of the records, and the digests of the approval
requests, responses and grants. The records must also follow the state machine. A
receipt that fails any check is refused with exit code 6.

A receipt proves what the engine recorded. It does not prove that the tool did what
its result says, or that the engine's clock was right.`,
		Example: `  askance audit check call_42.receipt --key engine.pub
  askance audit receipt call_42 | askance audit check - --json`,
		Args: wantArgs(1, "one receipt file, or - for standard input"),
		RunE: func(_ *cobra.Command, args []string) error {
			set, retired, err := keys.load(env.files())
			if err != nil {
				return err
			}
			b, err := readFile(env, "receipt", args[0], proof.MaxReceiptBytes)
			if err != nil {
				return err
			}
			checked, err := proof.CheckReceipt(b, set, retired)
			if err != nil {
				return err
			}
			return env.print(checked, receiptText(env.out, checked))
		},
	}
	env.cfg.bindAs(c, &env.cfg.Data, "data folder whose engine.pub is used without --key")
	keys.flag(c)
	return c
}

func receiptText(out *term.Out, c *proof.Checked) string {
	story := &c.Story
	s := newSheet(out, 9, fmt.Sprintf("%s %s, %s", out.Name(term.SafeLine(keyPath(c.Key))), out.Bold(term.SafeLine(story.Tool)), story.State))
	for _, q := range story.Requests {
		s.rowf("request", "%s %s", q.Digest, term.SafeLine(q.Request.Text))
		s.rowf("input", "%s", term.SafeLine(q.Request.Input))
	}
	for _, v := range story.Votes {
		s.rowf("response", "%s by %s at %s, on %s", v.Kind, out.Who(term.SafeLine(asked.Actor(v.By))), v.At.UTC().Format(time.RFC3339), v.Digest)
	}
	for _, g := range story.Grants {
		approved := []string{fmt.Sprintf("attempt %d", g.Attempt)}
		for _, by := range g.Approvals {
			approved = append(approved, "approved by "+out.Who(term.SafeLine(asked.Actor(by.By))))
		}
		s.rowf("grant", "%s, signed by key %s", strings.Join(approved, ", "), g.KeyID)
	}
	for _, t := range story.Attempts {
		if t.Worker != "" {
			s.rowf("attempt", "%d, started by %s at %s", t.Number, out.Who(term.SafeLine(t.Worker)), t.StartedAt.UTC().Format(time.RFC3339))
		}
	}
	if story.ResultState != "" {
		s.rowf("result", "%s %s", story.ResultState, story.ResultDigest)
	}
	s.rowf("records", "%d, from %d to %d, signed with key %s", c.Count, c.First, c.Last, strings.Join(c.KeyIDs, ", "))
	proved := "Proved: the engine recorded exactly these steps in this order."
	if c.Redacted > 0 {
		proved = fmt.Sprintf("Proved: the engine recorded exactly these steps in this order, %s of them redacted by rules.", fmt.Sprint(c.Redacted))
	}
	s.line(out.Good(proved))
	unproved := out.Dim("Not proved:")
	if !c.Ended {
		s.line(unproved + " how the call ended: it was still open.")
	}
	s.line(unproved + " that the tool did what its result says, and that the engine's clock was right. The owner of an engine's private key, even of a retired one, can write any receipt.")
	return s.String()
}
